// Calls that differ are told apart also where the 32 bits that stand for them are the same.
#include "group/signatures.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <unordered_map>

#include "planner/planner.hpp"
#include "tests/support/calls.hpp"
#include "tests/support/children.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/outcomes.hpp"

namespace unisono::testing {
namespace {

Announcement sum_of(int64_t count, uint32_t plan) {
  Announcement announcement;
  announcement.kind = Collective::all_reduce;
  announcement.dtype = DType::float32;
  announcement.count = count;
  announcement.plan = plan;
  return announcement;
}

struct Pair {
  int64_t one = 0, other = 0;
};

// Two counts whose announcements have the same hash, by trying.
Pair colliding(uint32_t plan, int64_t from, int64_t to) {
  std::unordered_map<uint32_t, int64_t> seen;
  for (int64_t count = from; count < to; ++count)
    if (auto [entry, is_new] = seen.emplace(sum_of(count, plan).hash(), count); !is_new) return {entry->second, count};
  return {};
}

TEST(Signatures, with_the_same_hash_get_different_ones_once_one_is_known) {
  const Pair pair = colliding(1, 1, 1 << 20);
  ASSERT_NE(pair.one, 0);
  const Announcement one = sum_of(pair.one, 1), other = sum_of(pair.other, 1);
  ASSERT_EQ(one.hash(), other.hash());
  Signatures signatures;
  EXPECT_EQ(signatures.mark_of(one).hash, signatures.mark_of(other).hash);
  EXPECT_FALSE(signatures.mark_of(one).known);
  signatures.learn(one.hash(), one);
  EXPECT_TRUE(signatures.mark_of(one).known);
  const Signatures::Mark mark = signatures.mark_of(other);
  EXPECT_FALSE(mark.known);
  EXPECT_NE(mark.hash, one.hash());
  signatures.learn(mark.hash, other);
  EXPECT_TRUE(signatures.mark_of(other).known);
  EXPECT_EQ(signatures.mark_of(one).hash, one.hash());
}

TEST(Signatures, that_are_too_many_are_forgotten_together) {
  Signatures signatures;
  const uint32_t era = signatures.era();
  for (int64_t count = 1; signatures.era() == era; ++count) {
    ASSERT_LT(count, 100'000) << "they are kept for ever";
    signatures.learn(sum_of(count, 1).hash(), sum_of(count, 1));
  }
  EXPECT_FALSE(signatures.mark_of(sum_of(1, 1)).known);
}

// The pair's plan is the one that the group chooses for both.
Pair colliding_in_use(const TestWorld& world, bool crowded, int64_t from, int64_t to) {
  Planner planner;
  auto plan_of = [&](int64_t count) {
    return *planner.plan({.collective = Collective::all_reduce, .ranks = 2, .rank = world.rank(), .bytes = count * 4, .crowded = crowded,
                          .peer_reads = false, .set_bytes = 128 << 10});
  };
  EXPECT_EQ(plan_of(from)->fingerprint(), plan_of(to)->fingerprint()) << "choose a range of one plan";
  return colliding(plan_of(from)->fingerprint(), from, to);
}

void sum(const TestWorld& world, int64_t count) {
  std::vector<float> data(static_cast<size_t>(count), 1);
  distributed::all_reduce(view(data), {.group = world.group()});
  ASSERT_EQ(data, std::vector<float>(data.size(), 2));
}

// New to both, known to both, known to one: always a mismatch, with nothing written, and the group goes on.
TEST(Signatures, that_collide_are_a_mismatch_on_all_ranks) {
  for (bool crowded : {false, true}) {
    auto worlds = ranks(2).with([&](Settings& settings) {
      settings.peer_reads = "off";
      settings.cores = crowded ? 1 : 64;
      settings.timeout_s = 10;
    });
    for_each_world(worlds, [&](TestWorld& world) {
      const Pair pair = colliding_in_use(world, crowded, 20'000, 500'000);
      ASSERT_NE(pair.one, 0);
      auto differ = [&] {
        const int64_t mine = world.rank() == 0 ? pair.one : pair.other;
        std::vector<float> data(static_cast<size_t>(mine), 1);
        EXPECT_THROW(distributed::all_reduce(view(data), {.group = world.group()}), MismatchError);
        EXPECT_EQ(data, std::vector<float>(data.size(), 1));
      };
      differ();
      sum(world, pair.one);
      differ();
      sum(world, pair.other);
      differ();
      for (int times = 0; times < 3; ++times) {
        sum(world, pair.one);
        sum(world, pair.other);
      }
      differ();
    });
  }
}

}  // namespace
}  // namespace unisono::testing
