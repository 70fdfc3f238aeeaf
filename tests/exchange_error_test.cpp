// all_to_all and gather called wrongly: who is told what, and that the group goes on. What they do when called rightly is in
// the forms that collectives_test.cpp runs.
#include <gtest/gtest.h>

#include "tests/support/calls.hpp"
#include "tests/support/outcomes.hpp"
#include "tests/support/test_world.hpp"
#include "unisono/comm_func.hpp"
#include "unisono/distributed.hpp"

namespace unisono::testing {
namespace {

using Ints = std::vector<int32_t>;
using Sizes = std::vector<int64_t>;
using MakeCall = std::function<void(TestWorld&)>;

struct Expected {
  ErrorCode code;
  std::vector<std::string> words;
};

// Every rank makes its call, alone or asynchronously; then the group still works.
void expect_told(int size, const MakeCall& call, const std::function<Expected(int rank)>& expected) {
  Outcomes outcomes(size, 2);
  for_each_world(ranks(size), [&](TestWorld& world) {
    outcomes.note(world.rank(), 0, [&] { call(world); });
    expect_works(world);
    for (int rank = 0; rank < size && world.rank() == 0; ++rank) {
      const Outcome& outcome = outcomes.of(rank, 0);
      const Expected& wanted = expected(rank);
      EXPECT_EQ(outcome.code, wanted.code) << "rank " << rank << ": " << outcome.text();
      for (const std::string& word : wanted.words)
        EXPECT_NE(outcome.text().find(word), std::string::npos) << "rank " << rank << ": " << outcome.text() << "\nshould say " << word;
    }
  });
}

// Rank 1 refuses, the others hear of it.
std::function<Expected(int)> refused_by_one(const std::string& words) {
  return [words](int rank) {
    return Expected{rank == 1 ? ErrorCode::argument : ErrorCode::peer_argument,
                    rank == 1 ? std::vector<std::string>{words} : std::vector<std::string>{words, "rank 1"}};
  };
}

std::function<Expected(int)> mismatch(const std::vector<std::string>& words) {
  return [words](int) { return Expected{ErrorCode::mismatch, words}; };
}

MakeCall exchanging(const Sizes& right, const Sizes& wrong, int64_t rows = 6) {
  return [=](TestWorld& world) {
    Ints input(static_cast<size_t>(rows)), output(static_cast<size_t>(rows));
    distributed::all_to_all_single(view(output), view(input),
                                   {.output_split_sizes = right,
                                    .input_split_sizes = world.rank() == 1 ? wrong : right,
                                    .group = world.group(),
                                    .async_op = false,
                                    .timeout_s = {}});
  };
}

TEST(SplitSizes, of_another_length_than_the_group_are_refused) {
  expect_told(3, exchanging({2, 2, 2}, {3, 3}), refused_by_one("input_split_sizes has 2 sizes; it needs one for each of the group's 3"));
}

TEST(SplitSizes, that_do_not_add_up_are_refused) {
  expect_told(3, exchanging({2, 2, 2}, {1, 2, 2}), refused_by_one("leaves 1 of dim 0 of input over"));
  expect_told(3, exchanging({2, 2, 2}, {2, 2, 3}), refused_by_one("does not fit dim 0 of input, 6"));
  expect_told(3, exchanging({2, 2, 2}, {2, -1, 5}), refused_by_one("input_split_sizes is [2, -1, 5]"));
}

// Rank 1 sends three rows to rank 0, which has room for two, and one to rank 2.
TEST(SplitSizes, that_differ_between_sender_and_receiver_are_told_with_both_numbers) {
  expect_told(3, exchanging({2, 2, 2}, {3, 2, 1}), [](int rank) {
    if (rank == 0) return Expected{ErrorCode::argument, {"rank 1 of the group sends 3 elements here, where there is room for 2"}};
    if (rank == 2) return Expected{ErrorCode::argument, {"rank 1 of the group sends 1 elements here, where there is room for 2"}};
    return Expected{ErrorCode::peer_argument, {"where there is room for 2"}};
  });
}

TEST(SplitSizes, given_by_some_ranks_only_are_a_mismatch) {
  expect_told(3, exchanging({2, 2, 2}, {2, 2, 2}), [](int) { return Expected{ErrorCode::ok, {}}; });
  expect_told(
      2,
      [](TestWorld& world) {
        Ints input(4), output(4);
        const Sizes sizes = world.rank() == 0 ? Sizes{2, 2} : Sizes{};
        distributed::all_to_all_single(view(output), view(input),
                                       {.output_split_sizes = sizes, .input_split_sizes = sizes, .group = world.group(),
                                        .async_op = false, .timeout_s = {}});
      },
      mismatch({"rank 0 = all_to_all with split sizes", "rank 1 = all_to_all int32[4]"}));
}

TEST(SplitSizes, of_different_dtypes_tell_the_dtypes) {
  expect_told(
      2,
      [](TestWorld& world) {
        Ints ints(4), more_ints(4);
        std::vector<double> doubles(4), more_doubles(4);
        const bool odd = world.rank() == 1;
        distributed::all_to_all_single(odd ? view(more_doubles) : view(more_ints), odd ? view(doubles) : view(ints),
                                       {.output_split_sizes = {2, 2}, .input_split_sizes = {2, 2}, .group = world.group(),
                                        .async_op = false, .timeout_s = {}});
      },
      mismatch({"all_to_all dtype: rank 0 = int32, rank 1 = float64"}));
}

TEST(SplitSizes, asynchronous_calls_tell_in_wait_and_the_next_call_works) {
  for_each_world(ranks(3), [](TestWorld& world) {
    Ints input(6), output(6), sum = {1};
    WorkPtr work = distributed::all_to_all_single(view(output), view(input),
                                                  {.output_split_sizes = {2, 2, 2},
                                                   .input_split_sizes = world.rank() == 1 ? Sizes{3, 2, 1} : Sizes{2, 2, 2},
                                                   .group = world.group(),
                                                   .async_op = true,
                                                   .timeout_s = {}});
    WorkPtr next = distributed::all_reduce(view(sum), {.op = ReduceOp::sum, .group = world.group(), .async_op = true, .timeout_s = {}});
    EXPECT_THROW(work->wait(), Error);
    next->wait();
    EXPECT_EQ(sum[0], 3);
  });
}

TEST(AllToAll, lists_must_have_one_tensor_a_rank_of_one_dtype_and_apart) {
  const auto call = [](const std::function<void(std::vector<TensorView>&, std::vector<TensorView>&, Ints&)>& spoil) {
    return [spoil](TestWorld& world) {
      Ints input(2), output(2);
      std::vector<TensorView> inputs = {view(std::span(input).first(1)), view(std::span(input).last(1))};
      std::vector<TensorView> outputs = {view(std::span(output).first(1)), view(std::span(output).last(1))};
      if (world.rank() == 1) spoil(outputs, inputs, input);
      distributed::all_to_all(outputs, inputs, {.group = world.group(), .async_op = false, .timeout_s = {}});
    };
  };
  expect_told(2, call([](auto&, auto& inputs, auto&) { inputs.pop_back(); }), refused_by_one("input_list has 1 tensors"));
  expect_told(2, call([](auto& outputs, auto&, auto&) { outputs.push_back(outputs[0]); }), refused_by_one("output_list has 3 tensors"));
  expect_told(2, call([](auto& outputs, auto&, auto&) { outputs[0] = outputs[1]; }), refused_by_one("overlap in memory"));
  expect_told(2, call([](auto& outputs, auto&, Ints& input) { outputs[0] = view(input); }), refused_by_one("overlap in memory"));
  expect_told(2, call([](auto& outputs, auto&, auto&) { outputs[0].dtype = DType::float32; }), refused_by_one("output_list is float32"));
}

TEST(CountMatrix, is_checked_on_every_rank_and_compared_between_them) {
  const auto call = [](const Sizes& right, const Sizes& odd) {
    return [=](TestWorld& world) {
      const Sizes& counts = world.rank() == 1 ? odd : right;
      Ints input(3), output(world.rank() == 0 ? 2 : 4);
      comm_func::all_to_all_v_c(view(output), view(input), counts, {.group = world.world().world_group()->name(), .async_op = false});
    };
  };
  expect_told(2, call({1, 2, 1, 2}, {1, 2, 1, 2}), [](int) { return Expected{ErrorCode::ok, {}}; });
  expect_told(2, call({1, 2, 1, 2}, {1, 2, 1}), refused_by_one("send_count_matrix has 3 counts; 2 ranks need 4"));
  expect_told(2, call({1, 2, 1, 2}, {1, 2, -1, 4}), refused_by_one("send_count_matrix has the count -1"));
  expect_told(2, call({1, 2, 1, 2}, {1, 3, 1, 2}), refused_by_one("output has 4 elements"));
  expect_told(2, call({1, 2, 1, 2}, {9, 2, 1, 2}), mismatch({"all_to_all count", "= 6", "= 14"}));
}

TEST(Gather, list_is_given_on_the_rank_that_gathers_and_nowhere_else) {
  const auto call = [](bool give_everywhere, bool give_nowhere) {
    return [=](TestWorld& world) {
      Ints input(1), output(2);
      std::vector<TensorView> list = {view(std::span(output).first(1)), view(std::span(output).last(1))};
      const bool gives = give_everywhere || (!give_nowhere && world.rank() == 1);
      distributed::gather(view(input), gives ? std::span<const TensorView>(list) : std::span<const TensorView>(),
                          {.dst = 1, .group = world.group(), .async_op = false, .timeout_s = {}, .group_dst = {}});
    };
  };
  expect_told(2, call(false, false), [](int) { return Expected{ErrorCode::ok, {}}; });
  expect_told(2, call(false, true), refused_by_one("gather_list must be given on the rank that gathers, and this is it"));
  expect_told(2, call(true, false), [](int rank) {
    return Expected{rank == 0 ? ErrorCode::argument : ErrorCode::peer_argument, {"this rank is not rank 1"}};
  });
}

}  // namespace
}  // namespace unisono::testing
