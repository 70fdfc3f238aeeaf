// Machines that fall silent: power or wire are gone, in both directions or in one, for a moment or for good. And those that only seem so: stopped processes, connections that
// somebody on the way has reset, a pause that heals.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/support/losses.hpp"
#include "tests/support/machine_job.hpp"
#include "tests/support/relay.hpp"

namespace unisono::testing {
namespace {

constexpr double told_within_s = 10;

class Silence : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = cannot_relay(); !why.empty()) GTEST_SKIP() << why;
    if (under_thread_sanitizer()) GTEST_SKIP() << "starts processes";
  }
};

// All of them take two minutes, of which most is waiting.
class LongSilence : public Silence {
 protected:
  void SetUp() override {
    Silence::SetUp();
    if (!full_run() && !IsSkipped()) GTEST_SKIP() << "UNISONO_TEST_FULL=1 takes this";
  }
};

// Ranks that have joined, and make calls of so many elements, one after the other, until one fails or the test has said that it is enough.
class Calling {
 public:
  Calling(const TestMachines& machines, const MachineJob& job, size_t count = 10)
      : outcomes_(job.ranks()), children_(job.ranks(), [&, job, count](int rank) {
          become_rank(machines, job, rank);
          distributed::init_process_group({});
          outcomes_.note(rank, [&] { call_until_enough(rank, job.ranks(), count); });
          signs_[0].rounds += 1;
          EXPECT_TRUE(await([&] { return signs_[0].rounds >= signs_[0].ready; }));  // who leaves at once would be seen to leave
          distributed::destroy_process_group();
        }, 90) {
    signs_[0].ready = job.ranks();
    for (int rank = 0; rank < job.ranks(); ++rank) EXPECT_TRUE(await([&] { return calls_[rank] >= 3; })) << "rank " << rank << " makes no calls";
  }

  void happens() { signs_[0].killed_ns = now_ns(); }
  // Between two calls, all of them: nothing is on the wire but what kernels ask each other.
  void pause() {
    signs_[0].go = paused;
    for (int rank = 0; rank < outcomes_.ranks(); ++rank) EXPECT_TRUE(await([&] { return pauses_[rank] == 1; }));
  }
  void go_on() { signs_[0].go = calling; }
  int calls(int rank) const { return calls_[rank]; }
  Children& children() { return children_; }
  // What each rank was told; of those whose processes were ended nothing is expected.
  void expect_told(const std::vector<int>& ranks, const std::vector<int>& lost, const std::vector<std::string>& parts) {
    for (int rank : ranks) {
      ASSERT_TRUE(await([&] { return outcomes_.of(rank).was_made(); })) << "rank " << rank << " hangs";
      const Outcome& outcome = outcomes_.of(rank);
      expect_lost(outcome, lost);
      for (const std::string& part : parts) EXPECT_NE(outcome.text().find(part), std::string::npos) << "rank " << rank << ": " << outcome.text();
      EXPECT_LT(seconds_between(signs_[0].killed_ns, outcome.ended_ns), told_within_s) << outcome.text();
    }
  }
  void expect_more_calls(const std::vector<int>& ranks) const {
    for (int rank : ranks)
      EXPECT_TRUE(await([&, now = calls(rank)] { return calls(rank) > now + 3 || outcomes_.of(rank).was_made(); })) << "rank " << rank;
  }
  void expect_all_is_well() {
    signs_[0].go = enough;
    expect_all_succeeded(children_.wait());
    for (int rank = 0; rank < outcomes_.ranks(); ++rank) EXPECT_EQ(outcomes_.of(rank).code, ErrorCode::ok) << outcomes_.of(rank).text();
  }
  bool nobody_was_told() const {
    for (int rank = 0; rank < outcomes_.ranks(); ++rank)
      if (outcomes_.of(rank).was_made()) return false;
    return true;
  }

 private:
  enum : int { calling, paused, enough };  // what the test wants

