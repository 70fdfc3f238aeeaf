// Collecting calls and making them together: which calls are made, in which order, and when none is.
#include <gtest/gtest.h>

#include <atomic>

#include "tests/support/calls.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/outcomes.hpp"
#include "tests/support/test_world.hpp"
#include "unisono/coalescing.hpp"

namespace unisono {
namespace {

using distributed::Coalescing;
using testing::expect_works;
using testing::for_each_world;
using testing::ranks;
using testing::TestWorld;
using Ints = std::vector<int32_t>;
using Floats = std::vector<float>;

// The number of the last call that this rank has finished.
uint32_t calls_made(const TestWorld& world) { return world.world().world_group()->finished(); }

TEST(Coalescing, makes_one_call_for_each_kind_dtype_and_op) {
  for_each_world(ranks({1, 2, 3}), [](TestWorld& world) {
    const int32_t n = world.ranks();
    const auto size = static_cast<size_t>(n);
    Ints a(5, 1), b(70'000, 2), c(3, world.rank()), gathered(4 * size, -1), mine(4, world.rank());
    Ints scattered(2, -1), all(2 * size, 1);
    Floats d(9, 1.0f), averaged(2, static_cast<float>(world.rank()));
    const uint32_t before = calls_made(world);
    Coalescing together(world.group());
    together.all_reduce(view(a));
    together.all_gather_into_tensor(view(gathered), view(mine));
    together.all_reduce(view(d));
    together.all_reduce(view(c), ReduceOp::max);
    together.all_reduce(view(b));
    together.reduce_scatter_tensor(view(scattered), view(all));
    together.all_reduce(view(averaged), ReduceOp::avg);
    EXPECT_EQ(calls_made(world), before) << "nothing happens before the end";
    EXPECT_FALSE(together.is_completed());
    together.end();
    EXPECT_EQ(calls_made(world), before + 6) << "a and b are one call";
    EXPECT_TRUE(together.is_completed());
    EXPECT_EQ(a, Ints(5, n));
    EXPECT_EQ(b, Ints(70'000, 2 * n));
    EXPECT_EQ(c, Ints(3, n - 1));
    EXPECT_EQ(d, Floats(9, static_cast<float>(n)));
    EXPECT_EQ(averaged, Floats(2, static_cast<float>(n - 1) / 2));
    EXPECT_EQ(scattered, Ints(2, n));
    for (size_t at = 0; at < gathered.size(); ++at) EXPECT_EQ(gathered[at], static_cast<int32_t>(at / 4));
    EXPECT_THROW(together.all_reduce(view(a)), StateError);
    EXPECT_THROW(together.end(), StateError);
    EXPECT_TRUE(together.wait());
  });
}

TEST(Coalescing, may_be_asynchronous) {
  for_each_world(ranks({2, 3}), [](TestWorld& world) {
    std::vector<Ints> tensors(40, Ints(3000, 1));
    Floats other(7, 1);
    Coalescing together(world.group(), {.async_op = true});
    for (Ints& tensor : tensors) together.all_reduce(view(tensor));
    together.all_reduce(view(other));
    together.end();
    EXPECT_TRUE(together.wait(60));
    for (const Ints& tensor : tensors) ASSERT_EQ(tensor, Ints(3000, world.ranks()));
    EXPECT_EQ(other, Floats(7, static_cast<float>(world.ranks())));
  });
}

TEST(Coalescing, a_wait_that_expires_may_be_made_again) {
  testing::SharedArray<std::atomic<int>> expired(2);
  for_each_world(ranks(2), [&](TestWorld& world) {
    std::atomic<int>& first_gave_up = expired[world.are_threads() ? 0 : 1];
    Ints data(10, 1);
    Floats other(7, 1);
    Coalescing together(world.group(), {.async_op = true});
    together.all_reduce(view(data));
    together.all_reduce(view(other));
    if (world.rank() == 0) {
      testing::expect_error<TimeoutError>({"wait(0.001) expired; collected call 1 of 2 (all_reduce int32 sum, 1 tensor) is still running"},
                                          [&] { together.wait(0.001); });
      EXPECT_FALSE(together.is_completed());
      first_gave_up = 1;
    } else {
      EXPECT_TRUE(testing::eventually([&] { return first_gave_up == 1; }));
    }
    EXPECT_TRUE(together.wait());
    EXPECT_EQ(data, Ints(10, 2));
    EXPECT_EQ(other, Floats(7, 2));
  });
}

TEST(Coalescing, ends_with_its_scope) {
  for_each_world(ranks(2), [](TestWorld& world) {
    Ints a(5, 1), b(6, 1);
    {
      Coalescing together(world.group());
      together.all_reduce(view(a));
      together.all_reduce(view(b));
    }
    EXPECT_EQ(a, Ints(5, 2));
    EXPECT_EQ(b, Ints(6, 2));
    EXPECT_THROW(
        {
          Coalescing together(world.group());
          together.all_gather_into_tensor(view(a), view(b));  // the output has no room
        },
        ArgumentError);
    expect_works(world);
  });
}

TEST(Coalescing, does_nothing_when_an_exception_destroys_it) {
  for_each_world(ranks(2), [](TestWorld& world) {
    Ints data(5, 7);
    const uint32_t before = calls_made(world);
    try {
      Coalescing together(world.group());
      together.all_reduce(view(data));
      throw std::runtime_error("something else");
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "something else");
    }
    EXPECT_EQ(calls_made(world), before);
    EXPECT_EQ(data, Ints(5, 7));
    expect_works(world);
  });
}

// The ranks whose arguments were right make the later calls too, and so does the one whose were not.
TEST(Coalescing, stays_in_step_when_one_rank_gives_something_wrong) {
  for_each_world(ranks(3), [](TestWorld& world) {
    for (bool async_op : {false, true}) {
      Ints data(4, 1), input(4, 1), output(world.rank() == 1 ? 11u : 12u, -1);
      Coalescing together(world.group(), {.async_op = async_op});
      together.all_gather_into_tensor(view(output), view(input));
      together.all_reduce(view(data));
      if (world.rank() == 1)
        EXPECT_THROW(together.end(), ArgumentError);
      else
        EXPECT_THROW(together.wait(), PeerArgumentError);
      if (world.rank() == 1) together.wait();
      EXPECT_EQ(data, Ints(4, 3)) << "was a call of its own";
      EXPECT_EQ(output[0], -1);
      expect_works(world);
    }
  });
}

// Rank 1 gives one tensor less to the second call and a wrong one to the third: which of the calls failed, and why, is said.
TEST(Coalescing, says_which_of_its_calls_failed_and_why) {
  for_each_world(ranks(2), [](TestWorld& world) {
    for (bool async_op : {false, true}) {
      Ints a(4, 1), b(4, 1), input(4, 1), output(world.rank() == 1 ? 7u : 8u, -1);
      Floats d(3, 1), e(2, 1);
      Coalescing together(world.group(), {.async_op = async_op});
      together.all_reduce(view(a));
      together.all_reduce(view(d), ReduceOp::max);
      if (world.rank() == 0) together.all_reduce(view(e), ReduceOp::max);
      together.all_reduce(view(b));
      testing::expect_error<MismatchError>(
          {world.rank() == 0 ? "MismatchError: collected call 2 of 2 (all_reduce float32 max, 2 tensors): all_reduce list: "
                             : "MismatchError: collected call 2 of 2 (all_reduce float32 max, 1 tensor): all_reduce list: ",
           "rank 0 gave 2 tensors, rank 1 gave 1 tensor"},
          [&] { together.wait(); });
      EXPECT_EQ(a, Ints(4, 2));
      EXPECT_EQ(b, Ints(4, 2));

      Coalescing again(world.group());
      if (world.rank() == 0) again.all_reduce(view(e));
      again.all_reduce(view(d));
      again.all_gather_into_tensor(view(output), view(input));
      const std::string both = "2 of 2 collected calls failed, the first was call 1 of 2 (all_reduce float32 sum, ";
      testing::expect_error<MismatchError>({both, "rank 1 gave 1 tensor"}, [&] { again.end(); });

      Coalescing last(world.group());
      last.all_reduce(view(a));
      last.all_gather_into_tensor(view(output), view(input));
      const std::string second = "collected call 2 of 2 (all_gather int32, 1 tensor): ";
      if (world.rank() == 1)
        testing::expect_error<ArgumentError>({second + "outputs[0] has 7 elements"}, [&] { last.end(); });
      else
        testing::expect_error<PeerArgumentError>({second + "rank 1 refused its all_gather: outputs[0]"}, [&] { last.end(); });
      expect_works(world);
    }
  });
}

TEST(Coalescing, without_anything_or_outside_the_group_makes_no_call) {
  for_each_world(ranks(2), [](TestWorld& world) {
    const uint32_t before = calls_made(world);
    Coalescing nothing(world.group());
    nothing.end();
    Ints data(5, 7);
    Coalescing outside(GroupHandle::outside());
    outside.all_reduce(view(data));
    EXPECT_TRUE(outside.wait());
    EXPECT_EQ(calls_made(world), before);
    EXPECT_EQ(data, Ints(5, 7));
  });
}

}  // namespace
}  // namespace unisono
