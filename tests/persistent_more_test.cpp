// Prepared scans and coalesced calls, made several times; the other kinds, and what prepared calls do in every state of their
// group, are in persistent_test.cpp.
#include <gtest/gtest.h>

#include "tests/support/test_world.hpp"
#include "unisono/persistent.hpp"

namespace unisono {
namespace {

using testing::for_each_world;
using testing::ranks;
using testing::TestWorld;
using Ints = std::vector<int32_t>;

constexpr int rounds = 6;
const std::vector<size_t> counts = {3, 5'000};

TEST(PreparedScans, are_made_again_and_again) {
  for_each_world(ranks({1, 2, 4}), [](TestWorld& world) {
    const int me = world.rank();
    for (size_t count : counts) {
      Ints up_to(count), below(count);
      Prepared scan = distributed::prepare_scan(view(up_to)), exscan = distributed::prepare_exscan(view(below));
      for (int round = 1; round <= rounds; ++round) {
        std::fill(up_to.begin(), up_to.end(), round);
        std::fill(below.begin(), below.end(), round);
        scan.run();
        exscan.start();
        exscan.wait();
        EXPECT_EQ(up_to, Ints(count, round * (me + 1)));
        EXPECT_EQ(below, Ints(count, me == 0 ? round : round * me));
      }
    }
  });
}

TEST(PreparedCoalescedCalls, are_made_again_and_again) {
  for_each_world(ranks({1, 2, 4}), [](TestWorld& world) {
    const int me = world.rank();
    const auto n = static_cast<size_t>(world.ranks());
    for (size_t count : counts) {
      std::vector<Ints> given(2, Ints(count)), gathered(2, Ints(count * n)), reduced(2, Ints(count));
      std::vector<std::vector<Ints>> listed(n, std::vector<Ints>(2, Ints(count))), parts(2, std::vector<Ints>(n, Ints(count)));
      auto views = [](std::vector<Ints>& tensors) {
        std::vector<TensorView> list;
        for (Ints& tensor : tensors) list.push_back(view(tensor));
        return list;
      };
      std::vector<std::vector<TensorView>> output_lists, input_lists;
      for (auto& of_rank : listed) output_lists.push_back(views(of_rank));
      for (auto& of_tensor : parts) input_lists.push_back(views(of_tensor));
      Prepared gather = distributed::prepare_all_gather_coalesced(output_lists, views(given));
      Prepared gather_into = distributed::prepare_all_gather_into_tensor_coalesced(views(gathered), views(given));
      Prepared scatter = distributed::prepare_reduce_scatter_coalesced(views(reduced), input_lists);
      Prepared scatter_from = distributed::prepare_reduce_scatter_tensor_coalesced(views(reduced), views(gathered));
      for (int round = 1; round <= rounds; ++round) {
        for (int tensor : {0, 1}) std::fill(given[tensor].begin(), given[tensor].end(), 100 * me + 10 * tensor + round);
        gather.run();
        gather_into.run();
        for (size_t rank = 0; rank < n; ++rank)
          for (size_t tensor : {0, 1}) {
            const auto wanted = static_cast<int32_t>(100 * rank + 10 * tensor) + round;
            EXPECT_EQ(listed[rank][tensor], Ints(count, wanted));
            EXPECT_EQ(gathered[tensor][rank * count], wanted);
            std::fill(parts[tensor][rank].begin(), parts[tensor][rank].end(), static_cast<int32_t>(rank + tensor) + round);
          }
        scatter.run();
        for (size_t tensor : {0, 1})
          EXPECT_EQ(reduced[tensor], Ints(count, static_cast<int32_t>(n) * (me + static_cast<int32_t>(tensor) + round)));
        scatter_from.run();
        for (size_t tensor : {0, 1})
          EXPECT_EQ(reduced[tensor], Ints(count, static_cast<int32_t>(n) * (100 * me + 10 * static_cast<int32_t>(tensor) + round)));
      }
    }
  });
}

}  // namespace
}  // namespace unisono