  // All stop after the same call.
  void call_until_enough(int rank, int ranks, size_t count) {
    for (int wanted = calling; wanted != enough;) {
      expect_sum(rank, ranks, count);
      std::vector<int> said{signs_[0].go};
      distributed::all_reduce(view(said), {.op = ReduceOp::max});
      wanted = said[0];
      calls_[rank] += 1;
      if (wanted != paused) continue;
      pauses_[rank] = 1;
      EXPECT_TRUE(await([&] { return signs_[0].go != paused; }));
    }
  }

  Outcomes outcomes_;
  SharedArray<Signs> signs_{1};
  SharedArray<std::atomic<int>> calls_{64}, pauses_{64};
  Children children_;
};

void swallow(const RelayedMachines& machines, bool from_one, bool from_two) {
  machines.faults().swallows[0] = from_one;
  machines.faults().swallows[1] = from_two;
}

// What was sent last is acknowledged a moment later.
void await_quiet(const RelayedMachines& machines) {
  constexpr double a_moment_s = 0.2;
  auto is_quiet = [&, seen = int64_t{-1}]() mutable {
    seen = machines.faults().packets;
    return !await([&] { return machines.faults().packets != seen; }, a_moment_s);
  };
  EXPECT_TRUE(await(is_quiet)) << "the wire is never quiet";
}

