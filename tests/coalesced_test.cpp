// Many tensors in one call: what the live matrix (support/forms_coalesced.cpp) does not try. Lists of one and of a thousand, of
// tensors that lie side by side or in each other's place, and lists that are wrong.
#include <gtest/gtest.h>

#include "tests/support/calls.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/outcomes.hpp"
#include "tests/support/test_world.hpp"
#include "unisono/distributed.hpp"

namespace unisono {
namespace {

using testing::expect_works;
using testing::for_each_world;
using testing::ranks;
using testing::TestWorld;
using Ints = std::vector<int32_t>;
using Views = std::vector<TensorView>;

Views views(std::vector<Ints>& tensors) {
  Views list;
  for (Ints& tensor : tensors) list.push_back(view(tensor));
  return list;
}

int32_t sum_of_ranks(const TestWorld& world) { return world.ranks() * (world.ranks() - 1) / 2; }

TEST(Coalesced, a_thousand_small_tensors_are_one_call) {
  for_each_world(ranks({1, 2, 3}), [](TestWorld& world) {
    std::vector<Ints> tensors;
    for (int index = 0; index < 1000; ++index) tensors.emplace_back(static_cast<size_t>(index % 7), world.rank() + index);
    distributed::all_reduce_coalesced(views(tensors), {.group = world.group()});
    for (int index = 0; index < 1000; ++index)
      ASSERT_EQ(tensors[static_cast<size_t>(index)],
                Ints(static_cast<size_t>(index % 7), sum_of_ranks(world) + index * world.ranks()));
    expect_works(world);
  });
}

TEST(Coalesced, empty_odd_and_large_tensors_mix) {
  const std::vector<size_t> sizes = {0, 3, 1'500'001, 0, 1, 70'000, 0};
  for_each_world(ranks({2, 3}), [&](TestWorld& world) {
    std::vector<Ints> tensors, inputs, outputs;
    const auto size = static_cast<size_t>(world.ranks());
    for (size_t count : sizes) {
      tensors.emplace_back(count, world.rank());
      inputs.emplace_back(count, world.rank() + static_cast<int32_t>(count % 10));
      outputs.emplace_back(count * size, -1);
    }
    distributed::all_reduce_coalesced(views(tensors), {.group = world.group()});
    distributed::all_gather_into_tensor_coalesced(views(outputs), views(inputs), {.group = world.group()});
    for (size_t index = 0; index < sizes.size(); ++index) {
      ASSERT_EQ(tensors[index], Ints(sizes[index], sum_of_ranks(world)));
      for (size_t at = 0; at < outputs[index].size(); ++at)
        ASSERT_EQ(outputs[index][at], static_cast<int32_t>(at / sizes[index] + sizes[index] % 10)) << index << " at " << at;
    }
  });
}

TEST(Coalesced, a_list_of_one_is_the_call_without_a_list) {
  for_each_world(ranks(2), [](TestWorld& world) {
    for (size_t count : {3, 5000, 900'000}) {
      Ints data(count, world.rank() + 1), output(2 * count, -1);
      const Views one = {view(data)}, into = {view(output)};
      if (world.rank() == 0) {
        distributed::all_reduce_coalesced(one, {.group = world.group()});
        distributed::all_gather_into_tensor_coalesced(into, one, {.group = world.group()});
        distributed::reduce_scatter_tensor_coalesced(one, into, {.group = world.group()});
      } else {
        distributed::all_reduce(view(data), {.group = world.group()});
        distributed::all_gather_into_tensor(view(output), view(data), {.group = world.group()});
        distributed::reduce_scatter_tensor(view(data), view(output), {.group = world.group()});
      }
      ASSERT_EQ(output, Ints(2 * count, 3));
      ASSERT_EQ(data, Ints(count, 6));
    }
  });
}

TEST(Coalesced, tensors_side_by_side_and_in_their_own_places_are_left_there) {
  for_each_world(ranks({1, 3}), [](TestWorld& world) {
    const auto size = static_cast<size_t>(world.ranks()), me = static_cast<size_t>(world.rank());
    for (size_t count : {1, 600, 40'000}) {
      Ints flat(2 * count * size, -1);
      const auto part = [&](size_t tensor, size_t rank) {
        return std::span(flat).subspan((tensor * size + rank) * count, count);
      };
      for (size_t tensor : {0, 1})
        std::fill(part(tensor, me).begin(), part(tensor, me).end(), static_cast<int32_t>(tensor * 10 + me));
      const Views outputs = {view(std::span(flat).first(size * count)), view(std::span(flat).last(size * count))};
      const Views inputs = {view(part(0, me)), view(part(1, me))};
      distributed::all_gather_into_tensor_coalesced(outputs, inputs, {.group = world.group()});
      for (size_t tensor : {0, 1})
        for (size_t rank = 0; rank < size; ++rank)
          for (int32_t number : part(tensor, rank)) ASSERT_EQ(number, static_cast<int32_t>(tensor * 10 + rank));
      distributed::reduce_scatter_tensor_coalesced(inputs, outputs, {.group = world.group()});
      for (size_t tensor : {0, 1})
        for (size_t rank = 0; rank < size; ++rank)
          for (int32_t number : part(tensor, rank))
            ASSERT_EQ(number, static_cast<int32_t>(tensor * 10 + rank) * (rank == me ? world.ranks() : 1));
    }
  });
}

// What every rank alike gets told; the group works afterwards.
void expect_refused(const std::function<void(const GroupHandle&)>& call, const std::string& text) {
  for_each_world(ranks(2), [&](TestWorld& world) {
    try {
      call(world.group());
      ADD_FAILURE() << "was not refused: " << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.status().code(), ErrorCode::argument) << error.what();
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
    expect_works(world);
  });
}

TEST(CoalescedRefuses, lists_that_are_wrong) {
  Ints a(4), b(4), twice(8), thrice(12);
  std::vector<float> real(4);
  const Ints constant(4);
  using namespace distributed;
  expect_refused([](auto& group) { all_reduce_coalesced({}, {.group = group}); }, "tensors is empty");
  expect_refused(
      [&](auto& group) {
        all_reduce_coalesced(Views{view(a), view(real)}, {.group = group});
      },
      "tensors[1] is float32 where int32");
  expect_refused([&](auto& group) { all_reduce_coalesced(Views{view(a), view(constant)}, {.group = group}); },
                 "tensors[1] is written to and was made from const memory");
  expect_refused([&](auto& group) { all_reduce_coalesced(Views{view(a), view(b), view(a)}, {.group = group}); }, "overlap");
  expect_refused(
      [&](auto& group) {
        all_reduce_coalesced(Views{view(real), view(real)}, {.op = ReduceOp::band, .group = group});
      },
      "");
  expect_refused(
      [&](auto& group) {
        all_gather_into_tensor_coalesced(Views{view(twice)}, Views{view(a), view(b)}, {.group = group});
      },
      "outputs has 1 tensors where inputs has 2");
  expect_refused(
      [&](auto& group) {
        all_gather_into_tensor_coalesced(Views{view(twice), view(thrice)}, Views{view(a), view(b)}, {.group = group});
      },
      "outputs[1] has 12 elements");
  expect_refused(
      [&](auto& group) {
        all_gather_into_tensor_coalesced(Views{view(twice), view(twice)}, Views{view(a), view(b)}, {.group = group});
      },
      "two tensors of outputs overlap");
  expect_refused([&](auto& group) { all_gather_coalesced(std::vector<Views>{{view(a)}}, Views{view(b)}, {.group = group}); },
                 "output_tensor_lists has 1 lists");
  expect_refused(
      [&](auto& group) {
        all_gather_coalesced(std::vector<Views>{{view(a)}, {}}, Views{view(b)}, {.group = group});
      },
      "output_tensor_lists[1] has 0 tensors");
  expect_refused([&](auto& group) { reduce_scatter_coalesced(Views{view(a)}, std::vector<Views>{{view(b)}}, {.group = group}); },
                 "input_lists[0] has 1 tensors");
  expect_refused([&](auto& group) { reduce_scatter_coalesced(Views{view(a)}, std::vector<Views>{}, {.group = group}); },
                 "input_lists has 0 lists");
}

TEST(CoalescedRefuses, an_output_that_lies_in_anothers_place) {
  for_each_world(ranks(2), [](TestWorld& world) {
    Ints output(8), other(8), free(4);
    const auto elsewhere = std::span(output).subspan(static_cast<size_t>(1 - world.rank()) * 4, 4);
    const Views outputs = {view(output), view(other)}, inputs = {view(elsewhere), view(free)};
    EXPECT_THROW(distributed::all_gather_into_tensor_coalesced(outputs, inputs, {.group = world.group()}), ArgumentError);
    EXPECT_THROW(distributed::reduce_scatter_tensor_coalesced(inputs, outputs, {.group = world.group()}), ArgumentError);
    expect_works(world);
  });
}

// What both ranks are told when they give lists of these lengths.
void expect_different_lists(const std::vector<std::vector<size_t>>& lengths, const std::vector<std::string>& texts) {
  for_each_world(ranks(2), [&](TestWorld& world) {
    std::vector<Ints> tensors;
    for (size_t length : lengths[static_cast<size_t>(world.rank())]) tensors.emplace_back(length, 7);
    testing::expect_error<MismatchError>(texts, [&] { distributed::all_reduce_coalesced(views(tensors), {.group = world.group()}); });
    expect_works(world);
  });
}

TEST(CoalescedDiffers, and_the_text_says_how_many_tensors_each_rank_gave) {
  expect_different_lists({{2, 4, 6}, {2, 4}}, {"all_reduce list: rank 0 gave 3 tensors, rank 1 gave 2 tensors;",
                                               "rank 0 called all_reduce int32[12] in 3 tensors sum,", "int32[6] in 2 tensors sum"});
  expect_different_lists({{5}, {2, 3}}, {"rank 0 gave 1 tensor, rank 1 gave 2 tensors;", "rank 0 called all_reduce int32[5] sum,"});
  expect_different_lists({{2, 4}, {2, 5}}, {"all_reduce count: rank 0 = 6, rank 1 = 7;", "int32[7] in 2 tensors sum"});
  expect_different_lists({{2, 4, 6}, {2, 6, 4}}, {"rank 0 and rank 1 each gave 3 tensors with 12 elements in all, divided differently;"});
  expect_different_lists({std::vector<size_t>(70'000), {2, 3}}, {"rank 0 gave 65535 tensors or more, rank 1 gave 2 tensors;"});
}

TEST(CoalescedDiffers, where_ranks_divide_the_same_data_differently) {
  for_each_world(ranks(2), [](TestWorld& world) {
    for (size_t count : {4, 200'000}) {
      const size_t first = world.rank() == 0 ? 1 : 2;
      std::vector<Ints> tensors = {Ints(first, 7), Ints(count - first, 7)};
      EXPECT_THROW(distributed::all_reduce_coalesced(views(tensors), {.group = world.group()}), MismatchError);
      Ints whole(count, 7);
      const bool listed = world.rank() == 0;
      EXPECT_THROW(listed ? distributed::all_reduce_coalesced(views(tensors), {.group = world.group()})
                          : distributed::all_reduce(view(whole), {.group = world.group()}),
                   MismatchError);
      EXPECT_EQ(tensors[1], Ints(count - first, 7));
      expect_works(world);
    }
  });
}

TEST(Coalesced, calls_follow_each_other_asynchronously) {
  for_each_world(ranks({2, 4}), [](TestWorld& world) {
    std::vector<std::vector<Ints>> rounds;
    std::vector<WorkPtr> works;
    for (size_t round = 0; round < 20; ++round) {
      rounds.push_back({Ints(round, 1), Ints(round * 3000, 1), Ints(1, 1)});
      works.push_back(distributed::all_reduce_coalesced(views(rounds.back()), {.group = world.group(), .async_op = true}));
    }
    for (size_t round = 0; round < 20; ++round) {
      works[round]->wait();
      ASSERT_EQ(rounds[round][1], Ints(round * 3000, world.ranks()));
      ASSERT_EQ(rounds[round][2], Ints(1, world.ranks()));
    }
  });
}

}  // namespace
}  // namespace unisono
