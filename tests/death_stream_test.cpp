// Processes killed at random moments in the middle of streams of calls: whatever they were doing, the survivors are told
// within a second, what they had received is right, and nothing is left on the machine.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <random>

#include "tests/support/losses.hpp"

namespace unisono::testing {
namespace {

struct StreamScene {
  int ranks = 4;
  std::vector<int> victims;
  int rounds_before = 0;
  int64_t nanoseconds_after = 0;  // of the last round before
  Settings settings = Worlds::test_settings();
};

// Calls of every path, one after the other, until one fails. Every result is checked.
void stream(TestWorld& world, std::atomic<int>& rounds) {
  const int32_t sum = world.ranks() * (world.ranks() + 1) / 2;
  for (;; ++rounds) {
    for (size_t count : {1u, 2000u, 30'000u, 400'000u}) {
      std::vector<int32_t> data(count, 1 + world.rank());
      distributed::all_reduce(view(data), {.group = world.group()});
      ASSERT_EQ(data, std::vector<int32_t>(count, sum)) << "of " << count;
    }
    std::vector<int64_t> gathered(static_cast<size_t>(10'000 * world.ranks())), mine(10'000, world.rank());
    distributed::all_gather_into_tensor(view(gathered), view(mine), {.group = world.group()});
    for (size_t index = 0; index < gathered.size(); ++index) ASSERT_EQ(gathered[index], static_cast<int64_t>(index / 10'000));
  }
}

void expect_stream_ends(const StreamScene& scene) {
  Outcomes outcomes(scene.ranks);
  SharedArray<Signs> signs(1);
  WorldChoice choice{.size = scene.ranks, .job = unique_job(), .settings = scene.settings};
  Children children(scene.ranks, [&](int rank) {
    as_rank(rank, choice, [&](TestWorld& world) {
      std::atomic<int> own{0};
      signs[0].ready += 1;
      outcomes.note(rank, [&] { stream(world, rank == scene.victims[0] ? signs[0].rounds : own); });
    });
  });
  EXPECT_TRUE(await([&] { return signs[0].ready == scene.ranks && signs[0].rounds >= scene.rounds_before; }));
  for (const int64_t until_ns = now_ns() + scene.nanoseconds_after; now_ns() < until_ns;) continue;
  const int64_t killed_ns = children.kill_together(scene.victims);
  std::vector<Ending> endings = children.wait();
  for (int victim : scene.victims) EXPECT_TRUE(endings[static_cast<size_t>(victim)].killed_by(SIGKILL)) << endings[static_cast<size_t>(victim)].output;
  for (int rank = 0; rank < scene.ranks; ++rank) {
    if (std::find(scene.victims.begin(), scene.victims.end(), rank) != scene.victims.end()) continue;
    EXPECT_TRUE(endings[static_cast<size_t>(rank)].succeeded()) << endings[static_cast<size_t>(rank)].output;
    expect_lost(outcomes.of(rank), scene.victims);
    EXPECT_LT(seconds_between(killed_ns, outcomes.of(rank).ended_ns), 1.0) << outcomes.of(rank).text();
  }
}

void expect_streams_end(int count, uint32_t seed, const std::function<void(StreamScene&)>& change) {
  Traces traces;
  std::mt19937 random(seed);
  for (int round = 0; round < count; ++round) {
    StreamScene scene;
    change(scene);
    scene.victims = {static_cast<int>(random() % static_cast<uint32_t>(scene.ranks))};
    scene.rounds_before = static_cast<int>(random() % 4);
    scene.nanoseconds_after = random() % 2'000'000;
    SCOPED_TRACE(fmt::format("round {}: rank {} of {} killed {} ns after round {}", round, scene.victims[0], scene.ranks,
                             scene.nanoseconds_after, scene.rounds_before));
    expect_stream_ends(scene);
    if (::testing::Test::HasFailure()) return;
  }
  traces.expect_none_left();
}

int kills(int usually) { return full_run() ? 20 * usually : small_run() ? usually / 10 + 1 : usually; }

TEST(DeathInStreams, at_random_moments_is_told_within_a_second_by_many_ranks) {
  expect_streams_end(kills(30), 1, [](StreamScene&) {});
}

TEST(DeathInStreams, at_random_moments_is_told_within_a_second_by_two_ranks_with_a_core_each) {
  expect_streams_end(kills(30), 2, [](StreamScene& scene) { scene.ranks = 2; });
}

TEST(DeathInStreams, at_random_moments_is_told_within_a_second_where_ranks_share_one_core) {
  expect_streams_end(kills(20), 3, [](StreamScene& scene) {
    scene.ranks = 3;
    scene.settings.cores = 1;
  });
}

TEST(DeathInStreams, at_random_moments_is_told_within_a_second_over_links) {
  expect_streams_end(kills(20), 4, [](StreamScene& scene) { scene.settings.plan = "all_reduce=ring,all_gather=ring"; });
}

TEST(DeathInStreams, of_two_at_random_moments_is_told_within_a_second) {
  Traces traces;
  std::mt19937 random(5);
  for (int round = 0; round < kills(10) && !HasFailure(); ++round) {
    const int first = static_cast<int>(random() % 4);
    StreamScene scene{.victims = {first, (first + 1 + static_cast<int>(random() % 3)) % 4}, .rounds_before = static_cast<int>(random() % 3)};
    scene.nanoseconds_after = random() % 2'000'000;
    SCOPED_TRACE(fmt::format("round {}: ranks {} and {}", round, scene.victims[0], scene.victims[1]));
    expect_stream_ends(scene);
  }
  traces.expect_none_left();
}

// Nobody is there to tidy up.
TEST(DeathInStreams, of_everybody_at_once_leaves_nothing_behind) {
  Traces traces;
  for (int round = 0; round < kills(10); ++round) {
    SharedArray<Signs> signs(1);
    WorldChoice choice{.size = 4};
    Children children(4, [&](int rank) {
      as_rank(rank, choice, [&](TestWorld& world) { stream(world, signs[0].rounds); });
    });
    EXPECT_TRUE(await([&] { return signs[0].rounds > round % 3; }));
    children.kill_together({0, 1, 2, 3});
    for (const Ending& ending : children.wait()) EXPECT_TRUE(ending.killed_by(SIGKILL)) << ending.output;
    traces.expect_none_left();
  }
}

}  // namespace
}  // namespace unisono::testing
