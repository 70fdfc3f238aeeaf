// Agreeing and shrinking between hosts, by the rules of group/ballot.hpp, under every kind of failure that a network and its machines have (ballot_world.hpp): as
// many worlds as two seconds allow in `make test`, and three hundred whatever the machine; a minute of them in `make torture`, forty thousand or so. A third test plants faults and asks that they be found.
#include <gtest/gtest.h>

#include "tests/support/scale.hpp"
#include "tests/torture/ballot_world.hpp"
#include "tests/torture/rounds.hpp"

namespace unisono::testing {
namespace {

int64_t decide_in_some_worlds(uint64_t seed) {
  constexpr int worlds = 100;
  Dice dice(seed);
  int64_t decided = 0;
  for (int index = 0; index < worlds; ++index) {
    const uint64_t each = dice.seed();
    BallotWorld world(each, Flaw::none);
    world.run();
    EXPECT_EQ(world.found(), "") << "seed " << each;
    decided += world.decided();
  }
  return decided;
}

TEST(Ballots, leave_one_outcome_to_everybody) { run_rounds("decisions", decide_in_some_worlds); }

TEST(Ballots, often_come_to_something) {
  Dice dice(7);
  int worlds = 0, calm = 0, calm_worlds = 0;
  for (int index = 0; index < 300; ++index) {
    BallotWorld world(dice.seed(), Flaw::none);
    world.run();
    worlds += world.has_world();
    calm += !world.was_cut();
    calm_worlds += !world.was_cut() && world.has_world();
  }
  EXPECT_GT(worlds, 120);
  EXPECT_GT(calm_worlds, calm / 2) << "of " << calm;
}

TEST(Ballots, show_every_fault_that_is_planted) {
  if (small_run()) GTEST_SKIP() << "takes thousands of worlds, which are slow under the sanitizers";
  for (Flaw flaw : {Flaw::memory_dies, Flaw::bare_testimony, Flaw::silence_is_death, Flaw::lost_updates, Flaw::ignores_accepted}) {
    Dice dice(11);
    int tried = 0;
    std::string found;
    for (; tried < 20'000 && found.empty(); ++tried) {
      BallotWorld world(dice.seed(), flaw);
      world.run();
      found = world.found();
    }
    EXPECT_NE(found, "") << "flaw " << static_cast<int>(flaw) << " was not found in " << tried << " worlds";
  }
}

}  // namespace
}  // namespace unisono::testing
