// Whole jobs killed at random moments, all ranks at once: nothing is left in /dev/shm, in the temporary folder or among the
// processes, and the next job of the same name starts as if there had been none.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/support/losses.hpp"
#include "tests/support/scale.hpp"
#include "tests/torture/dice.hpp"
#include "tests/torture/rounds.hpp"

namespace unisono::testing {
namespace {

void call_for_ever(int rank, TestWorld& world, Signs& signs) {
  for (int64_t round = 0;; ++round) {
    Scratch scratch;
    const GroupHandle group = round % 8 == 0 ? distributed::new_group({0, 1, 2}) : world.group();
    make_call(group, scratch, {.kind = static_cast<Collective>(round % 4), .count = int64_t{1} << (round % 18)});
    if (round % 8 == 0) distributed::destroy_process_group(group);
    if (rank == 0) signs.rounds += 1;
  }
}

int64_t kill_a_job(const std::string& job, uint64_t seed) {
  Dice dice(seed);
  SharedArray<Signs> signs(1);
  const WorldChoice choice{.size = 3, .job = job};
  const bool while_joining = dice.chance(30);
  const auto rounds = static_cast<int>(dice.below(40));
  Children children(3, [&](int rank) {
    signs[0].ready += 1;
    as_rank_that_stays(rank, choice, [&](TestWorld& world) { call_for_ever(rank, world, signs[0]); });
  });
  EXPECT_TRUE(await([&] { return while_joining ? signs[0].ready > 0 : signs[0].rounds >= rounds; }));
  children.kill_together({0, 1, 2});
  for (const Ending& ending : children.wait()) EXPECT_TRUE(ending.killed_by(SIGKILL)) << ending.output;
  EXPECT_FALSE(meeting_place_is_taken(job));
  return 1;
}

TEST(Torture, of_killed_jobs) {
  const std::string job = unique_job();
  run_rounds("killed jobs", [&](uint64_t seed) { return kill_a_job(job, seed); });
  const WorldChoice choice{.size = 3, .job = job};
  expect_all_succeeded(Children(3, [&](int rank) { as_rank(rank, choice, [](TestWorld& world) { expect_works(world); }); }).wait());
}

}  // namespace
}  // namespace unisono::testing
