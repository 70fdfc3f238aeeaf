// The machine of rank 0 is lost, by which all ranks met, and that starts most of what there is to start: groups without it go on as if nothing had happened, and new ones can be made.
#include <gtest/gtest.h>

#include "tests/support/losses.hpp"
#include "tests/support/machine_job.hpp"

namespace unisono::testing {
namespace {

class FirstMachine : public OnMachines {};

// Of the group of ranks 1 and 2. Whether both have been told that rank 0 is lost.
bool call_in_pair(int rank, const GroupHandle& pair) {
  for (size_t count : {10u, 1000u, 100'000u}) {
    std::vector<float> data(count, static_cast<float>(rank));
    distributed::all_reduce(view(data), {.group = pair});
    EXPECT_TRUE(std::ranges::all_of(data, [](float value) { return value == 3; })) << data[0];
  }
  std::vector<int32_t> told{distributed::failed_ranks() == std::vector<int>{0}};
  distributed::all_reduce(view(told), {.op = ReduceOp::min, .group = pair});
  return told[0] == 1;
}

struct LossOfTheFirst {
  std::function<void(const TestMachines&, const Children&)> happens;
  double told_within_s;
  std::string says;
};

void expect_others_go_on(const LossOfTheFirst& loss) {
  constexpr int enough = 50;
  const TestMachines machines(3);
  const MachineJob job{.machine_of_rank = {0, 1, 2}};
  const Outcomes outcomes(job.ranks(), 2);
  SharedArray<Signs> signs(1);
  SharedArray<int64_t> slowest_ns(job.ranks());
  Children children(job.ranks(), [&](int rank) {
    become_rank(machines, job, rank);
    distributed::init_process_group({});
    const GroupHandle pair = distributed::new_group({1, 2});
    expect_sum(rank, job.ranks(), 1000);
    if (rank == 0) {
      signs[0].ready += 1;
      EXPECT_TRUE(await([&] { return signs[0].rounds == 2; }));
      distributed::destroy_process_group();
      return;
    }
    auto make_calls = [&](const GroupHandle& group) {
      bool is_told = false;
      for (int call = 1; call <= enough; ++call) {
        const int64_t from_ns = now_ns();
        is_told = call_in_pair(rank, group);
        slowest_ns[rank] = std::max(slowest_ns[rank], now_ns() - from_ns);
      }
      return is_told;
    };
    make_calls(pair);
    signs[0].ready += 1;
    EXPECT_TRUE(await([&] { return make_calls(pair); })) << "nobody says that rank 0 is lost";
    outcomes.note(rank, 0, [] { distributed::barrier(); });
    make_calls(pair);
    outcomes.note(rank, 1, [] { distributed::new_group({0, 1, 2}); });
    make_calls(distributed::new_group({2, 1}));
    const GroupHandle rest = distributed::shrink_group();
    EXPECT_EQ(distributed::get_process_group_ranks(rest), (std::vector<int>{1, 2}));
    make_calls(rest);
    signs[0].rounds += 1;
    EXPECT_TRUE(await([&] { return signs[0].rounds == 2; }));
    distributed::destroy_process_group();
  }, 60);
  EXPECT_TRUE(await([&] { return signs[0].ready == job.ranks(); }));
  const int64_t lost_ns = now_ns();
  loss.happens(machines, children);
  const std::vector<Ending> endings = children.wait();
  for (int rank : {1, 2}) {
    const Outcome& outcome = outcomes.of(rank);
    EXPECT_TRUE(endings[static_cast<size_t>(rank)].succeeded()) << endings[static_cast<size_t>(rank)].output;
    expect_lost(outcome, {0});
    expect_lost(outcomes.of(rank, 1), {0});
    for (const std::string& part : {std::string(" on one)"), loss.says}) EXPECT_NE(outcome.text().find(part), std::string::npos) << outcome.text();
    EXPECT_LT(seconds_between(lost_ns, outcome.ended_ns), loss.told_within_s) << outcome.text();
    EXPECT_LT(seconds_between(0, slowest_ns[rank]), 1) << "a call without rank 0 waited for it";
  }
}

TEST_F(FirstMachine, that_is_cut_off_is_not_missed_by_groups_without_it) {
  expect_others_go_on({[](const TestMachines& machines, const Children&) { machines.cut_off(0); }, 10, "is silent: its machine"});
}

TEST_F(FirstMachine, whose_rank_is_killed_is_not_missed_by_groups_without_it) {
  expect_others_go_on({[](const TestMachines&, const Children& children) { children.kill(0); }, 1, "is silent: its connection"});
}

}  // namespace
}  // namespace unisono::testing
