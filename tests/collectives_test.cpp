// Every collective in both dialects, with ranks as threads and as processes, against sums worked out in the test. What
// is tried and what is compared: support/trial.hpp. The same by every algorithm: plans_test.cpp.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>

#include "tests/support/outcomes.hpp"
#include "tests/support/scale.hpp"
#include "tests/support/test_world.hpp"
#include "tests/support/trial_lists.hpp"
#include "unisono/comm_func.hpp"

namespace unisono {
namespace {

using testing::Dialect;
using testing::Extent;
using testing::for_each_world;
using testing::Form;
using testing::perform_all;
using testing::ranks;
using testing::Scale;
using testing::scale;
using testing::TestWorld;
using testing::Trial;

std::vector<int> rank_counts() {
  if (scale() == Scale::small) return {1, 2, 4};
  return {1, 2, 3, 4, 5, 6, 7, 8};
}

// One test a number of ranks, so that each names itself when it fails and none takes long.
class Collectives : public ::testing::TestWithParam<int> {};

TEST_P(Collectives, give_what_the_oracle_says_at_every_size_of_interest) {
  Extent extent{.ranks = GetParam()};
  if (scale() == Scale::small) extent.largest_bytes = 512 << 10;
  if (scale() == Scale::small) extent.every = 2;
  if (scale() == Scale::full) extent.turns = 20;
  perform_all(testing::trials_of_sizes(extent), ranks(extent.ranks));
}

INSTANTIATE_TEST_SUITE_P(With, Collectives, ::testing::ValuesIn(rank_counts()),
                         [](const auto& info) { return fmt::format("{}_ranks", info.param); });

TEST(EveryCollective, take_every_dtype_and_every_op_that_means_something_and_every_root) {
  const std::vector<int> sizes = scale() == Scale::full ? rank_counts() : std::vector{scale() == Scale::small ? 2 : 3};
  const int every = scale() == Scale::small ? 7 : 1;
  for (int size : sizes) perform_all(testing::trials_of_numbers({.ranks = size, .every = every}, 29), ranks(size));
  if (scale() == Scale::full) perform_all(testing::trials_of_numbers({.ranks = 4}, 5003), ranks(4));
}

TEST(EveryCollective, has_asynchronous_calls_that_give_the_same) {
  std::vector<Trial> trials = testing::trials_of_sizes({.ranks = 3, .largest_bytes = 256 << 10, .every = scale() == Scale::small ? 3 : 1});
  for (Trial& trial : trials) trial.async_op = true;
  perform_all(trials, ranks(3));
}

TEST(EveryCollective, works_among_16_ranks_on_few_cores) {
  const std::vector<DType> dtypes = {DType::float32, DType::int16, DType::complex64};
  std::vector<Trial> trials;
  for (const Form& form : testing::all_forms())
    for (int64_t bytes : {8, 100, 8 << 10, 64 << 10}) {
      const DType dtype = dtypes[trials.size() % 3];
      trials.push_back(
          {&form, dtype, ReduceOp::sum, bytes / element_bytes(dtype), static_cast<int>(trials.size() % 16)});
    }
  perform_all(trials, ranks(16));
}

TEST(Barrier, returns_once_every_rank_has_come) {
  constexpr int rounds = 50;
  for (int size : {2, 3, 8}) {
    testing::SharedArray<std::atomic<int>> came(2);
    for_each_world(ranks(size), [&](TestWorld& world) {
      std::atomic<int>& arrivals = came[world.are_threads() ? 0 : 1];
      for (int round = 1; round <= rounds; ++round) {
        arrivals.fetch_add(1);
        if (round % 2 == 0)
          distributed::barrier({.group = world.group()});
        else
          comm_func::barrier();
        ASSERT_GE(arrivals.load(), round * size);
      }
    });
  }
}

TEST(AllReduce, carries_nan_and_infinity_to_every_rank) {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for_each_world(ranks({2, 5}), [&](TestWorld& world) {
    for (ReduceOp op : {ReduceOp::sum, ReduceOp::product, ReduceOp::min, ReduceOp::max, ReduceOp::avg}) {
      const bool odd_one_out = world.rank() == 1;
      std::vector<float> data = {1, odd_one_out ? nan : 1, odd_one_out ? infinity : 1};
      distributed::all_reduce(view(data), {.op = op, .group = world.group()});
      EXPECT_FALSE(std::isnan(data[0]));
      EXPECT_TRUE(std::isnan(data[1])) << name_of(op.kind);
      EXPECT_EQ(data[2], op == ReduceOp::min ? 1 : infinity) << name_of(op.kind);
    }
  });
}

TEST(AllGather, may_find_its_input_in_its_place_in_the_output) {
  for_each_world(ranks({1, 2, 3}), [](TestWorld& world) {
    for (size_t count : {1, 100, 5000, 100'000}) {
      std::vector<int32_t> output(count * static_cast<size_t>(world.ranks()), -1);
      std::span<int32_t> mine = std::span(output).subspan(count * static_cast<size_t>(world.rank()), count);
      for (size_t index = 0; index < count; ++index) mine[index] = static_cast<int32_t>(index) * 10 + world.rank();
      distributed::all_gather_into_tensor(view(output), view(mine), {.group = world.group()});
      for (size_t index = 0; index < output.size(); ++index)
        ASSERT_EQ(output[index], static_cast<int32_t>(index % count * 10 + index / count)) << count << " at " << index;
    }
  });
}

TEST(ReduceScatter, may_write_its_output_into_its_place_in_the_input) {
  for_each_world(ranks({1, 2, 3}), [](TestWorld& world) {
    for (size_t count : {1, 100, 5000, 100'000}) {
      const size_t total = count * static_cast<size_t>(world.ranks()),
                   first = count * static_cast<size_t>(world.rank());
      std::vector<int32_t> input(total);
      for (size_t index = 0; index < total; ++index) input[index] = static_cast<int32_t>(index) * (world.rank() + 1);
      std::span<int32_t> mine = std::span(input).subspan(first, count);
      distributed::reduce_scatter_tensor(view(mine), view(input), {.group = world.group()});
      const int32_t weight = world.ranks() * (world.ranks() + 1) / 2;
      for (size_t index = 0; index < total; ++index) {
        const bool is_mine = index >= first && index < first + count;
        ASSERT_EQ(input[index], static_cast<int32_t>(index) * (is_mine ? weight : world.rank() + 1))
            << count << " at " << index;
      }
    }
  });
}

TEST(Scalars, have_no_dimension_and_work_all_the_same) {
  for_each_world(ranks({1, 3}), [](TestWorld& world) {
    float value = static_cast<float>(world.rank() + 1);
    const TensorView scalar{&value, DType::float32, Shape{}};
    const auto n = static_cast<float>(world.ranks());
    EXPECT_EQ(comm_func::all_reduce(scalar).first.shape(), Shape{});
    auto [gathered, handle] = comm_func::all_gather_into_tensor(scalar);
    EXPECT_EQ(gathered.shape(), Shape{world.ranks()});
    EXPECT_EQ(gathered.to_vector<float>().back(), n);
    EXPECT_EQ(comm_func::reduce(scalar, 0).shape(), Shape{});
    distributed::broadcast(scalar, {.src = world.ranks() - 1, .group = world.group()});
    EXPECT_EQ(value, n);
    distributed::all_reduce(scalar, {.group = world.group()});
    EXPECT_EQ(value, n * n);
  });
}

}  // namespace
}  // namespace unisono
