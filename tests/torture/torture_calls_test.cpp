// Random programs of calls that nobody disturbs: groups that overlap, every function of both dialects, sizes at which
// something changes, several calls under way, plans from the catalogue, more ranks than cores; also calls that differ
// or are refused. Every result is compared with the oracle.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/children.hpp"
#include "tests/support/scale.hpp"
#include "tests/torture/rounds.hpp"
#include "tests/torture/verdicts.hpp"

namespace unisono::testing {
namespace {

int64_t perform_round(uint64_t seed) {
  const Program program = random_program(seed, {.actions = small_run() ? 60 : 150});
  SCOPED_TRACE(program.text());
  make_patterns_of(program);
  Outcomes outcomes(program.ranks, outcome_count(program));
  SharedArray<Stage> stage(1);
  stage[0].all_struck = 1;
  auto act = [&](TestWorld& world) { Actor(program, world, {outcomes, stage[0]}).perform(); };
  const WorldChoice choice{.size = program.ranks, .job = unique_job(), .settings = program.settings};
  // Threads live in a child too, so that one that crashes or hangs is reported like a process.
  Children children(program.kind == Kind::threads ? 1 : program.ranks, [&](int rank) {
    if (program.kind == Kind::processes) return as_rank(rank, choice, act);
    for_each_world(
        ranks(program.ranks).with(Kind::threads).with([&](Settings& settings) { settings = program.settings; }), act);
  });
  expect_all_succeeded(children.wait());
  expect_outcomes(program, outcomes, stage[0]);
  return std::ranges::count(program.actions, Deed::call, &Action::deed);
}

TEST(Torture, of_random_calls) { run_rounds("calls", perform_round); }

}  // namespace
}  // namespace unisono::testing
