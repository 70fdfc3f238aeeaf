// What breaks a group between hosts, and who hears of it, under every kind of failure that a network and its machines have (breaking_world.hpp): as many worlds as two seconds allow in
// `make test`, and two hundred whatever the machine; more than ten thousand in `make torture`. A last test plants faults and asks that they be found.
#include <gtest/gtest.h>

#include "tests/support/scale.hpp"
#include "tests/torture/breaking_world.hpp"
#include "tests/torture/rounds.hpp"

namespace unisono::testing {
namespace {

int64_t break_some_worlds(uint64_t seed) {
  constexpr int worlds = 50;
  Dice dice(seed);
  int64_t broken = 0;
  for (int index = 0; index < worlds; ++index) {
    const uint64_t each = dice.seed();
    BreakingWorld world(each, BreakingFlaw::none);
    world.run();
    EXPECT_EQ(world.found(), "") << "seed " << each;
    broken += world.broken();
  }
  return broken;
}

TEST(Breaking, leaves_nobody_waiting_and_names_the_cause) { run_rounds("ranks with a fault", break_some_worlds); }

TEST(Breaking, happens_often_and_not_always) {
  Dice dice(7);
  int broken = 0, clean = 0, late = 0;
  for (int index = 0; index < 300; ++index) {
    BreakingWorld world(dice.seed(), BreakingFlaw::none);
    world.run();
    EXPECT_EQ(world.found(), "");
    broken += world.broken();
    clean += world.was_clean();
    late += world.met_deadlines();
  }
  EXPECT_GT(broken, 300);
  EXPECT_GT(clean, 15);
  EXPECT_LT(late, 15);
}

TEST(Breaking, shows_every_fault_that_is_planted) {
  if (small_run()) GTEST_SKIP() << "takes thousands of worlds, which are slow under the sanitizers";
  for (BreakingFlaw flaw : {BreakingFlaw::answers_nothing, BreakingFlaw::leaves_unexplained, BreakingFlaw::deaths_unexplained, BreakingFlaw::ended_untold, BreakingFlaw::own_word_alone}) {
    Dice dice(11);
    int tried = 0;
    std::string found;
    for (; tried < 20'000 && found.empty(); ++tried) {
      BreakingWorld world(dice.seed(), flaw);
      world.run();
      found = world.found();
    }
    EXPECT_NE(found, "") << "flaw " << static_cast<int>(flaw) << " was not found in " << tried << " worlds";
    RecordProperty("flaw_" + std::to_string(static_cast<int>(flaw)), tried);
  }
}

}  // namespace
}  // namespace unisono::testing
