// What the simulations of ballot_world.hpp, making_world.hpp and breaking_world.hpp are run by. A World is made from a seed and a flaw, runs, and says
// in found() what of its promises it saw broken.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "tests/support/scale.hpp"
#include "tests/torture/dice.hpp"

namespace unisono::testing {

// Runs worlds without a flaw; returns what `count` adds up to over all of them.
template <class World, class Flaw, class Count>
int64_t run_worlds(int worlds, uint64_t seed, Flaw none, Count count) {
  Dice dice(seed);
  int64_t sum = 0;
  for (int index = 0; index < worlds; ++index) {
    const uint64_t each = dice.seed();
    World world(each, none);
    world.run();
    EXPECT_EQ(world.found(), "") << "seed " << each;
    sum += count(world);
  }
  return sum;
}

// Each flaw is seen in one of so many worlds.
template <class World, class Flaw>
void expect_every_flaw_is_found(int most_worlds, std::initializer_list<Flaw> flaws) {
  if (small_run()) GTEST_SKIP() << "takes thousands of worlds, which are slow under the sanitizers";
  for (Flaw flaw : flaws) {
    Dice dice(11);
    int tried = 0;
    std::string found;
    for (; tried < most_worlds && found.empty(); ++tried) {
      World world(dice.seed(), flaw);
      world.run();
      found = world.found();
    }
    EXPECT_NE(found, "") << "flaw " << static_cast<int>(flaw) << " was not found in " << tried << " worlds";
    ::testing::Test::RecordProperty("flaw_" + std::to_string(static_cast<int>(flaw)), tried);
  }
}

}  // namespace unisono::testing
