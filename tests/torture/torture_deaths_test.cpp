// Random programs of calls in which ranks are killed, and stopped for a while, at random moments. Survivors of a group
// are told whom it lost within a second, groups without a victim go on, nothing hangs and nothing is left behind.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>

#include "tests/support/losses.hpp"
#include "tests/support/scale.hpp"
#include "tests/torture/rounds.hpp"
#include "tests/torture/verdicts.hpp"

namespace unisono::testing {
namespace {

struct Strike {
  int rank, signal;
  int64_t after_ns;  // the one before
};

// Kills for all victims, among them stops of any ranks, each with its end somewhere behind it.
std::vector<Strike> random_strikes(const Program& program, Dice& dice) {
  std::vector<Strike> strikes;
  for (int victim : program.victims) strikes.push_back({victim, SIGKILL, dice.of_any_magnitude(23)});
  for (int stops = dice.chance(50) ? dice.between(1, 3) : 0; stops > 0; --stops) {
    const int rank = static_cast<int>(dice.below(program.ranks));
    const auto from = dice.below(static_cast<int64_t>(strikes.size()) + 1);
    strikes.insert(strikes.begin() + from, {rank, SIGSTOP, dice.of_any_magnitude(22)});
    const auto behind = from + 1 + dice.below(static_cast<int64_t>(strikes.size()) - from);
    strikes.insert(strikes.begin() + behind, {rank, SIGCONT, dice.of_any_magnitude(30)});
  }
  return strikes;
}

std::string text_of(const std::vector<Strike>& strikes) {
  std::string text;
  for (const auto& [rank, signal, after_ns] : strikes)
    text +=
        fmt::format("{}SIG{} to rank {} after {} ns", text.empty() ? "" : ", ", sigabbrev_np(signal), rank, after_ns);
  return text;
}

// Short times to the nanosecond; in long ones the core is left to the ranks.
void let_pass(int64_t time_ns) {
  const int64_t until_ns = now_ns() + time_ns;
  if (time_ns > 10'000'000) await([&] { return now_ns() >= until_ns; });
  while (now_ns() < until_ns) continue;
}

void strike_all(const std::vector<Strike>& strikes, const Children& children, Stage& stage) {
  for (const auto& [rank, signal, after_ns] : strikes) {
    let_pass(after_ns);
    if (signal == SIGKILL) stage.killed_ns[rank] = now_ns();
    children.signal(rank, signal);
    if (signal == SIGCONT) stage.continued_ns[rank] = now_ns();
  }
  stage.all_struck = 1;
}

void expect_endings(const Program& program, const std::vector<Ending>& endings) {
  for (int rank = 0; rank < program.ranks; ++rank) {
    const Ending& ending = endings[static_cast<size_t>(rank)];
    if (std::ranges::find(program.victims, rank) == program.victims.end()) {
      EXPECT_TRUE(ending.succeeded()) << "rank " << rank << " said:\n" << ending.output;
    } else {
      EXPECT_TRUE(ending.killed_by(SIGKILL)) << "rank " << rank << " said:\n" << ending.output;
    }
  }
}

int64_t perform_round(uint64_t seed) {
  const Program program = random_program(seed, {.least_ranks = 2, .actions = small_run() ? 60 : 150, .deaths = true});
  Dice dice(seed + 1000);
  const std::vector<Strike> strikes = random_strikes(program, dice);
  const int first_rank = strikes.front().rank,
            first_action = static_cast<int>(dice.below(static_cast<int64_t>(program.actions.size())));
  SCOPED_TRACE(fmt::format("{}\nwhen rank {} has done {} actions: {}", program.text(), first_rank, first_action,
                           text_of(strikes)));
  make_patterns_of(program);
  Outcomes outcomes(program.ranks, outcome_count(program));
  SharedArray<Stage> stage(1);
  const WorldChoice choice{.size = program.ranks, .job = unique_job(), .settings = program.settings};
  Children children(program.ranks, [&](int rank) {
    as_rank(rank, choice, [&](TestWorld& world) { Actor(program, world, {outcomes, stage[0]}).perform(); });
  });
  EXPECT_TRUE(await([&] {
    for (int rank = 0; rank < program.ranks; ++rank)
      if (stage[0].actions_done[rank] == 0) return false;
    return stage[0].actions_done[first_rank] > first_action;
  }));
  strike_all(strikes, children, stage[0]);
  expect_endings(program, children.wait());
  EXPECT_FALSE(meeting_place_is_taken(choice.job));
  expect_outcomes(program, outcomes, stage[0]);
  return static_cast<int64_t>(program.victims.size());
}

TEST(Torture, of_random_deaths) { run_rounds("deaths", perform_round); }

}  // namespace
}  // namespace unisono::testing
