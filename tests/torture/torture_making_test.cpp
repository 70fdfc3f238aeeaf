// Making groups, by the rules of group/making.hpp, under every kind of failure that a network and its machines have (making_world.hpp): as many worlds as two seconds allow in
// `make test`, and two hundred whatever the machine; more than ten thousand in `make torture`. A last test plants faults and asks that they be found.
#include <gtest/gtest.h>

#include "tests/torture/making_world.hpp"
#include "tests/torture/planted.hpp"
#include "tests/torture/rounds.hpp"

namespace unisono::testing {
namespace {

int64_t make_in_some_worlds(uint64_t seed) {
  return run_worlds<MakingWorld>(50, seed, MakingFlaw::none, [](const MakingWorld& world) { return world.made(); });
}

TEST(Making, leaves_nobody_waiting_and_nobody_in_a_group_of_its_own) { run_rounds("groups", make_in_some_worlds, {4, 200}); }

TEST(Making, often_comes_to_something) {
  int clean = 0;
  const int64_t made = run_worlds<MakingWorld>(200, 7, MakingFlaw::none, [&](const MakingWorld& world) {
    clean += world.was_clean();
    return world.made();
  });
  EXPECT_GT(made, 200 * 5);
  EXPECT_GT(clean, 20);
}

TEST(Making, shows_every_fault_that_is_planted) {
  expect_every_flaw_is_found<MakingWorld>(5'000, {MakingFlaw::gives_up_silently, MakingFlaw::never_catches_up, MakingFlaw::forgets_at_once,
                                                  MakingFlaw::unheard_leaving, MakingFlaw::waits_for_the_lost});
}

}  // namespace
}  // namespace unisono::testing
