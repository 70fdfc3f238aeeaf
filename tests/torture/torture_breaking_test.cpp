// What breaks a group between hosts, and who hears of it, under every kind of failure that a network and its machines have (breaking_world.hpp): as many worlds as two seconds allow in
// `make test`, and two hundred whatever the machine; more than ten thousand in `make torture`. A last test plants faults and asks that they be found.
#include <gtest/gtest.h>

#include "tests/torture/breaking_world.hpp"
#include "tests/torture/planted.hpp"
#include "tests/torture/rounds.hpp"

namespace unisono::testing {
namespace {

int64_t break_some_worlds(uint64_t seed) {
  return run_worlds<BreakingWorld>(50, seed, BreakingFlaw::none, [](const BreakingWorld& world) { return world.broken(); });
}

TEST(Breaking, leaves_nobody_waiting_and_names_the_cause) { run_rounds("ranks with a fault", break_some_worlds, {4, 200}); }

TEST(Breaking, happens_often_and_not_always) {
  int clean = 0, late = 0;
  const int64_t broken = run_worlds<BreakingWorld>(300, 7, BreakingFlaw::none, [&](const BreakingWorld& world) {
    clean += world.was_clean();
    late += world.met_deadlines();
    return world.broken();
  });
  EXPECT_GT(broken, 300);
  EXPECT_GT(clean, 15);
  EXPECT_LT(late, 15);
}

TEST(Breaking, shows_every_fault_that_is_planted) {
  expect_every_flaw_is_found<BreakingWorld>(20'000, {BreakingFlaw::answers_nothing, BreakingFlaw::leaves_unexplained, BreakingFlaw::deaths_unexplained,
                                                     BreakingFlaw::ended_untold, BreakingFlaw::own_word_alone});
}

}  // namespace
}  // namespace unisono::testing