TEST_F(Silence, of_a_machine_is_told_to_all_ranks_of_the_other) {
  const RelayedMachines machines;
  Calling calling(machines, {.machine_of_rank = {0, 0, 1, 1}}, 300'000);
  calling.happens();
  swallow(machines, true, true);
  calling.expect_told({0, 1}, {2, 3}, {"is silent", "ranks 2, 3", "2 of 4 ranks are left"});
  calling.expect_told({2, 3}, {0, 1}, {"is silent", "ranks 0, 1"});
}

TEST_F(Silence, in_one_direction_is_silence) {
  const RelayedMachines machines;
  Calling calling(machines, {.machine_of_rank = {0, 1}});
  calling.pause();
  await_quiet(machines);  // what comes again and again because it is not acknowledged is no silence
  calling.go_on();
  calling.expect_more_calls({0, 1});
  calling.happens();
  swallow(machines, true, false);
  calling.expect_told({0}, {1}, {"is silent"});
  calling.expect_told({1}, {0}, {"is silent"});
}

// In the middle of calls, which go on.
void expect_forgotten(double silent_s) {
  const RelayedMachines machines;
  Calling calling(machines, {.machine_of_rank = {0, 1, 1}}, 10'000);
  swallow(machines, true, true);
  EXPECT_FALSE(await([&] { return !calling.nobody_was_told(); }, silent_s));
  swallow(machines, false, false);
  calling.expect_more_calls({0, 1, 2});
  calling.expect_all_is_well();
}

TEST_F(Silence, for_two_seconds_leaves_no_trace) { expect_forgotten(2); }

// Who is asked every second answers before eight have passed.
TEST_F(LongSilence, for_nearly_as_long_as_it_takes_loses_nobody) { expect_forgotten(6.5); }

TEST_F(Silence, of_some_seconds_makes_a_warning_and_ends_with_another) {
  const RelayedMachines machines;
  Calling calling(machines, {.machine_of_rank = {0, 1}});
  swallow(machines, true, true);
  calling.children().await_output(0, "the machine of ranks [1]");
  calling.children().await_output(0, "has not answered for 3 s");
  swallow(machines, false, false);
  calling.children().await_output(0, "answers again");
  calling.expect_all_is_well();
}

// A box on the way may reset what is idle. The watch is taken up again, which the silence at the end shows.
TEST_F(LongSilence, is_noticed_after_idle_connections_were_reset) {
  const RelayedMachines machines;
  Calling calling(machines, {.machine_of_rank = {0, 1}});
  calling.pause();
  await_quiet(machines);
  machines.faults().idle_resets = 4;  // both that there are, and some that take their place
  EXPECT_TRUE(await([&] { return machines.faults().reset == 4; })) << "nothing is asked on idle connections";
  calling.go_on();
  calling.expect_more_calls({0, 1});
  calling.happens();
  swallow(machines, true, true);
  calling.expect_told({0, 1}, {0, 1}, {"is silent"});
}

// Its kernel answers, and knows nothing of the job: here it is another machine, which has got its address.
TEST_F(LongSilence, of_a_machine_that_was_started_anew_is_told) {
  const TestMachines machines(3);
  Calling calling(machines, {.machine_of_rank = {0, 0, 1, 1}});
  calling.happens();
  machines.cut_off(1);
  machines.run_in(2, "ip addr add " + TestMachines::address(1) + "/24 dev wire");
  machines.run_in(0, "ip neigh flush dev wire");
  calling.expect_told({0, 1}, {2, 3}, {"is silent"});
  calling.expect_told({2, 3}, {0, 1}, {"is silent"});
}

// Nobody there runs, and the kernel answers.
TEST_F(Silence, is_not_what_stopped_processes_are) {
  const TwoMachines machines;
  Calling calling(machines, {.machine_of_rank = {0, 0, 1, 1}, .variables = {{"UNISONO_TIMEOUT", "60"}}});
  const double stopped_s = full_run() ? 30 : 12;
  for (int rank : {2, 3}) calling.children().signal(rank, SIGSTOP);
  EXPECT_FALSE(await([&] { return !calling.nobody_was_told(); }, stopped_s));
  for (int rank : {2, 3}) calling.children().signal(rank, SIGCONT);
  calling.expect_more_calls({0, 1, 2, 3});
  calling.expect_all_is_well();
}

TEST_F(Silence, is_told_by_the_next_rank_where_the_agent_is_stopped) {
  const RelayedMachines machines;
  Calling calling(machines, {.machine_of_rank = {0, 0, 1}});
  calling.children().signal(0, SIGSTOP);
  calling.children().await_stopped(0);
  calling.happens();
  swallow(machines, true, true);
  calling.expect_told({1}, {2}, {"is silent", "as rank 1 saw"});
  calling.children().signal(0, SIGCONT);
}

TEST_F(LongSilence, of_one_of_three_is_told_to_both_others) {
  const TestMachines machines(3);
  Calling calling(machines, {.machine_of_rank = {0, 1, 1, 2, 2}});
  calling.happens();
  machines.cut_off(0);
  calling.expect_told({1, 2, 3, 4}, {0}, {"is silent"});
  calling.expect_told({0}, {1, 2, 3, 4}, {"is silent", "1 of 5 ranks are left on this side"});
}

// All but one rank do nothing, while that one waits for rank 0, whose machine goes; nobody else is in their group.
void expect_told_alone(const TestMachines& machines, const MachineJob& job, int waiting) {
  const Outcomes outcomes(job.ranks());
  SharedArray<Signs> signs(1);
  Children children(job.ranks(), [&](int rank) {
    become_rank(machines, job, rank);
    distributed::init_process_group({});
    const GroupHandle pair = distributed::new_group({0, waiting});
    expect_sum(rank, job.ranks(), 10);
    signs[0].ready += 1;
    std::vector<float> data(10);
    if (rank == waiting) outcomes.note(rank, [&] { distributed::all_reduce(view(data), {.group = pair}); });
    EXPECT_TRUE(await([&] { return signs[0].go == 1; }));
    distributed::destroy_process_group();
  }, 60);
  EXPECT_TRUE(await([&] { return signs[0].ready == job.ranks(); }));
  const int64_t cut_ns = now_ns();
  machines.cut_off(0);
  EXPECT_TRUE(await([&] { return outcomes.of(waiting).was_made(); })) << "rank " << waiting << " hangs";
  expect_lost(outcomes.of(waiting), {0});
  EXPECT_NE(outcomes.of(waiting).text().find("is silent"), std::string::npos) << outcomes.of(waiting).text();
  EXPECT_LT(seconds_between(cut_ns, outcomes.of(waiting).ended_ns), told_within_s) << outcomes.of(waiting).text();
  signs[0].go = 1;
  expect_all_succeeded(children.wait());
}

// Rank 1 has done its part, and left the group; rank 0 knows that. But what rank 1 had sent is still on its way when its machine goes.
TEST_F(LongSilence, loses_what_was_sent_by_one_that_had_left) {
  const RelayedMachines machines;
  const MachineJob job{.machine_of_rank = {0, 1}};
  const Outcomes outcomes(job.ranks());
  SharedArray<Signs> signs(1);
  Children children(job.ranks(), [&](int rank) {
    become_rank(machines, job, rank);
    distributed::init_process_group({});
    const GroupHandle pair = distributed::new_group({0, 1});
    std::vector<float> data(4'000);  // more than a packet, and no more than any kernel takes at once
    distributed::broadcast(view(data), {.src = 1, .group = pair});
    signs[0].ready += 1;
    EXPECT_TRUE(await([&] { return signs[0].go == 1; }));
    if (rank == 0) outcomes.note(rank, [&] { distributed::broadcast(view(data), {.src = 1, .group = pair}); });
    if (rank == 1) distributed::broadcast(view(data), {.src = 1, .group = pair});
    if (rank == 1) distributed::destroy_process_group(pair);
    signs[0].rounds += rank;
    EXPECT_TRUE(await([&] { return outcomes.of(0).was_made(); }));
    distributed::destroy_process_group();
  }, 60);
  EXPECT_TRUE(await([&] { return signs[0].ready == job.ranks(); }));
  machines.faults().longest_bytes = 600;  // the data is held up, and what ranks tell each other is not
  signs[0].go = 1;
  EXPECT_TRUE(await([&] { return signs[0].rounds == 1; })) << "rank 1 does not leave";
  await_quiet(machines);
  const int64_t cut_ns = now_ns();
  swallow(machines, true, true);
  EXPECT_TRUE(await([&] { return outcomes.of(0).was_made(); })) << "rank 0 hangs";
  expect_lost(outcomes.of(0), {1});
  for (const char* part : {"had finished", "fallen silent"}) EXPECT_NE(outcomes.of(0).text().find(part), std::string::npos) << outcomes.of(0).text();
  EXPECT_LT(seconds_between(cut_ns, outcomes.of(0).ended_ns), told_within_s) << outcomes.of(0).text();
  expect_all_succeeded(children.wait());
}

// Every machine has the same docker0, and the other's rank may have told of a port that this one listens at there. Whoever answers at it is not the other machine.
TEST_F(Silence, is_not_broken_by_oneself) {
  const TwoMachines machines;
  for (int machine : {0, 1}) machines.run_in(machine, "ip link add docker0 type bridge && ip addr add 172.17.0.1/16 dev docker0 && ip link set docker0 up");
  Calling calling(machines, {.machine_of_rank = {0, 1}, .variables = {{"UNISONO_PORT_RANGE", "20000-20000"}}});
  calling.happens();
  machines.cut_wire();
  for (int rank : {0, 1}) calling.expect_told({rank}, {1 - rank}, {"is silent"});
}

// Its mates watch.
TEST_F(Silence, is_told_to_the_third_rank_of_a_machine) { expect_told_alone(TestMachines(3), {.machine_of_rank = {0, 1, 1, 1}}, 3); }

// Which has nothing to do with the one that is gone.
TEST_F(LongSilence, is_told_to_a_machine_three_further_on) { expect_told_alone(TestMachines(6), {.machine_of_rank = {0, 1, 2, 3, 4, 5}}, 3); }

TEST_F(Silence, follows_when_an_interface_goes_down_or_away) {
  std::vector<std::string> commands = {"ip link del wire"};
  if (full_run()) commands.push_back("ip link set wire down");
  for (const std::string& command : commands) {
    const TwoMachines machines;
    Calling calling(machines, {.machine_of_rank = {0, 1}}, 100'000);
    calling.happens();
    machines.run_in(1, command);
    calling.expect_told({0, 1}, {0, 1}, {"is silent"});
  }
}

}  // namespace
}  // namespace unisono::testing
