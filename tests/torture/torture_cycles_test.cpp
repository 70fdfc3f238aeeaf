// Whether anything accumulates in a process that joins, calls, loses a peer and joins again, or makes and destroys groups, for as
// long as UNISONO_TORTURE_SECONDS says.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/support/losses.hpp"
#include "tests/support/rank_process.hpp"
#include "tests/support/used.hpp"
#include "tests/torture/rounds.hpp"

namespace unisono::testing {
namespace {

constexpr int rounds_to_warm_up = 5;
constexpr int64_t last_lanes_bytes = 256 << 10;  // those of the last groups are given back once the peer has left them too

// This process is rank 0; ranks 1 and 2 are new in every round, and rank 1 is killed while the others wait for it.
void join_call_and_lose_a_peer() {
  Outcomes outcomes(3);
  SharedArray<Signs> signs(1);
  const WorldChoice choice{.size = 3};
  Children children(2, [&](int index) {
    as_rank(index + 1, choice, [&](TestWorld& world) {
      expect_works(world);
      signs[0].ready += 1;
      if (index == 0) await([&] { return signs[0].go == 1; });  // which nobody says: it is killed here
      outcomes.note(index + 1, [&] { distributed::barrier({.group = world.group()}); });
    });
  });
  as_rank(0, choice, [&](TestWorld& world) {
    expect_works(world);
    EXPECT_TRUE(await([&] { return signs[0].ready == 2; }));
    children.kill(0);
    outcomes.note(0, [&] { distributed::barrier({.group = world.group()}); });
    expect_lost(outcomes.of(0), {1});
  });
  const std::vector<Ending> endings = children.wait();
  EXPECT_TRUE(endings[0].killed_by(SIGKILL)) << endings[0].output;
  EXPECT_TRUE(endings[1].succeeded()) << endings[1].output;
}

TEST(Cycles, of_joining_calling_and_losing_a_peer_leave_nothing) {
  if (under_thread_sanitizer()) GTEST_SKIP() << "needs processes";
  for (int round = 0; round < rounds_to_warm_up; ++round) join_call_and_lose_a_peer();
  const Used before = Used::now();
  run_rounds("cycles", [&](uint64_t) {
    join_call_and_lose_a_peer();
    return 1;
  });
  expect_flat(before, Used::now());
}

// A hundred groups, two of them alive at a time.
void make_and_destroy_groups(const TestWorld& world) {
  GroupHandle before;
  for (int number = 0; number < 100; ++number) {
    GroupHandle group = distributed::new_group({0, 1});
    expect_works(world, group);
    if (before.is_member() && !before.is_world()) distributed::destroy_process_group(before);
    before = group;
  }
  distributed::destroy_process_group(before);
}

// Three hundred in `make test`, at least; as many more as there is time for.
TEST(Cycles, of_making_and_destroying_groups_leave_nothing) {
  const WorldChoice choice{.size = 2};
  SharedArray<std::atomic<int>> more(1);
  const std::vector<Ending> endings = Children(2, [&](int rank) {
    as_rank(rank, choice, [&](TestWorld& world) {
      make_and_destroy_groups(world);
      const Used before = Used::now();
      const int64_t arena_before = world.world().arena_taken_bytes();
      Progress progress("groups");
      int64_t groups = 0;
      for (;; groups += 100) {
        if (rank == 0) more[0] = !progress.is_over() || groups < 300;
        distributed::barrier({.group = world.group()});
        const bool goes_on = more[0];
        distributed::barrier({.group = world.group()});  // everybody has read it
        if (!goes_on) break;
        make_and_destroy_groups(world);
        if (rank == 0) progress.tell(fmt::format("{} groups", groups));
      }
      EXPECT_LE(world.world().arena_taken_bytes(), arena_before + last_lanes_bytes);
      expect_flat(before, Used::now(), 256 << 10);
      if (rank == 0) progress.conclude(fmt::format("{} groups", groups));
    });
  }, Progress("groups").patience_s()).wait();
  expect_all_succeeded(endings);
  fmt::print("{}", endings[0].output);
}

}  // namespace
}  // namespace unisono::testing
