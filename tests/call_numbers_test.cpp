// Call numbers have 32 bits and wrap. What is compared by its distance, and what is compared for equality, stays right at 2^31 and
// 2^32 calls, whatever paths the calls take, and whatever was last written how long ago.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <barrier>

#include "base/sizes.hpp"
#include "group/group.hpp"
#include "group/world.hpp"
#include "tests/support/calls.hpp"
#include "tests/support/children.hpp"
#include "tests/support/expect_error.hpp"

namespace unisono::testing {
namespace {

constexpr int64_t just_below[] = {(int64_t{1} << 30) - 20, (int64_t{1} << 31) - 20, (int64_t{1} << 32) - 20};

Worlds worlds_from(int64_t first_call, std::vector<int> sizes, int64_t cores) {
  return ranks(std::move(sizes)).with(Kind::threads).with([&](Settings& settings) {
    settings.first_call = first_call;
    settings.cores = cores;
    settings.timeout_s = 10;
  });
}

// Sums of every path: 8 B in slots, 32 KiB combined by the last to arrive where ranks are crowded, 1 MiB by a schedule.
void expect_sums(const TestWorld& world, const GroupHandle& group, int64_t bytes, int seed) {
  std::vector<int32_t> data(static_cast<size_t>(bytes) / sizeof(int32_t), seed + world.rank());
  distributed::all_reduce(view(data), {.group = group});
  const int size = world.world().size(), sum = size * seed + size * (size - 1) / 2;
  ASSERT_EQ(data, std::vector<int32_t>(data.size(), sum)) << bytes << " bytes, call " << seed;
}

constexpr int64_t sizes_of_every_path[] = {8, 32_KiB, 1_MiB};

TEST(CallNumbers, wrap_in_the_middle_of_mixed_calls) {
  for (int64_t first : just_below)
    for (int64_t cores : {1, 64})
      for_each_world(worlds_from(first, {2, 3}, cores), [&](TestWorld& world) {
        for (int call = 0; call < 60; ++call) expect_sums(world, world.group(), sizes_of_every_path[call % 3], call);
      });
}

TEST(CallNumbers, wrap_where_calls_differ_or_are_refused) {
  for (int64_t first : just_below)
    for (int64_t cores : {1, 64})
      for_each_world(worlds_from(first, {3}, cores), [&](TestWorld& world) {
        for (int call = 0; call < 40; ++call) {
          std::vector<float> data(call % 3 == 0 && world.rank() == 1 ? 3 : 2, 1);
          auto sum = [&] { distributed::all_reduce(view(data), {.group = world.group()}); };
          if (call % 3 == 0)
            EXPECT_THROW(sum(), MismatchError) << call;
          else
            EXPECT_NO_THROW(sum()) << call;
        }
      });
}

TEST(CallNumbers, wrap_for_every_run_ahead) {
  for (int64_t first : just_below)
    for_each_world(worlds_from(first, {3}, 64), [&](TestWorld& world) {
      for (int ahead = 0; ahead <= most_run_ahead; ahead += small_run() ? 3 : 1) {
        GroupHandle group = distributed::new_group({0, 1, 2}, {.name = fmt::format("ahead {}", ahead), .run_ahead = ahead});
        for (int call = 0; call < 50; ++call) {
          std::vector<int32_t> data = {world.rank() == call % 2 ? call : -1};
          distributed::broadcast(view(data), {.src = call % 2, .group = group});
          ASSERT_EQ(data[0], call) << "run_ahead " << ahead;
          if (call % 7 == 0) expect_sums(world, group, sizes_of_every_path[call % 3], call);
        }
        distributed::destroy_process_group(group);
      }
    });
}

// What one path wrote last stays where it is while calls of other paths go by.
TEST(CallNumbers, of_a_path_that_was_last_taken_long_ago_are_not_mistaken_for_new_ones) {
  constexpr uint32_t quarter = 1u << 30;
  for (int64_t bytes : sizes_of_every_path)
    for (int64_t cores : {1, 64})
      for (int quarters : small_run() ? std::vector{1, 4} : std::vector{1, 2, 3, 4}) {
        std::barrier in_step(2);
        for_each_world(worlds_from(1, {2}, cores), [&](TestWorld& world) {
          std::shared_ptr<Group> group = world.world().world_group();
          for (int call = 1; call <= 2; ++call) expect_sums(world, world.group(), bytes, call);
          const int64_t other_path = bytes == 8 ? 1_MiB : 8;
          for (int skipped = 0; skipped < quarters; ++skipped) {
            for (int call = 0; call < 2; ++call) expect_sums(world, world.group(), other_path, call);
            in_step.arrive_and_wait();  // none is in a call any more
            group->skip_calls(quarter - 2);
            in_step.arrive_and_wait();
            for (int call = 0; call < 2; ++call) expect_sums(world, world.group(), other_path, call);
          }
          for (int call = 3; call <= 8; ++call) expect_sums(world, world.group(), bytes, call);
        });
      }
}

TEST(CallNumbers, are_the_same_on_all_ranks_or_told_apart) {
  WorldChoice choice{.size = 2};
  choice.settings.join_timeout_s = 20;
  if (under_thread_sanitizer()) GTEST_SKIP() << "starts processes";
  expect_all_succeeded(Children(2, [&](int rank) {
    Settings settings = choice.settings;
    settings.first_call = rank + 1;
    auto world = join_as(rank, 2, choice.job, settings);
    ASSERT_FALSE(world.ok());
    const std::string text = world.status().text();  // of whoever sees it first, or of who hears that the other gave up
    EXPECT_TRUE(text.find("UNISONO_FIRST_CALL") != std::string::npos || text.find("not mean the same group") != std::string::npos) << text;
  }).wait());
}

}  // namespace
}  // namespace unisono::testing
