// Agreeing and shrinking between hosts, by the rules of group/ballot.hpp, under every kind of failure that a network and its machines have (ballot_world.hpp): as
// many worlds as two seconds allow in `make test`, and three hundred whatever the machine; a minute of them in `make torture`, forty thousand or so. A third test plants faults and asks that they be found.
#include <gtest/gtest.h>

#include "tests/torture/ballot_world.hpp"
#include "tests/torture/planted.hpp"
#include "tests/torture/rounds.hpp"

namespace unisono::testing {
namespace {

int64_t decide_in_some_worlds(uint64_t seed) {
  return run_worlds<BallotWorld>(100, seed, Flaw::none, [](const BallotWorld& world) { return world.decided(); });
}

TEST(Ballots, leave_one_outcome_to_everybody) { run_rounds("decisions", decide_in_some_worlds, {2, 100}); }

TEST(Ballots, often_come_to_something) {
  int calm = 0, calm_worlds = 0;
  const int64_t worlds = run_worlds<BallotWorld>(300, 7, Flaw::none, [&](const BallotWorld& world) {
    calm += !world.was_cut();
    calm_worlds += !world.was_cut() && world.has_world();
    return world.has_world();
  });
  EXPECT_GT(worlds, 120);
  EXPECT_GT(calm_worlds, calm / 2) << "of " << calm;
}

TEST(Ballots, show_every_fault_that_is_planted) {
  expect_every_flaw_is_found<BallotWorld>(20'000, {Flaw::memory_dies, Flaw::bare_testimony, Flaw::silence_is_death, Flaw::lost_updates, Flaw::ignores_accepted});
}

}  // namespace
}  // namespace unisono::testing
