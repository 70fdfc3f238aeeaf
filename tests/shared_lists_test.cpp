// Lists of shared tensors: every collective that takes a list takes them, whole or mixed with private tensors, of odd and uneven
// sizes, in place and not, by every plan. That nothing of them is staged: run_shown_test.cpp.
#include <gtest/gtest.h>

#include "tests/support/calls.hpp"
#include "tests/support/numbered.hpp"
#include "tests/support/scale.hpp"
#include "tests/support/test_world.hpp"

namespace unisono {
namespace {

using testing::expect_from;
using testing::expect_sum;
using testing::fill;
using testing::for_each_world;
using testing::Maker;
using testing::ranks;
using testing::TestWorld;

// Which tensors of a list are shared: all, none on every second rank, or every second one in it.
enum class Mix { all, some_ranks, some_tensors };

// Lists of tensors, no two of which lie side by side.
struct ListMaker {
  Mix mix;
  int me;

  bool shares(int64_t index) const { return mix == Mix::all || (mix == Mix::some_ranks ? me : index) % 2 == 0; }
  std::vector<Tensor> operator()(const std::vector<int64_t>& counts) const {
    std::vector<Tensor> list;
    for (int64_t count : counts) list.push_back(Maker{shares(static_cast<int64_t>(list.size()))}(count));
    return list;
  }
};

std::vector<TensorView> views(const std::vector<Tensor>& tensors) { return {tensors.begin(), tensors.end()}; }

void fill(const std::vector<Tensor>& list, int rank) {
  for (size_t index = 0; index < list.size(); ++index) fill(list[index], rank, static_cast<int64_t>(index) * 7);
}

// As long as `count` for the first rank and a little longer for every next one.
std::vector<int64_t> uneven(int64_t count, int size) {
  std::vector<int64_t> counts;
  for (int rank = 0; rank < size; ++rank) counts.push_back(count + rank * 3);
  return counts;
}

void try_lists_by_rank(TestWorld& world, const ListMaker& make, int64_t count, int root) {
  const int me = world.rank(), size = world.ranks();
  const std::vector<int64_t> counts = uneven(count, size);
  const auto mine = static_cast<size_t>(me);
  std::vector<Tensor> list = make(counts), same = make(std::vector<int64_t>(counts.size(), count));
  Tensor own = Maker{make.shares(0)}(counts[mine]), one = Maker{make.shares(0)}(count);

  fill(own, me);
  distributed::all_gather(views(list), own);
  for (int rank = 0; rank < size; ++rank) expect_from(list[static_cast<size_t>(rank)], {0, count + rank * 3, rank}, "all_gather");

  fill(list, me);
  distributed::reduce_scatter(own, views(list));
  expect_sum(own, size, me * 7, "reduce_scatter");
  for (int rank = 0; rank < size; ++rank)
    expect_from(list[static_cast<size_t>(rank)], {0, count + rank * 3, me, rank * 7}, "its input");
  distributed::reduce_scatter(list[mine], views(list));  // in place
  expect_sum(list[mine], size, me * 7, "reduce_scatter in place");

  fill(same, me);
  distributed::scatter(one, me == root ? views(same) : std::vector<TensorView>{}, {.src = root});
  expect_from(one, {0, count, root, me * 7}, "scatter");
  distributed::gather(one, me == root ? views(same) : std::vector<TensorView>{}, {.dst = root});
  for (int rank = 0; rank < size && me == root; ++rank)
    expect_from(same[static_cast<size_t>(rank)], {0, count, root, rank * 7}, "gather");

  std::vector<int64_t> sent, received;
  for (int peer = 0; peer < size; ++peer) sent.push_back(count + me * 5 + peer), received.push_back(count + peer * 5 + me);
  std::vector<Tensor> given = make(sent), got = make(received);
  fill(given, me);
  distributed::all_to_all(views(got), views(given));
  for (int rank = 0; rank < size; ++rank)
    expect_from(got[static_cast<size_t>(rank)], {0, received[static_cast<size_t>(rank)], rank, me * 7}, "all_to_all");
}

void try_coalesced_lists(TestWorld& world, const ListMaker& make, int64_t count) {
  const int me = world.rank(), size = world.ranks();
  const std::vector<int64_t> counts = {count, 1, 0, count / 2 + 3, 9};
  std::vector<int64_t> large;
  for (int64_t each : counts) large.push_back(each * size);
  std::vector<Tensor> list = make(counts), many = make(large);

  fill(list, me);
  distributed::all_reduce_coalesced(views(list));
  for (size_t index = 0; index < list.size(); ++index)
    expect_sum(list[index], size, static_cast<int64_t>(index) * 7, "all_reduce_coalesced");

  fill(list, me);
  distributed::all_gather_into_tensor_coalesced(views(many), views(list));
  for (size_t index = 0; index < list.size(); ++index)
    for (int rank = 0; rank < size; ++rank)
      expect_from(many[index], {rank * counts[index], counts[index], rank, static_cast<int64_t>(index) * 7}, "all_gather");

  fill(many, me);
  distributed::reduce_scatter_tensor_coalesced(views(list), views(many));
  for (size_t index = 0; index < list.size(); ++index)
    expect_sum(list[index], size, static_cast<int64_t>(index) * 7 + me * counts[index], "reduce_scatter_tensor_coalesced");

  std::vector<std::vector<Tensor>> parts;  // [tensor][rank], of uneven sizes
  std::vector<std::vector<TensorView>> inputs;
  std::vector<TensorView> outputs;
  for (int64_t each : counts) {
    parts.push_back(make(uneven(each, size)));
    fill(parts.back(), me);
    inputs.push_back(views(parts.back()));
    outputs.push_back(parts.back()[static_cast<size_t>(me)]);  // in place
  }
  distributed::reduce_scatter_coalesced(outputs, inputs);
  for (const std::vector<Tensor>& list_of_one : parts)
    expect_sum(list_of_one[static_cast<size_t>(me)], size, me * 7, "reduce_scatter_coalesced");
}

void for_each_mix(TestWorld& world, int64_t largest) {
  int round = 0;
  for (Mix mix : {Mix::all, Mix::some_ranks, Mix::some_tensors})
    for (int64_t count : {1, 777, 20'001, 150'000}) {
      if (count > largest || (testing::scale() == testing::Scale::small && count > 100'000)) continue;
      SCOPED_TRACE(count);
      try_lists_by_rank(world, {mix, world.rank()}, count, round++ % world.ranks());
      try_coalesced_lists(world, {mix, world.rank()}, count);
      if (::testing::Test::HasFatalFailure()) return;
    }
}

TEST(SharedTensorLists, are_taken_by_every_collective) {
  const auto worlds = testing::scale() == testing::Scale::small ? ranks({1, 3}) : ranks({1, 2, 3, 4});
  for_each_world(worlds, [](TestWorld& world) { for_each_mix(world, 1 << 20); });
}

TEST(SharedTensorLists, are_taken_by_every_plan) {
  for (const char* reads : {"auto", "off"})
    for (const char* all_reduce : {"one_shot", "two_shot", "ring"})
      for_each_world(ranks({2, 3}).with([&](Settings& settings) {
        settings.plan = std::string("all_reduce:0-1G=") + all_reduce;
        settings.peer_reads = reads;
        settings.tile_bytes = 4096;
      }), [](TestWorld& world) { for_each_mix(world, 21'000); });
}

// More tensors than a rank can show are staged, on the ranks that have them.
TEST(SharedTensorLists, may_be_long) {
  for_each_world(ranks(3), [](TestWorld& world) {
    for (int64_t length : {2048, 2049}) {
      std::vector<Tensor> list = ListMaker{Mix::some_ranks, world.rank()}(std::vector<int64_t>(static_cast<size_t>(length), 37));
      fill(list, world.rank());
      distributed::all_reduce_coalesced(views(list));
      for (size_t index = 0; index < list.size(); ++index)
        expect_sum(list[index], 3, static_cast<int64_t>(index) * 7, "all_reduce");
    }
  });
}

}  // namespace
}  // namespace unisono
