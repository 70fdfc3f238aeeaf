// What is left of a job whose network is cut, or that loses a machine: the larger side shrinks and goes on, the smaller one is told that it may be that, and never do both go on. All of it
// in the time that docs/failure_model.md gives.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/losses.hpp"
#include "tests/support/machine_job.hpp"

namespace unisono::testing {
namespace {

constexpr double decided_within_s = 1;               // of one that was told of the loss
constexpr double shrunk_after_a_death_within_s = 5;  // that came in the middle of shrinking

class Survivors : public OnMachines {};

class MoreSurvivors : public Survivors {
 protected:
  void SetUp() override {
    Survivors::SetUp();
    if (!full_run() && !IsSkipped()) GTEST_SKIP() << "UNISONO_TEST_FULL=1 takes this";
  }
};

enum Round { told, agreed, shrunk, all_rounds };  // of what each rank goes through, noted in its outcomes

void expect_told(const Outcome& outcome, const std::vector<int>& lost, int64_t since_ns, double within_s) {
  expect_lost(outcome, lost);
  EXPECT_LT(seconds_between(since_ns, outcome.ended_ns), within_s) << outcome.text();
}

void expect_decided(const Outcomes& outcomes, int rank, ErrorCode code, const std::vector<std::string>& parts = {}) {
  SCOPED_TRACE(fmt::format("rank {}", rank));
  for (const Round round : {agreed, shrunk}) {
    const Outcome& outcome = outcomes.of(rank, round);
    ASSERT_TRUE(outcome.was_made());
    expect_parts(outcome, code, parts);
    EXPECT_LT(seconds_between(outcomes.of(rank, round - 1).ended_ns, outcome.ended_ns), decided_within_s) << outcome.text();
  }
}

void expect_sum_of_ones(const GroupHandle& group, int members) {
  std::vector<int32_t> one(50'000, 1);
  distributed::all_reduce(view(one), {.group = group});
  EXPECT_EQ(one.back(), members);
}

struct CutScene {
  std::vector<int> machine_of_rank;
  int lost;  // this machine
};

// All ranks make calls until the network of that machine is cut. Those of the others agree and shrink, those on it are refused.
void cut_off(const CutScene& scene) {
  constexpr double told_within_s = 10;
  const TestMachines machines(3);
  const MachineJob job{.machine_of_rank = scene.machine_of_rank};
  const Outcomes outcomes(job.ranks(), all_rounds);
  SharedArray<Signs> signs(1);
  std::vector<int> left, lost;
  for (int rank = 0; rank < job.ranks(); ++rank) (job.machine_of_rank[static_cast<size_t>(rank)] == scene.lost ? lost : left).push_back(rank);
  Children children(job.ranks(), [&](int rank) {
    become_rank(machines, job, rank);
    distributed::init_process_group({});
    outcomes.note(rank, told, [&] {
      for (int call = 0;; ++call) {
        expect_sum(rank, job.ranks(), 1000);
        if (call == 3) signs[0].ready += 1;
      }
    });
    outcomes.note(rank, agreed, [] { EXPECT_TRUE(distributed::agree(true)); });
    GroupHandle rest;
    const bool is_left = outcomes.note(rank, shrunk, [&] { rest = distributed::shrink_group(); }).code == ErrorCode::ok;
    if (is_left) {
      EXPECT_EQ(distributed::get_process_group_ranks(rest), left);
      expect_sum_of_ones(rest, static_cast<int>(left.size()));
      EXPECT_TRUE(distributed::agree(true, rest));
    }
    signs[0].rounds += 1;
    EXPECT_TRUE(await([&] { return signs[0].rounds == job.ranks(); }));
    distributed::destroy_process_group();
  }, 60);
  EXPECT_TRUE(await([&] { return signs[0].ready == job.ranks(); }));
  const int64_t cut_ns = now_ns();
  machines.cut_off(scene.lost);
  expect_all_succeeded(children.wait());
  for (int rank : left) expect_told(outcomes.of(rank, told), lost, cut_ns, told_within_s);
  for (int rank : lost) expect_told(outcomes.of(rank, told), left, cut_ns, told_within_s);
  for (int rank : left) expect_decided(outcomes, rank, ErrorCode::ok);
  for (int rank : lost) expect_decided(outcomes, rank, ErrorCode::revoked, {"smaller side"});
}

TEST_F(Survivors, of_three_machines_go_on_without_the_one_that_was_cut_off) { cut_off({{0, 0, 1, 1, 2, 2}, 2}); }
TEST_F(MoreSurvivors, go_on_without_the_machine_of_rank_0) { cut_off({{0, 1, 1, 2, 2}, 0}); }
TEST_F(MoreSurvivors, of_two_equal_machines_are_those_with_rank_0) { cut_off({{0, 0, 1, 1}, 1}); }
TEST_F(MoreSurvivors, need_not_have_rank_0) { cut_off({{0, 1, 1}, 0}); }

// Rank 2 is killed, and after it rank 5.
enum class Second {
  dies_at_once,          // perhaps while the others make the smaller group
  is_waited_for,         // all others shrink, which they cannot without its vote or its death
  dies_when_it_shrinks,  // itself; what it has said before stands
};

void kill_two(Second second) {
  constexpr double first_told_within_s = 1;
  const TwoMachines machines;
  const MachineJob job{.machine_of_rank = {0, 0, 0, 1, 1, 1}};
  const std::vector<int> survivors = {0, 1, 3, 4};
  const Outcomes outcomes(job.ranks(), all_rounds);
  SharedArray<Signs> signs(1);
  Children children(job.ranks(), [&](int rank) {
    become_rank(machines, job, rank);
    distributed::init_process_group({});
    expect_sum(rank, job.ranks(), 1000);
    signs[0].ready += 1;
    if (rank == 2 || (rank == 5 && second != Second::dies_when_it_shrinks)) await([] { return false; });
    outcomes.note(rank, told, [] { distributed::barrier(); });
    signs[0].rounds += 1;
    GroupHandle fewer;
    outcomes.note(rank, shrunk, [&] {
      const GroupHandle rest = distributed::shrink_group();
      if (rank == 5) await([] { return false; });
      if (distributed::get_world_size(rest) == 4) expect_sum_of_ones(rest, 4);
      fewer = distributed::shrink_group({}, rest);
    });
    EXPECT_EQ(distributed::get_process_group_ranks(fewer), survivors);
    expect_sum_of_ones(fewer, 4);
    distributed::destroy_process_group();
  }, 60);
  EXPECT_TRUE(await([&] { return signs[0].ready == job.ranks(); }));
  const int64_t first_ns = now_ns();
  children.kill(2);
  if (second == Second::is_waited_for) {
    EXPECT_TRUE(await([&] { return signs[0].rounds == 4; }));
    for (int rank : survivors) children.await_asleep(rank);
  }
  if (second == Second::dies_when_it_shrinks) { EXPECT_TRUE(await([&] { return outcomes.of(5, shrunk).entered_ns != 0; })); }
  const int64_t second_ns = now_ns();
  children.kill(5);
  const std::vector<Ending> endings = children.wait();
  for (int rank : survivors) {
    EXPECT_TRUE(endings[static_cast<size_t>(rank)].succeeded()) << endings[static_cast<size_t>(rank)].output;
    expect_told(outcomes.of(rank, told), {2, 5}, first_ns, first_told_within_s);
    EXPECT_EQ(outcomes.of(rank, shrunk).code, ErrorCode::ok) << outcomes.of(rank, shrunk).text();
    EXPECT_LT(seconds_between(second_ns, outcomes.of(rank, shrunk).ended_ns), shrunk_after_a_death_within_s);
    if (second == Second::is_waited_for) { EXPECT_GT(outcomes.of(rank, shrunk).ended_ns, second_ns) << "they went on without one that lives"; }
  }
}

TEST_F(Survivors, of_a_kill_on_every_machine_shrink_to_one_world) { kill_two(Second::dies_at_once); }
TEST_F(Survivors, of_a_death_that_all_who_shrink_wait_for_are_one_world) { kill_two(Second::is_waited_for); }
TEST_F(Survivors, of_a_death_in_the_middle_of_shrinking_are_one_world) { kill_two(Second::dies_when_it_shrinks); }

// Nobody on the other machines can say how they ended. So it may be cut off, as far as it knows, and does not go on alone.
TEST_F(Survivors, of_all_but_one_killed_is_told_within_two_seconds) {
  constexpr double told_within_s = 2;
  constexpr int left = 1;
  const TestMachines machines(3);
  const MachineJob job{.machine_of_rank = {0, 0, 1, 1, 2}};
  const std::vector<int> victims = {0, 2, 3, 4};
  const Outcomes outcomes(job.ranks(), all_rounds);
  SharedArray<Signs> signs(1);
  Children children(job.ranks(), [&](int rank) {
    become_rank(machines, job, rank);
    distributed::init_process_group({});
    expect_sum(rank, job.ranks(), 1000);
    signs[0].ready += 1;
    if (rank != left) await([] { return false; });
    outcomes.note(rank, told, [] { distributed::barrier(); });
    EXPECT_TRUE(await([&] { return distributed::failed_ranks() == victims; }));
    signs[0].killed_ns = now_ns();  // that is, known
    outcomes.note(rank, agreed, [] { distributed::agree(true); });
    outcomes.note(rank, shrunk, [] { distributed::shrink_group(); });
    distributed::destroy_process_group();
  }, 60);
  EXPECT_TRUE(await([&] { return signs[0].ready == job.ranks(); }));
  const int64_t killed_ns = children.kill_together(victims);
  const std::vector<Ending> endings = children.wait();
  EXPECT_TRUE(endings[left].succeeded()) << endings[left].output;
  expect_told(outcomes.of(left, told), victims, killed_ns, told_within_s);
  EXPECT_LT(seconds_between(killed_ns, signs[0].killed_ns), told_within_s) << "until it knew of all";
  for (const Round round : {agreed, shrunk}) {
    expect_parts(outcomes.of(left, round), ErrorCode::revoked, {"smaller side"});
    EXPECT_LT(outcomes.of(left, round).took_s(), decided_within_s);
  }
}

}  // namespace
}  // namespace unisono::testing
