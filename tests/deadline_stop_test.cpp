// Processes that are stopped by a signal: continued in time they have only been slow; after the deadline they are named.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <random>

#include "tests/support/calls.hpp"
#include "tests/support/children.hpp"
#include "tests/support/outcomes.hpp"

namespace unisono::testing {
namespace {

// What the ranks of a test tell each other and the test.
struct Signs {
  std::atomic<int> ready, go, rounds;
};

TEST(Stopped, a_rank_continued_before_the_deadline_has_only_been_slow) {
  for (int stopped = 0; stopped < 3; ++stopped) {
    SharedArray<Signs> signs(1);
    WorldChoice choice{.size = 3};
    Children children(3, [&](int rank) {
      as_rank(rank, choice, [&](TestWorld& world) {
        expect_works(world);
        signs[0].ready += 1;
        if (rank == stopped) { EXPECT_TRUE(await([&] { return signs[0].go == 1; })); }
        expect_works(world);
      });
    });
    EXPECT_TRUE(await([&] { return signs[0].ready == 3; }));
    children.signal(stopped, SIGSTOP);
    children.await_stopped(stopped);
    signs[0].go = 1;
    for (int rank = 0; rank < 3; ++rank)
      if (rank != stopped) children.await_asleep(rank);
    children.signal(stopped, SIGCONT);
    expect_all_succeeded(children.wait());
  }
}

// Wherever a rank is in a stream of calls on every path, stopping it for a while changes no number.
TEST(Stopped, ranks_stopped_and_continued_at_random_lose_nothing) {
  SharedArray<Signs> signs(1);
  WorldChoice choice{.size = 3};
  Children children(3, [&](int rank) {
    as_rank(rank, choice, [&](TestWorld& world) {
      for (std::vector<int32_t> more = {1}; more[0] > 0;) {
        for (int64_t count : {1, 3000, 20'000, 300'000}) {
          std::vector<int32_t> data(static_cast<size_t>(count), 1 + rank);
          distributed::all_reduce(view(data), {.group = world.group()});
          ASSERT_EQ(data, std::vector<int32_t>(data.size(), 6));
        }
        if (rank == 0) signs[0].rounds += 1;
        more[0] = rank == 0 && signs[0].go == 0;
        distributed::broadcast(view(more), {.group = world.group()});
      }
    });
  });
  std::mt19937 random(4711);
  for (int stop = 0; stop < (full_run() ? 300 : 30); ++stop) {
    const int rank = static_cast<int>(random() % 3), rounds = signs[0].rounds;
    EXPECT_TRUE(await([&] { return signs[0].rounds > rounds; }));
    children.signal(rank, SIGSTOP);
    children.await_stopped(rank);
    children.signal(rank, SIGCONT);
  }
  signs[0].go = 1;
  expect_all_succeeded(children.wait());
}

TEST(Stopped, a_rank_stopped_past_the_deadline_is_named_by_all_and_told_when_it_goes_on) {
  Outcomes outcomes(3);
  SharedArray<Signs> signs(1);
  WorldChoice choice{.size = 3};
  choice.settings.timeout_s = 0.5;
  Children children(3, [&](int rank) {
    as_rank(rank, choice, [&](TestWorld& world) {
      GroupHandle group = distributed::new_group({0, 1, 2}, {.name = "stopped"});
      Scratch scratch;
      signs[0].ready += 1;
      EXPECT_TRUE(await([&] { return signs[0].go == 1; }));
      outcomes.note(world.rank(), [&] { make_call(group, scratch, {}); });
    });
  });
  EXPECT_TRUE(await([&] { return signs[0].ready == 3; }));
  children.signal(1, SIGSTOP);
  children.await_stopped(1);
  signs[0].go = 1;
  for (int rank : {0, 2}) EXPECT_TRUE(await([&] { return outcomes.of(rank).was_made(); }));
  children.signal(1, SIGCONT);
  expect_all_succeeded(children.wait());
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(outcomes.of(rank).code, ErrorCode::timeout) << outcomes.of(rank).text();
    EXPECT_NE(outcomes.of(rank).text().find(numbered("rank 1 has not entered call #1 (last finished call #0)")), std::string::npos)
        << outcomes.of(rank).text();
    EXPECT_LT(outcomes.of(rank).took_s(), 1.5);
  }
}

}  // namespace
}  // namespace unisono::testing
