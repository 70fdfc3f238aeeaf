// Every named point of the code × every rank × the first passages: the process is killed there, or stopped, and the others are told, or
// had all they needed. The points are compiled into debug and sanitizer builds only.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>

#include "dialects/default_world.hpp"
#include "tests/support/losses.hpp"

namespace unisono::testing {
namespace {

const std::vector<std::string> joining_points = {"before_join", "join_said_hello", "join_mapped", "joined"};
const std::vector<std::string> working_points = {
    "group_published", "before_announcement", "announced", "run_step", "exchange_shown", "exchange_seen", "exchange_combined", "before_finish"};
const std::vector<std::string> other_points = {"ring_written", "ring_published", "mail_read", "agree_said"};
const std::string telling_point = "fault_told";

constexpr int calls = 6;             // more than passages of any point, so that whoever dies does so before the last
constexpr int rounds = 2 + calls;    // joining, making a group, and the calls on it
constexpr double join_timeout_s = 0.5;

constexpr bool compiled_in() {
#ifdef UNISONO_FAULT_POINTS
  return true;
#else
  return false;
#endif
}

class FaultPoints : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!compiled_in()) GTEST_SKIP() << "this build has no fault points: configure with -DUNISONO_FAULT_POINTS=ON";
    if (under_thread_sanitizer()) GTEST_SKIP() << "kills processes";
  }
};

// What the ranks do again and again.
using Deed = std::function<void(const GroupHandle& group, const CallChoice& call)>;

void call_once(const GroupHandle& group, const CallChoice& call) {
  Scratch scratch;
  make_call(group, scratch, call);
}

// A letter to the next rank and one from the rank before, and a call, since letters alone do not concern everybody.
void pass_letters(const GroupHandle& group, const CallChoice& call) {
  const int me = distributed::get_rank(group), ranks = distributed::get_world_size(group);
  std::vector<float> given(static_cast<size_t>(call.count)), got(given.size());
  WorkPtr work = distributed::isend(view(given), 0, {.group = group, .group_peer = (me + 1) % ranks});
  distributed::recv(view(got), {}, {.group = group, .group_peer = (me + ranks - 1) % ranks});
  work->wait();
  distributed::barrier({.group = group});
}

void agree_and_meet(const GroupHandle& group, const CallChoice&) {
  EXPECT_TRUE(distributed::agree(true, group));
  distributed::barrier({.group = group});
}

struct Fault {
  std::string point;
  int passage = 1, victim = 0, ranks = 4;
  CallChoice call;
  Deed deed = call_once;
};

void live(int rank, const WorldChoice& choice, const Fault& fault, const Outcomes& outcomes) {
  Result<std::shared_ptr<World>> world = Status(ErrorCode::internal, "not tried");
  outcomes.note(rank, 0, [&] {
    world = join_as(rank, choice.size, choice.job, choice.settings);
    throw_if_error(world.status());
  });
  if (!world.ok()) return;
  SpeakAs speak(*world);
  GroupHandle group;
  std::vector<int> everybody;
  for (int member = 0; member < choice.size; ++member) everybody.push_back(member);
  bool ok = outcomes.note(rank, 1, [&] { group = distributed::new_group(everybody); }).code == ErrorCode::ok;
  for (int round = 2; ok && round < rounds; ++round)
    ok = outcomes.note(rank, round, [&] { fault.deed(group, fault.call); }).code == ErrorCode::ok;
  (*world)->leave();
}

// The dead is named, or a survivor that gave up before because of it.
void expect_names(const Outcome& outcome, const Fault& fault, const Outcomes& outcomes) {
  const bool says_victim = outcome.text().find(fmt::format("rank {}", fault.victim)) != std::string::npos ||
                           outcome.text().find(fmt::format("missing: {}", fault.victim)) != std::string::npos;
  const bool names_one_who_failed = outcome.peer >= 0 && outcomes.of(outcome.peer).code != ErrorCode::ok;
  EXPECT_TRUE(says_victim || names_one_who_failed) << outcome.text();
}

void check_survivor(int rank, const Fault& fault, const Outcomes& outcomes, bool killed) {
  bool failed = false;
  for (int round = 0; round < rounds && !failed; ++round) {
    const Outcome& outcome = outcomes.of(rank, round);
    ASSERT_TRUE(outcome.was_made()) << "rank " << rank << ", round " << round;
    EXPECT_LT(outcome.took_s(), round == 0 ? join_timeout_s + 1 : 1.0) << "rank " << rank << ": " << outcome.text();
    failed = outcome.code != ErrorCode::ok;
    if (!failed) continue;
    EXPECT_TRUE(killed) << "nobody was killed, but rank " << rank << " got " << outcome.text();
    EXPECT_EQ(outcome.code, round == 0 ? ErrorCode::init : ErrorCode::peer_lost) << "rank " << rank << ", round " << round << ": " << outcome.text();
    expect_names(outcome, fault, outcomes);
  }
  EXPECT_EQ(failed, killed) << "rank " << rank;
}

