// What steps say of the parts of a sum: each contribution is scaled once, and each sum completed once. Broken schedules are made from good
// ones by one change.
#include <gtest/gtest.h>

#include "tests/support/schedules.hpp"

namespace unisono::testing {
namespace {

// Two ranks that send each other what they have.
Set exchange() {
  return written(Collective::all_reduce, 2, [](Builder& plan, int rank) {
    plan.contribute(input(0), scratch(0));
    plan.copy(scratch(0), output(0));
    plan.send(1 - rank, scratch(0));
    plan.receive_reduce(1 - rank, output(0), Sum::complete);
  });
}

TEST(Sums, whose_contributions_are_scaled_once_and_that_are_completed_once_are_right) { EXPECT_TRUE(verify(exchange()).ok()) << verify(exchange()).text(); }

TEST(Sums, with_a_contribution_that_was_not_scaled_are_rejected) {
  Set set = exchange();
  set[1].steps[0].scales = false;
  expect_rejected(set, {"a contribution is combined that was not scaled"});
  Set shown = schedules_of(Collective::all_reduce, "two_shot", 3);
  for (Step& step : shown[0].steps) step.scales = false;
  expect_rejected(shown, {"rank 0 of 3", "a contribution is combined that was not scaled"});
}

TEST(Sums, with_a_contribution_that_was_scaled_twice_are_rejected) {
  Set set = exchange();
  set[0].steps[1].scales = true;
  expect_rejected(set, {"rank 0 of 2, step 1", "scratch[0] was scaled before"});
}

// The engine's trap of old: a schedule that combines in shared memory and then sends what it has.
TEST(Sums, that_are_completed_before_they_have_everybodys_part_are_rejected) {
  Set ring = schedules_of(Collective::all_reduce, "ring", 3);
  for (Step& step : ring[1].steps) step.completes |= step.kind == StepKind::receive_reduce;
  expect_rejected(ring, {"a sum is combined that was completed before"});
}

TEST(Sums, that_are_never_completed_are_rejected) {
  for (const char* name : {"one_shot", "two_shot", "ring", "doubling"}) {
    Set set = schedules_of(Collective::all_reduce, name, 3);
    for (Schedule& schedule : set)
      for (Step& step : schedule.steps) step.completes = false;
    expect_rejected(set, {name, "was not completed"});
  }
}

// avg means nothing there: every rank's sum has another number of parts.
TEST(Sums, of_a_scan_are_never_completed) {
  Set set = schedules_of(Collective::scan, "chain", 3);
  set[2].steps[1].completes = true;
  expect_rejected(set, {"scan chain, rank 2 of 3", "output[0] was completed"});
}

TEST(Sums, are_said_to_be_made_only_by_steps_that_make_some) {
  Set set = exchange();
  set[0].steps[2].scales = true;
  expect_rejected(set, {"step 2 (send scratch[0] to 1 scaling)", "this step takes nothing as it was given"});
  set = exchange();
  set[0].steps[1].completes = true;
  expect_rejected(set, {"step 1", "this step combines nothing that could be complete"});
  Set gathered = schedules_of(Collective::all_gather, "ring", 2);
  gathered[0].steps[0].scales = true;
  expect_rejected(gathered, {"nothing is added up in this collective"});
}

}  // namespace
}  // namespace unisono::testing
