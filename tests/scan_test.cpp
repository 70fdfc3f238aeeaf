// What scan and exscan promise beside what every collective does (collectives_test.cpp): whose data is in whose result, what
// rank 0 keeps, the order of additions, and what is refused.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "algorithms/catalogue.hpp"
#include "kernels/kernels.hpp"
#include "tests/support/calls.hpp"
#include "unisono/comm_func.hpp"

namespace unisono {
namespace {

using testing::expect_works;
using testing::for_each_world;
using testing::ranks;
using testing::TestWorld;

TEST(Scan, of_a_rank_has_its_own_part_and_exscan_has_not) {
  for_each_world(ranks({1, 2, 5}), [](TestWorld& world) {
    const int me = world.rank();
    for (size_t count : {1, 100, 5000, 100'000}) {
      std::vector<int32_t> up_to(count, me + 1), below(count, me + 1);
      distributed::scan(view(up_to), {.group = world.group()});
      distributed::exscan(view(below), {.group = world.group()});
      EXPECT_EQ(up_to, std::vector<int32_t>(count, (me + 1) * (me + 2) / 2));
      EXPECT_EQ(below, std::vector<int32_t>(count, me == 0 ? 1 : me * (me + 1) / 2)) << "rank 0 keeps what it had";
      const std::vector<int32_t> given(count, me + 1);
      EXPECT_EQ(comm_func::scan(view(given)).first.to_vector<int32_t>(), up_to);
      EXPECT_EQ(comm_func::exscan(view(given)).first.to_vector<int32_t>(), std::vector<int32_t>(count, me * (me + 1) / 2));
    }
  });
}

std::vector<float> random_floats(int rank, size_t count) {
  std::mt19937 random(static_cast<unsigned>(rank + 1));
  std::normal_distribution<float> normal(0, 1000);
  std::vector<float> numbers(count);
  for (float& number : numbers) number = normal(random);
  return numbers;
}

// By every algorithm that keeps the order the same bits: those of one pass over the ranks that take part.
TEST(Scan, adds_up_by_the_tree_over_the_ranks_that_take_part) {
  for (const Algorithm& algorithm : catalogue()) {
    const bool inclusive = algorithm.collective == Collective::scan;
    if ((!inclusive && algorithm.collective != Collective::exscan) || !algorithm.keeps_rank_order()) continue;
    SCOPED_TRACE(fmt::format("{} {}", name_of(algorithm.collective), algorithm.name));
    auto worlds = ranks({3, 6, 7}).with([&](Settings& settings) {
      settings.plan = fmt::format("{}={}", name_of(algorithm.collective), algorithm.name);
    });
    for_each_world(worlds, [&](TestWorld& world) {
      const size_t count = algorithm.path == Path::schedule ? 50'000 : 2000;
      std::vector<std::vector<float>> inputs;
      std::vector<const void*> sources;
      for (int rank = 0; rank < world.rank() + (inclusive ? 1 : 0); ++rank) inputs.push_back(random_floats(rank, count));
      for (const std::vector<float>& input : inputs) sources.push_back(input.data());
      std::vector<float> data = random_floats(world.rank(), count), wanted = data;
      if (!sources.empty())
        reduce({DType::float32, ReduceOp::sum, world.ranks()},
               {.target = wanted.data(), .sources = sources, .count = static_cast<int64_t>(count)});
      (inclusive ? distributed::scan : distributed::exscan)(view(data), {.group = world.group()});
      EXPECT_EQ(std::memcmp(data.data(), wanted.data(), count * sizeof(float)), 0) << "rank " << world.rank();
    });
  }
}

TEST(Scan, refuses_avg_and_says_why) {
  for_each_world(ranks(3), [](TestWorld& world) {
    std::vector<float> data(10, 1);
    auto expect_refused = [](auto call) {
      try {
        call();
        ADD_FAILURE() << "nothing was thrown";
      } catch (const ArgumentError& error) {
        EXPECT_NE(std::string(error.what()).find("there is no one number to divide by; use sum and divide"), std::string::npos)
            << error.what();
      }
    };
    expect_refused([&] { distributed::scan(view(data), {.op = ReduceOp::avg, .group = world.group()}); });
    expect_refused([&] { distributed::exscan(view(data), {.op = ReduceOp::avg, .group = world.group()}); });
    expect_refused([&] { comm_func::scan(view(data), {.op = ReduceOp::avg}); });
    expect_refused([&] { comm_func::exscan(view(data), {.op = ReduceOp::avg}); });
    EXPECT_EQ(data, std::vector<float>(10, 1));
    expect_works(world);
  });
}

TEST(Scan, and_exscan_are_different_calls) {
  for_each_world(ranks(3), [](TestWorld& world) {
    std::vector<float> data(10, 1);
    auto function = world.rank() == 1 ? distributed::exscan : distributed::scan;
    EXPECT_THROW(function(view(data), {.group = world.group()}), MismatchError);
    EXPECT_EQ(data, std::vector<float>(10, 1));
    expect_works(world);
  });
}

}  // namespace
}  // namespace unisono
