// all_reduce through both dialects; the other collectives are in collectives_test.cpp.
#include <gtest/gtest.h>

#include "tests/support/test_world.hpp"
#include "unisono/comm_func.hpp"
#include "unisono/distributed.hpp"

namespace unisono {
namespace {

using testing::for_each_world;
using testing::ranks;
using testing::TestWorld;

TEST(AllReduce, sums_small_tensors_in_place) {
  for_each_world(ranks({1, 2, 3, 5}), [](TestWorld& world) {
    for (int call = 0; call < 100; ++call) {
      std::vector<float> data(16, static_cast<float>(world.rank() + call));
      distributed::all_reduce(view(data), {.group = world.group()});
      float expected = 0;
      for (int rank = 0; rank < world.ranks(); ++rank) expected += static_cast<float>(rank + call);
      ASSERT_EQ(data, std::vector<float>(16, expected)) << "call " << call;
    }
  });
}

TEST(AllReduce, a_count_smaller_than_the_group_still_sums) {
  for_each_world(ranks(5), [](TestWorld& world) {
    std::vector<float> data(3, static_cast<float>(world.rank()));
    distributed::all_reduce(view(data), {.group = world.group()});
    EXPECT_EQ(data, std::vector<float>(3, 0 + 1 + 2 + 3 + 4));
  });
}

TEST(AllReduce, sums_tensors_of_many_sizes_on_every_path) {
  for_each_world(ranks({1, 2, 3, 4}), [](TestWorld& world) {
    for (int64_t count : {0, 1, 31, 1000, 5000, 20'000, 100'000, 500'003}) {
      std::vector<float> data(static_cast<size_t>(count));
      for (int64_t index = 0; index < count; ++index)
        data[static_cast<size_t>(index)] = static_cast<float>((index % 1000) * (world.rank() + 1));
      distributed::all_reduce(view(data), {.group = world.group()});
      float weight = 0;
      for (int rank = 0; rank < world.ranks(); ++rank) weight += static_cast<float>(rank + 1);
      for (int64_t index = 0; index < count; ++index)
        ASSERT_EQ(data[static_cast<size_t>(index)], static_cast<float>(index % 1000) * weight) << count << " at " << index;
    }
  });
}

TEST(AllReduce, the_comm_func_dialect_returns_a_new_tensor_and_leaves_its_input_alone) {
  for_each_world(ranks({1, 3}), [](TestWorld& world) {
    std::vector<int32_t> data = {1, 2, world.rank()};
    auto [output, handle] = comm_func::all_reduce(view(data));
    EXPECT_EQ(handle, nullptr);
    EXPECT_EQ(data, (std::vector<int32_t>{1, 2, world.rank()}));
    int n = world.ranks();
    EXPECT_EQ(output.to_vector<int32_t>(), (std::vector<int32_t>{n, 2 * n, n * (n - 1) / 2}));
  });
}

}  // namespace
}  // namespace unisono
