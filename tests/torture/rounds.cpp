// See rounds.hpp.
#include "tests/torture/rounds.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "base/clock.hpp"
#include "tests/support/losses.hpp"
#include "tests/torture/dice.hpp"
#include "unisono/settings.hpp"

namespace unisono::testing {
namespace {

volatile sig_atomic_t interrupted = 0;

// Children inherit it, so they too finish their round.
void end_after_this_round_on_interrupt() {
  struct sigaction action = {};
  action.sa_handler = [](int) { interrupted = 1; };
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
}

int64_t setting(const std::string& name, int64_t otherwise) {
  const Environment environment = process_environment();
  const auto found = environment.find(name);
  return found == environment.end() || found->second.empty() ? otherwise : std::stoll(found->second);
}

}  // namespace

Progress::Progress(std::string name)
    : name_(std::move(name)),
      seed_(setting("UNISONO_TORTURE_SEED", 1)),
      only_round_(setting("UNISONO_TORTURE_ROUND", 0)),
      started_ns_(now_ns()),
      told_ns_(started_ns_),
      seconds_(static_cast<double>(setting("UNISONO_TORTURE_SECONDS", 2))) {
  end_after_this_round_on_interrupt();
}

bool Progress::is_over() const {
  return interrupted != 0 || (seconds_ > 0 && seconds_between(started_ns_, now_ns()) >= seconds_);
}

bool Progress::is_interrupted() const { return interrupted != 0; }

double Progress::patience_s() const { return seconds_ > 0 ? seconds_ + 60 : 1e6; }

void Progress::say(const std::string& how_far) const {
  fmt::print("{}: seed {}, {:.0f} s: {}\n", name_, seed_, seconds_between(started_ns_, now_ns()), how_far);
  fflush(stdout);
}

void Progress::tell(const std::string& how_far) {
  if (seconds_between(told_ns_, now_ns()) < 10) return;
  told_ns_ = now_ns();
  say(how_far);
}

void Progress::conclude(const std::string& how_far) const {
  const std::string_view how = ::testing::Test::HasFailure() ? "; the last FAILED"
                               : interrupted != 0            ? "; interrupted"
                                                             : "";
  say(fmt::format("{} in all{}", how_far, how));
}

void run_rounds(const std::string& what, const std::function<int64_t(uint64_t seed)>& round, LeastRounds least) {
  Progress progress(what);
  const int64_t least_rounds = progress.is_long() ? least.of_long : least.of_short;
  Traces traces;
  Dice dice(static_cast<uint64_t>(progress.seed()));
  int64_t rounds = 0, tried = 0;
  const int64_t only = progress.only_round();
  for (int64_t number = 1; (number <= only || only == 0) && !::testing::Test::HasFailure(); ++number) {
    const uint64_t round_seed = dice.seed();
    if (number < only) continue;
    if ((rounds >= least_rounds && progress.is_over()) || (rounds > 0 && progress.is_interrupted())) break;
    SCOPED_TRACE(
        fmt::format("to see it again: UNISONO_TORTURE_SEED={} UNISONO_TORTURE_ROUND={}", progress.seed(), number));
    tried += round(round_seed);
    traces.expect_none_left();
    ++rounds;
    progress.tell(fmt::format("{} rounds, {} {}", rounds, tried, what));
  }
  progress.conclude(fmt::format("{} rounds, {} {}", rounds, tried, what));
}

}  // namespace unisono::testing
