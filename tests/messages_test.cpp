// Messages between ranks in schedules: those that carry nothing, and those of several tiles in one queue.
#include <gtest/gtest.h>

#include "tests/support/schedules.hpp"

namespace unisono::testing {
namespace {

TEST(Messages, a_barrier_whose_last_round_is_missing_is_rejected) {
  Set set = schedules_of(Collective::barrier, "dissemination", 5);
  EXPECT_TRUE(verify(set).ok());
  for (Schedule& schedule : set) schedule.steps.resize(schedule.steps.size() - 2);
  expect_rejected(set, {"barrier dissemination, rank 1 of 5", "it may leave the barrier before rank 2 has entered it"});
}

TEST(Messages, a_message_of_nothing_is_received_as_one) {
  Set set = schedules_of(Collective::all_gather, "ring", 2);
  Set swapped = set;
  swapped[0].steps[1].source = nothing;
  expect_rejected(swapped, {"all_gather ring, rank 1 of 2", "rank 0 sent nothing where a chunk is awaited"});
  set[1].steps[2].target = nothing;
  expect_rejected(set, {"all_gather ring, rank 1 of 2", "rank 0 sent a chunk where nothing is awaited"});
}

// Two tiles in flight and one queue from each rank: 0 sends a, then b once 1 has come; 1 sends x and y at once. Rank 2 takes x, a, b, y:
// in tile 0 it needs b and finds a of tile 1, which in tile 1 needs x and finds y of tile 0.
TEST(Messages, of_two_tiles_that_wait_for_each_other_are_a_deadlock_unless_they_are_set_aside) {
  const Set set = written(Collective::barrier, 3, [](Builder& plan, int rank) {
    if (rank == 0) {
      plan.send(2, nothing);
      plan.receive(1, nothing);
      plan.send(2, nothing);
      plan.receive(2, nothing);
    } else if (rank == 1) {
      plan.send(2, nothing);
      plan.send(2, nothing);
      plan.send(0, nothing);
      plan.receive(2, nothing);
    } else {
      for (int peer : {1, 0, 0, 1}) plan.receive(peer, nothing);
      for (int peer : {0, 1}) plan.send(peer, nothing);
    }
  });
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Status status = verify(set, {.max_window = 4, .seed = seed});
    EXPECT_TRUE(status.ok()) << status.text();
  }
  EXPECT_TRUE(verify(set, {.sets_aside = false, .max_window = 1}).ok()) << "there is one tile at a time";
  expect_rejected(set, {"deadlock", "rank 2 waits in step 2 (receive from 0 -> none)"}, {.sets_aside = false});
}

}  // namespace
}  // namespace unisono::testing
