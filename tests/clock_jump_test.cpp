// The wall clock is set forward and back by an hour, as on a laptop that wakes up or a machine that finds its time server late.
// No deadline ends early or late, no warning is given, no group breaks.
//
// The functions below take the place of the C library's in this program and in whatever it uses.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <chrono>

#include "tests/support/calls.hpp"
#include "tests/support/children.hpp"
#include "tests/support/outcomes.hpp"

namespace {

constexpr int64_t hour_s = 3600;

struct WallClock {
  std::atomic<int64_t> ahead_s;
  std::atomic<int> stop, rounds;
};

// Shared by all ranks of a test; null outside it.
std::atomic<WallClock*> wall_clock;

int64_t ahead() {
  const WallClock* clock = wall_clock;
  return clock ? clock->ahead_s.load() : 0;
}

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const int result = static_cast<int>(syscall(SYS_clock_gettime, clock, time));
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) time->tv_sec += ahead();
  return result;
}

extern "C" int gettimeofday(timeval* time, void*) noexcept {
  timespec now = {};
  const int result = clock_gettime(CLOCK_REALTIME, &now);
  *time = {now.tv_sec, now.tv_nsec / 1000};
  return result;
}

extern "C" time_t time(time_t* result) noexcept {
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  if (result) *result = now.tv_sec;
  return now.tv_sec;
}

namespace unisono::testing {
namespace {

TEST(WallClock, of_this_test_is_the_one_that_everybody_reads) {
  SharedArray<::WallClock> shared(1);
  const auto before = std::chrono::system_clock::now();
  wall_clock = &shared[0];
  shared[0].ahead_s = hour_s;
  EXPECT_GE(std::chrono::system_clock::now() - before, std::chrono::seconds(hour_s));
  wall_clock = nullptr;
}

// Jumps at random moments of joining, of calls on every path and of leaving, until the ranks have done their rounds.
TEST(WallClock, that_jumps_has_no_effect) {
  SharedArray<::WallClock> shared(1);
  wall_clock = &shared[0];
  const WorldChoice choice{.size = 3};
  const int wanted_rounds = full_run() ? 300 : 30;
  Children children(3, [&](int rank) {
    for (int round = 0; round < wanted_rounds; ++round) {
      WorldChoice mine = choice;
      mine.settings.timeout_s = mine.settings.join_timeout_s = 20;
      mine.settings.warn_after_s = 10;
      as_rank(rank, mine, [&](TestWorld& world) {
        for (int64_t count : {1, 3000, 300'000}) {
          std::vector<int32_t> data(static_cast<size_t>(count), 1 + rank);
          WorkPtr work = distributed::all_reduce(view(data), {.group = world.group(), .async_op = round % 2 == 1, .timeout_s = 10});
          if (work) work->wait();
          ASSERT_EQ(data, std::vector<int32_t>(data.size(), 6));
        }
      });
      if (rank == 0) shared[0].rounds += 1;
    }
    if (rank == 0) shared[0].stop = 1;
  });
  int64_t jumps = 0;
  EXPECT_TRUE(await([&] {
    shared[0].ahead_s = (++jumps % 3 - 1) * hour_s;
    return shared[0].stop == 1;
  }));
  const std::vector<Ending> endings = children.wait();
  expect_all_succeeded(endings);
  for (const Ending& ending : endings) EXPECT_EQ(ending.output, "");
  EXPECT_GE(jumps, wanted_rounds);
  wall_clock = nullptr;
}

// A deadline of half a second takes half a second, wherever the clock jumps meanwhile.
TEST(WallClock, that_jumps_moves_no_deadline) {
  for (int64_t jump_s : {-hour_s, hour_s}) {
    SharedArray<::WallClock> shared(1);
    wall_clock = &shared[0];
    Outcomes outcomes(2);
    const WorldChoice choice{.size = 2};
    Children children(2, [&](int rank) {
      as_rank(rank, choice, [&](TestWorld& world) {
        if (rank == 0) outcomes.note(0, [&] { distributed::barrier({.group = world.group(), .timeout_s = 0.5}); });
        if (rank == 1) { EXPECT_TRUE(await([&] { return outcomes.of(0).was_made(); })); }
      });
    });
    EXPECT_TRUE(await([&] { return outcomes.has_entered(0); }));
    children.await_asleep(0);
    shared[0].ahead_s = jump_s;
    expect_all_succeeded(children.wait());
    EXPECT_EQ(outcomes.of(0).code, ErrorCode::timeout) << outcomes.of(0).text();
    EXPECT_GE(outcomes.of(0).took_s(), 0.5);
    EXPECT_LT(outcomes.of(0).took_s(), 1.5);
    wall_clock = nullptr;
  }
}

}  // namespace
}  // namespace unisono::testing
