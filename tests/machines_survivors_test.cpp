// What is left of a job whose network is cut, or that loses a machine: the larger side shrinks and goes on, the smaller one is told that it may be that, and never do both go on.
#include <gtest/gtest.h>

#include "tests/support/expect_error.hpp"
#include "tests/support/losses.hpp"
#include "tests/support/machine_job.hpp"

namespace unisono::testing {
namespace {

class Survivors : public OnMachines {};

class MoreSurvivors : public Survivors {
 protected:
  void SetUp() override {
    Survivors::SetUp();
    if (!full_run() && !IsSkipped()) GTEST_SKIP() << "UNISONO_TEST_FULL=1 takes this";
  }
};

struct CutScene {
  std::vector<int> machine_of_rank;
  int lost;  // this machine
};

// All ranks make calls until the network of that machine is cut. Those of the others shrink, those on it are refused.
void cut_off(const CutScene& scene) {
  const TestMachines machines(3);
  const MachineJob job{.machine_of_rank = scene.machine_of_rank};
  SharedArray<Signs> signs(1);
  SharedArray<std::atomic<int>> sizes(job.ranks());
  std::vector<int> left;
  for (int rank = 0; rank < job.ranks(); ++rank)
    if (job.machine_of_rank[static_cast<size_t>(rank)] != scene.lost) left.push_back(rank);
  Children children(job.ranks(), [&](int rank) {
    become_rank(machines, job, rank);
    distributed::init_process_group({});
    auto call_for_ever = [&] {
      for (int call = 0;; ++call) {
        expect_sum(rank, job.ranks(), 1000);
        if (call == 3) signs[0].ready += 1;
      }
    };
    EXPECT_THROW(call_for_ever(), PeerLostError);
    if (job.machine_of_rank[static_cast<size_t>(rank)] == scene.lost) {
      expect_error<RevokedError>({"smaller side"}, [] { distributed::shrink_group(); });
    } else {
      const GroupHandle rest = distributed::shrink_group();
      sizes[rank] = distributed::get_world_size(rest);
      EXPECT_EQ(distributed::get_process_group_ranks(rest), left);
      std::vector<int32_t> one(50'000, 1);
      distributed::all_reduce(view(one), {.group = rest});
      EXPECT_EQ(one.back(), static_cast<int>(left.size()));
      EXPECT_TRUE(distributed::agree(true, rest));
    }
    signs[0].rounds += 1;
    EXPECT_TRUE(await([&] { return signs[0].rounds == job.ranks(); }));
    distributed::destroy_process_group();
  }, 60);
  EXPECT_TRUE(await([&] { return signs[0].ready == job.ranks(); }));
  machines.cut_off(scene.lost);
  expect_all_succeeded(children.wait());
  for (int rank : left) EXPECT_EQ(sizes[rank], static_cast<int>(left.size()));
}

TEST_F(Survivors, of_three_machines_go_on_without_the_one_that_was_cut_off) { cut_off({{0, 0, 1, 1, 2, 2}, 2}); }
TEST_F(MoreSurvivors, go_on_without_the_machine_of_rank_0) { cut_off({{0, 1, 1, 2, 2}, 0}); }
TEST_F(MoreSurvivors, of_two_equal_machines_are_those_with_rank_0) { cut_off({{0, 0, 1, 1}, 1}); }
TEST_F(MoreSurvivors, need_not_have_rank_0) { cut_off({{0, 1, 1}, 0}); }

// Ranks of several machines are killed, one while the others shrink.
TEST_F(Survivors, of_a_kill_on_every_machine_shrink_to_one_world) {
  const TwoMachines machines;
  const MachineJob job{.machine_of_rank = {0, 0, 0, 1, 1, 1}};
  SharedArray<Signs> signs(1);
  Children children(job.ranks(), [&](int rank) {
    become_rank(machines, job, rank);
    distributed::init_process_group({});
    expect_sum(rank, job.ranks(), 1000);
    signs[0].ready += 1;
    if (rank % 3 == 2) await([] { return false; });
    EXPECT_THROW(distributed::barrier(), PeerLostError);
    const GroupHandle rest = distributed::shrink_group();  // the first victim is known, the other may die in the middle of it
    std::vector<int32_t> one(50'000, 1);
    const int size = distributed::get_world_size(rest);
    if (size == 4) {
      distributed::all_reduce(view(one), {.group = rest});
      EXPECT_EQ(one.back(), 4);
    }
    const GroupHandle fewer = distributed::shrink_group({}, rest);
    EXPECT_EQ(distributed::get_process_group_ranks(fewer), (std::vector<int>{0, 1, 3, 4}));
    one.assign(50'000, 1);
    distributed::all_reduce(view(one), {.group = fewer});
    EXPECT_EQ(one.back(), 4);
    distributed::destroy_process_group();
  }, 60);
  EXPECT_TRUE(await([&] { return signs[0].ready == job.ranks(); }));
  children.kill(2);
  children.kill(5);
  const std::vector<Ending> endings = children.wait();
  for (int rank : {0, 1, 3, 4}) EXPECT_TRUE(endings[static_cast<size_t>(rank)].succeeded()) << endings[static_cast<size_t>(rank)].output;
}

}  // namespace
}  // namespace unisono::testing
