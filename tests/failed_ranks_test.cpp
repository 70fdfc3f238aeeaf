// failed_ranks(): an error names one rank that was lost, this lists all.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/expect_error.hpp"
#include "tests/support/losses.hpp"
#include "unisono/unisono.h"

namespace unisono::testing {
namespace {

using distributed::failed_ranks;
using Ranks = std::vector<int>;

class FailedRanks : public ::testing::Test {
 protected:
  void SetUp() override {
    if (under_thread_sanitizer()) GTEST_SKIP() << "starts processes";
  }
};

bool is_dead(pid_t process) {
  siginfo_t info = {};
  return waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == process;
}

TEST_F(FailedRanks, lists_all_that_were_killed_together_on_every_survivor) {
  const Ranks victims = {1, 3};
  Outcomes outcomes(4);
  SharedArray<Signs> signs(1);
  SharedArray<std::atomic<int64_t>> listed_ns(4);
  const WorldChoice choice{.size = 4};
  Children children(4, [&](int rank) {
    as_rank(rank, choice, [&](TestWorld&) {
      const GroupHandle reversed = distributed::new_group({3, 2, 1, 0}), most = distributed::new_group({0, 2, 3});
      const GroupHandle others = distributed::new_group({0, 2}, {.name = "others"});
      distributed::barrier();
      EXPECT_EQ(failed_ranks(), Ranks());
      signs[0].ready += 1;
      if (rank % 2 == 1) await([] { return false; });  // they are killed there
      outcomes.note(rank, [] { distributed::barrier(); });
      EXPECT_TRUE(await([&] { return failed_ranks() == victims; }, 2));
      listed_ns[static_cast<size_t>(rank)] = now_ns();
      EXPECT_TRUE(await([&] { return failed_ranks(most) == Ranks{3}; }, 2));
      EXPECT_EQ(failed_ranks(reversed), victims);
      EXPECT_EQ(failed_ranks(others), Ranks());
      int first_two[] = {-1, -1}, count = 0;
      EXPECT_EQ(unisono_group_failed_ranks(nullptr, first_two, 1, &count), UNISONO_OK);
      EXPECT_EQ(count, 2);
      EXPECT_EQ(first_two[0], 1);
      EXPECT_EQ(first_two[1], -1) << "there was room for one";
      distributed::barrier({.group = others});
    });
  });
  EXPECT_TRUE(await([&] { return signs[0].ready == 4; }));
  for (int rank = 0; rank < 4; ++rank) children.await_asleep(rank);
  const int64_t killed_ns = children.kill_together(victims);
  const std::vector<Ending> endings = children.wait();
  for (int rank : {0, 2}) {
    EXPECT_TRUE(endings[static_cast<size_t>(rank)].succeeded()) << endings[static_cast<size_t>(rank)].output;
    expect_lost(outcomes.of(rank), victims);
    EXPECT_LT(seconds_between(killed_ns, listed_ns[static_cast<size_t>(rank)]), 2.0);
  }
}

// The survivor is stopped while the others die: its thread that watches for deaths has not run when it asks.
TEST_F(FailedRanks, knows_of_whoever_is_dead_when_it_is_asked) {
  for (int round = 0; round < (small_run() ? 3 : 20); ++round) {
    SharedArray<Signs> signs(1);
    const WorldChoice choice{.size = 3};
    Children children(3, [&](int rank) {
      as_rank(rank, choice, [&](TestWorld&) {
        signs[0].ready += 1;
        const Deadline deadline = Deadline::in_seconds(30);
        while (signs[0].go == 0 && !deadline.passed()) continue;
        EXPECT_EQ(failed_ranks(), (Ranks{0, 2}));
      });
    });
    EXPECT_TRUE(await([&] { return signs[0].ready == 3; }));
    children.signal(1, SIGSTOP);
    children.await_stopped(1);
    children.kill_together({0, 2});
    for (int rank : {0, 2}) EXPECT_TRUE(await([&] { return is_dead(children.pid(rank)); }));
    signs[0].go = 1;
    children.signal(1, SIGCONT);
    const Ending ending = children.wait()[1];
    EXPECT_TRUE(ending.succeeded()) << ending.output;
  }
}

TEST_F(FailedRanks, lists_whoever_has_left) {
  SharedArray<Signs> signs(1);
  const WorldChoice choice{.size = 3};
  expect_all_succeeded(Children(3, [&](int rank) {
    as_rank(rank, choice, [&](TestWorld&) {
      const GroupHandle part = distributed::new_group({2, 1, 0});
      distributed::barrier();
      if (rank == 1) {
        distributed::destroy_process_group(part);
        expect_error<StateError>({"destroyed"}, [&] { failed_ranks(part); });
        EXPECT_TRUE(await([&] { return signs[0].ready == 2; }));
        return;  // and leaves
      }
      EXPECT_TRUE(await([&] { return failed_ranks(part) == Ranks{1}; }));
      EXPECT_EQ(failed_ranks(), Ranks());
      signs[0].ready += 1;
      EXPECT_TRUE(await([] { return failed_ranks() == Ranks{1}; }));
      signs[0].go += 1;
      EXPECT_TRUE(await([&] { return signs[0].go == 2; }));
    });
  }).wait());
}

TEST_F(FailedRanks, is_for_members_that_have_joined) {
  expect_error<StateError>({"failed_ranks", "init_process_group"}, [] { failed_ranks(); });
  for_each_world(ranks(2), [](TestWorld& world) {
    const GroupHandle alone = distributed::new_group({0});
    EXPECT_EQ(failed_ranks(), Ranks());
    if (world.rank() == 0)
      EXPECT_EQ(failed_ranks(alone), Ranks());
    else
      expect_error<ArgumentError>({"failed_ranks", "not in the group"}, [&] { failed_ranks(alone); });
    distributed::barrier();
  });
}

}  // namespace
}  // namespace unisono::testing
