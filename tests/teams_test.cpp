// Steps that go by a team of ranks instead of by all: their text, what verify makes of them and what they cost. Broken schedules are made
// from good ones by one change.
#include <gtest/gtest.h>

#include "schedule/cost.hpp"
#include "schedule/text.hpp"
#include "tests/support/schedules.hpp"

namespace unisono::testing {
namespace {

TEST(Teams, and_hosts_stand_before_the_steps) {
  Schedule schedule = find_algorithm(Collective::exscan, "direct")->generate({2, 4, 0});
  schedule.place.hosts = Hosts(std::vector{0, 0, 1, 1});
  EXPECT_EQ(text_of(schedule),
            "schedule exscan direct rank 2 of 4 root 0 chunks 1 stage_slots 1 scratch_chunks 0 gathered_chunks 0\n"
            "hosts 2,2\n"
            "team[0] 0 1\n"
            "    0  copy input[0] -> stage[0]\n"
            "    1  publish flag 0\n"
            "    2  await flag 0 of everyone\n"
            "    3  reduce_peers none + stage[0] of team[0] -> output[0] scaling\n");
}

TEST(Teams, have_one_number_each_and_all_ranks_have_none) {
  Builder plan(Collective::barrier, "teams", {0, 3, 0});
  EXPECT_EQ(plan.team({0, 1, 2}), everyone);
  EXPECT_EQ(plan.team({0, 2}), 0);
  EXPECT_EQ(plan.team({1}), 1);
  EXPECT_EQ(plan.team({0, 2}), 0);
}

TEST(Teams, that_cannot_be_are_rejected) {
  const Set good = schedules_of(Collective::scan, "direct", 4);
  for (const std::vector<int>& wrong : {std::vector<int>{}, {1, 0}, {0, 0}, {0, 4}, {-1, 0}}) {
    Set set = good;
    set[1].teams[0] = wrong;
    expect_rejected(set, {"scan direct, rank 1 of 4", "team[0] is not a list of ranks of the group in ascending order"});
  }
  Set set = good;
  set[1].steps.back().team = 1;
  expect_rejected(set, {"rank 1 of 4, step 3", "there is no team[1]"});
  set = good;
  set[1].steps[0].team = 0;
  expect_rejected(set, {"rank 1 of 4, step 0", "this step goes by no team"});
  set = good;
  set[1].teams[0] = {0, 2};
  expect_rejected(set, {"rank 1 of 4, step 3", "this rank is not in the team, and gives something of its own"});
  set = good;
  set[1].steps.back().peer = 0;
  expect_rejected(set, {"rank 1 of 4, step 3", "this step goes by a team, not by one peer"});
}

TEST(Teams, an_await_of_a_team_waits_for_nobody_else) {
  Set set = schedules_of(Collective::all_reduce, "one_shot", 3);
  set[0].teams = {{0, 1}};
  set[0].steps[2].team = 0;
  expect_rejected(set, {"rank 0 of 3", "nothing orders this read and the last write of rank 2 to its stage[0]"});
}

TEST(Teams, a_sum_of_a_team_lacks_the_others) {
  Set set = schedules_of(Collective::all_reduce, "one_shot", 3);
  set[2].teams = {{1, 2}};
  set[2].steps[3].team = 0;
  expect_rejected(set, {"rank 2 of 3, at the end", "output[0] lacks the contribution of rank 0"});
}

TEST(Teams, are_read_and_waited_for_alone) {
  const CostModel model;
  const Set scan = schedules_of(Collective::exscan, "direct", 3);
  const Cost whole = cost(scan, 1000, model);
  EXPECT_EQ(whole.read_bytes, 2000) << "the last rank reads the two below it";
  EXPECT_DOUBLE_EQ(whole.time_ns, 1000 * 0.05 + 100 + 2000 * 0.11 + 1000 * 0.02);
}

}  // namespace
}  // namespace unisono::testing
