// Making groups, by the rules of group/making.hpp, under every kind of failure that a network and its machines have (making_world.hpp): as many worlds as two seconds allow in
// `make test`, and two hundred whatever the machine; more than ten thousand in `make torture`. A last test plants faults and asks that they be found.
#include <gtest/gtest.h>

#include "tests/support/scale.hpp"
#include "tests/torture/making_world.hpp"
#include "tests/torture/rounds.hpp"

namespace unisono::testing {
namespace {

int64_t make_in_some_worlds(uint64_t seed) {
  constexpr int worlds = 50;
  Dice dice(seed);
  int64_t made = 0;
  for (int index = 0; index < worlds; ++index) {
    const uint64_t each = dice.seed();
    MakingWorld world(each, MakingFlaw::none);
    world.run();
    EXPECT_EQ(world.found(), "") << "seed " << each;
    made += world.made();
  }
  return made;
}

TEST(Making, leaves_nobody_waiting_and_nobody_in_a_group_of_its_own) { run_rounds("groups", make_in_some_worlds); }

TEST(Making, often_comes_to_something) {
  Dice dice(7);
  int made = 0, clean = 0;
  for (int index = 0; index < 200; ++index) {
    MakingWorld world(dice.seed(), MakingFlaw::none);
    world.run();
    EXPECT_EQ(world.found(), "");
    made += world.made();
    clean += world.was_clean();
  }
  EXPECT_GT(made, 200 * 5);
  EXPECT_GT(clean, 20);
}

TEST(Making, shows_every_fault_that_is_planted) {
  if (small_run()) GTEST_SKIP() << "takes thousands of worlds, which are slow under the sanitizers";
  for (MakingFlaw flaw : {MakingFlaw::gives_up_silently, MakingFlaw::never_catches_up, MakingFlaw::forgets_at_once, MakingFlaw::unheard_leaving, MakingFlaw::waits_for_the_lost}) {
    Dice dice(11);
    int tried = 0;
    std::string found;
    for (; tried < 5'000 && found.empty(); ++tried) {
      MakingWorld world(dice.seed(), flaw);
      world.run();
      found = world.found();
    }
    EXPECT_NE(found, "") << "flaw " << static_cast<int>(flaw) << " was not found in " << tried << " worlds";
    RecordProperty("flaw_" + std::to_string(static_cast<int>(flaw)), tried);
  }
}

}  // namespace
}  // namespace unisono::testing