// Whether the point was reached, so that somebody died.
bool expect_told(const Fault& fault) {
  SCOPED_TRACE(fmt::format("rank {} of {} dies at passage {} of {} in {} of {}", fault.victim, fault.ranks, fault.passage, fault.point,
                           name_of(fault.call.kind), fault.call.count));
  Outcomes outcomes(fault.ranks, rounds);
  WorldChoice choice{.size = fault.ranks};
  choice.settings.join_timeout_s = join_timeout_s;
  if (fault.point == "exchange_combined") choice.settings.cores = 1;  // who has a core for every rank never comes there
  choice.settings.fault = fmt::format("{}:{}:{}", fault.point, fault.passage, fault.victim);
  Children children(fault.ranks, [&](int rank) { live(rank, choice, fault, outcomes); });
  std::vector<Ending> endings = children.wait();
  const bool killed = endings[static_cast<size_t>(fault.victim)].killed_by(SIGKILL);
  for (int rank = 0; rank < fault.ranks; ++rank) {
    const Ending& ending = endings[static_cast<size_t>(rank)];
    if (rank == fault.victim && killed) continue;
    EXPECT_TRUE(ending.succeeded()) << ending.output;
    check_survivor(rank, fault, outcomes, killed);
  }
  return killed;
}

std::vector<CallChoice> choices() {
  std::vector<CallChoice> choices = {{.count = 8}, {.count = 200'000}};
  if (small_run()) return choices;
  choices.push_back({.kind = Collective::all_gather, .count = 5000});
  choices.push_back({.kind = Collective::broadcast, .count = 30'000});
  choices.push_back({.kind = Collective::barrier});
  return choices;
}

std::vector<std::pair<int, int>> victims_and_ranks() {
  if (small_run()) return {{0, 4}, {2, 4}, {1, 2}};
  return {{0, 4}, {1, 4}, {2, 4}, {3, 4}, {0, 2}, {1, 2}};
}

TEST(FaultPointNames, are_those_of_the_sources) {
  std::set<std::string> named(joining_points.begin(), joining_points.end()), found;
  named.insert(working_points.begin(), working_points.end());
  named.insert(other_points.begin(), other_points.end());
  named.insert(telling_point);
  const std::regex use("FAULT_POINT\\(\"([a-z_]+)\"\\)");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(UNISONO_SOURCE_DIRECTORY "/src")) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path());
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    for (std::sregex_iterator match(text.begin(), text.end(), use), end; match != end; ++match) found.insert((*match)[1]);
  }
  EXPECT_EQ(found, named);
}

class FaultPointsAtWork : public FaultPoints, public ::testing::WithParamInterface<std::string> {};

TEST_P(FaultPointsAtWork, kill_one_rank_and_tell_the_others) {
  int deaths = 0;
  const int passages = full_run() ? 5 : 4;  // the first is in the group that joining makes
  for (auto [victim, ranks] : victims_and_ranks())
    for (const CallChoice& call : choices())
      for (int passage = 1; passage <= passages && !HasFailure(); ++passage)
        deaths += expect_told({GetParam(), passage, victim, ranks, call});
  EXPECT_GT(deaths, 0) << "nobody ever came to " << GetParam();
}

INSTANTIATE_TEST_SUITE_P(Every, FaultPointsAtWork, ::testing::ValuesIn(working_points), [](const auto& info) { return info.param; });

class FaultPointsOfOthers : public FaultPoints, public ::testing::WithParamInterface<std::string> {};

TEST_P(FaultPointsOfOthers, kill_one_rank_and_tell_the_others) {
  int deaths = 0;
  const Deed deed = GetParam().starts_with("agree_") ? agree_and_meet : pass_letters;
  for (auto [victim, ranks] : victims_and_ranks())
    for (int64_t count : {8, 100'000})
      for (int passage = 1; passage <= 4 && !HasFailure(); ++passage)
        deaths += expect_told({GetParam(), passage, victim, ranks, {.count = count}, deed});
  EXPECT_GT(deaths, 0) << "nobody ever came to " << GetParam();
}

INSTANTIATE_TEST_SUITE_P(Every, FaultPointsOfOthers, ::testing::ValuesIn(other_points), [](const auto& info) { return info.param; });

class FaultPointsOfJoining : public FaultPoints, public ::testing::WithParamInterface<std::string> {};

TEST_P(FaultPointsOfJoining, kill_one_rank_and_tell_the_others) {
  int deaths = 0;
  for (auto [victim, ranks] : victims_and_ranks()) deaths += expect_told({GetParam(), 1, victim, ranks, {}});
  EXPECT_GT(deaths, 0) << "nobody ever came to " << GetParam();
}

INSTANTIATE_TEST_SUITE_P(Every, FaultPointsOfJoining, ::testing::ValuesIn(joining_points), [](const auto& info) { return info.param; });

// Rank 0 aborts the group and dies, or is stopped, when it has told one other host, that of rank 2. It had done its part of what rank 3 waits for, from rank 2; so nothing is wrong there but the fault, which of those who are left
// rank 2 alone has heard. Rank 1 had left before; it is there for rank 3 to know that rank 0 did its part.
enum class Teller { dies, is_stopped };
using Waiting = std::function<void(int rank, const GroupHandle& group)>;

void expect_heard_of_abort(Teller teller, const Waiting& waits) {
  constexpr int size = 4;
  constexpr double heard_within_s = 2;
  constexpr double asks_after_s = 0.3;  // for the first time, when nothing is wrong yet: it has to ask again
  const Outcomes outcomes(size);
  const SharedArray<std::atomic<int>> done(2);
  const SharedArray<int64_t> aborted_ns(1);
  WorldChoice choice{.size = size};
  choice.settings.pretend_hosts = "2,1,1";
  choice.settings.fault = telling_point + ":1:0" + (teller == Teller::is_stopped ? ":stop" : "");
  Children children(size, [&](int rank) {
    auto world = join_as(rank, size, choice.job, choice.settings);
    throw_if_error(world.status());
    SpeakAs speak(*world);
    const GroupHandle group = distributed::new_group({0, 1, 2, 3});
    if (rank == 3) outcomes.note(rank, [&] { waits(rank, group); });
    if (rank < 2) waits(rank, group);
    if (rank == 1) distributed::destroy_process_group(group);
    done[0] += rank == 1;
    auto has_asked = [&] { return outcomes.has_entered(3) && seconds_between(outcomes.of(3).entered_ns, now_ns()) > asks_after_s; };
    EXPECT_TRUE(rank != 0 || await([&] { return done[0] == 1 && has_asked(); }));
    if (rank == 0) aborted_ns[0] = now_ns();
    if (rank == 0) distributed::abort(group, "enough");
    EXPECT_TRUE(await([&] { return outcomes.of(3).was_made(); }));
    done[1] += 1;
    EXPECT_TRUE(await([&] { return done[1] >= size - 1; })) << "who leaves would be seen to leave";
    (*world)->leave();
  });
  if (teller == Teller::is_stopped) {
    children.await_stopped(0);
    EXPECT_TRUE(await([&] { return outcomes.of(3).was_made(); })) << "rank 3 hangs";
    children.signal(0, SIGCONT);
  }
  const std::vector<Ending> endings = children.wait();
  EXPECT_TRUE(teller == Teller::dies ? endings[0].killed_by(SIGKILL) : endings[0].succeeded()) << endings[0].output;
  for (size_t rank : {1, 2, 3}) EXPECT_TRUE(endings[rank].succeeded()) << endings[rank].output;
  EXPECT_EQ(outcomes.of(3).code, ErrorCode::revoked) << outcomes.of(3).text();
  EXPECT_NE(outcomes.of(3).text().find("rank 0 aborted"), std::string::npos) << outcomes.of(3).text();
  EXPECT_LT(seconds_between(aborted_ns[0], outcomes.of(3).ended_ns), heard_within_s);
}

void wait_in_a_call(int, const GroupHandle& group) {
  std::vector<float> data(10, 1);
  distributed::reduce(view(data), 3, {.group = group});
}

void wait_for_a_letter(int rank, const GroupHandle& group) {
  std::vector<float> data(10);
  if (rank == 3) distributed::recv(view(data), 2, {.group = group});
}

TEST_F(FaultPoints, a_fault_that_was_told_to_one_host_is_heard_by_who_waits_in_a_call) { expect_heard_of_abort(Teller::dies, wait_in_a_call); }
TEST_F(FaultPoints, a_fault_that_was_told_to_one_host_is_heard_by_who_waits_for_a_letter) { expect_heard_of_abort(Teller::dies, wait_for_a_letter); }
TEST_F(FaultPoints, a_fault_whose_teller_is_stopped_is_heard_by_who_waits_in_a_call) { expect_heard_of_abort(Teller::is_stopped, wait_in_a_call); }
TEST_F(FaultPoints, a_fault_whose_teller_is_stopped_is_heard_by_who_waits_for_a_letter) { expect_heard_of_abort(Teller::is_stopped, wait_for_a_letter); }

}  // namespace
}  // namespace unisono::testing
