// Calls that differ in shape, in the sizes of a list, or in what the settings make of them, and differences in asynchronous
// calls. Numbers, dtypes, operations, roots and kinds: mismatch_test.cpp.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <thread>

#include "dialects/default_world.hpp"
#include "tests/support/calls.hpp"
#include "tests/support/children.hpp"
#include "tests/support/outcomes.hpp"
#include "unisono/comm_func.hpp"

namespace unisono::testing {
namespace {

using MakeCall = std::function<void(TestWorld&, Scratch&)>;

Worlds each(Worlds worlds) { return under_thread_sanitizer() ? worlds.with(Kind::threads) : worlds; }

void expect_told(const Outcomes& outcomes, int round, const std::vector<std::string>& words) {
  for (int rank = 0; rank < outcomes.ranks(); ++rank) {
    const Outcome& outcome = outcomes.of(rank, round);
    ASSERT_EQ(outcome.code, ErrorCode::mismatch) << "rank " << rank << ": " << outcome.text();
    EXPECT_EQ(outcome.text(), outcomes.of(0, round).text()) << "rank " << rank;
    for (const std::string& word : words)
      EXPECT_NE(outcome.text().find(word), std::string::npos) << outcome.text() << "\nshould say " << word;
  }
  EXPECT_LT(outcomes.took_s(round), 1.0);
}

// The last rank makes another call than the rest.
void expect_differ(const std::vector<int>& sizes, const std::vector<std::string>& words, const std::function<MakeCall(bool odd)>& call) {
  for (Kind kind : each(ranks(sizes)).kinds)
    for (int size : sizes) {
      Outcomes outcomes(size, 2);
      for_each_world(ranks(size).with(kind), [&](TestWorld& world) {
        for (int round = 0; round < 2; ++round) {
          Scratch scratch;
          outcomes.note(world.rank(), round, [&] { call(world.rank() == world.ranks() - 1)(world, scratch); });
          EXPECT_TRUE(scratch.is_untouched()) << "rank " << world.rank();
          expect_works(world);
        }
      });
      for (int round = 0; round < 2; ++round) expect_told(outcomes, round, words);
    }
}

void expect_accepted(const std::vector<int>& sizes, const std::function<MakeCall(bool odd)>& call) {
  for_each_world(each(ranks(sizes)), [&](TestWorld& world) {
    Scratch scratch;
    call(world.rank() == world.ranks() - 1)(world, scratch);
    expect_works(world);
  });
}

TEST(MismatchedShapes, reduce_tells_both_shapes_in_the_distributed_dialect) {
  expect_differ({2, 3}, {"reduce shape: ", "= (2, 3)", "= (3, 2)"}, [](bool odd) {
    return [odd](TestWorld& world, Scratch& scratch) {
      distributed::reduce(scratch.tensor(DType::float32, odd ? Shape{3, 2} : Shape{2, 3}), 0,
                          {.op = ReduceOp::sum, .group = world.group(), .async_op = false, .timeout_s = {}, .group_dst = {}});
    };
  });
}

TEST(MismatchedShapes, shapes_of_different_length_differ_too) {
  expect_differ({2, 3}, {"reduce shape: ", "= (6)", "= (1, 6)"}, [](bool odd) {
    return [odd](TestWorld&, Scratch& scratch) {
      comm_func::reduce(scratch.tensor(DType::float32, odd ? Shape{1, 6} : Shape{6}), 0);
    };
  });
}

TEST(MismatchedShapes, comm_func_tells_both_shapes_in_all_reduce) {
  expect_differ({2, 3}, {"all_reduce shape: ", "= (2, 3)", "= (3, 2)"}, [](bool odd) {
    return [odd](TestWorld&, Scratch& scratch) { comm_func::all_reduce(scratch.tensor(DType::float32, odd ? Shape{3, 2} : Shape{2, 3})); };
  });
}

TEST(MismatchedShapes, comm_func_tells_both_shapes_in_reduce) {
  expect_differ({2, 3}, {"reduce shape: ", "= (2, 3)", "= (3, 2)"}, [](bool odd) {
    return [odd](TestWorld&, Scratch& scratch) { comm_func::reduce(scratch.tensor(DType::float32, odd ? Shape{3, 2} : Shape{2, 3}), 0); };
  });
}

TEST(MismatchedShapes, comm_func_tells_both_shapes_in_scatter_tensor) {
  expect_differ({2, 3}, {"scatter shape: ", "= (6, 2)", "= (12)"}, [](bool odd) {
    return [odd](TestWorld&, Scratch& scratch) { comm_func::scatter_tensor(scratch.tensor(DType::float32, odd ? Shape{12} : Shape{6, 2})); };
  });
}

TEST(MismatchedShapes, distributed_calls_that_count_elements_accept_any_shape) {
  expect_accepted({2, 3}, [](bool odd) {
    return [odd](TestWorld& world, Scratch& scratch) {
      const Shape shape = odd ? Shape{3, 2} : Shape{2, 3};
      distributed::all_reduce(scratch.tensor(DType::float32, shape));
      distributed::broadcast(scratch.tensor(DType::float32, shape));
      distributed::all_gather_into_tensor(scratch.tensor(DType::float32, {6 * world.ranks()}), scratch.tensor(DType::float32, shape));
    };
  });
}

std::vector<TensorView> list_of(Scratch& scratch, const std::vector<int64_t>& counts) {
  std::vector<TensorView> list;
  for (int64_t count : counts) list.push_back(scratch.tensor(DType::float32, Shape{count}));
  return list;
}

// Everybody's own element is right and the total is the same; the sizes of the others differ.
TEST(MismatchedLists, all_gather_tells_whose_lists_differ) {
  expect_differ({3}, {"all_gather sizes of the list: ", "rank 2"}, [](bool odd) {
    return [odd](TestWorld& world, Scratch& scratch) {
      auto list = list_of(scratch, odd ? std::vector<int64_t>{4, 2, 3} : std::vector<int64_t>{2, 4, 3});
      distributed::all_gather(list, scratch.tensor(DType::float32, list[static_cast<size_t>(world.rank())].shape));
    };
  });
}

TEST(MismatchedLists, reduce_scatter_tells_whose_lists_differ) {
  expect_differ({3}, {"reduce_scatter sizes of the list: ", "rank 2"}, [](bool odd) {
    return [odd](TestWorld& world, Scratch& scratch) {
      auto list = list_of(scratch, odd ? std::vector<int64_t>{4, 2, 3} : std::vector<int64_t>{2, 4, 3});
      distributed::reduce_scatter(scratch.tensor(DType::float32, list[static_cast<size_t>(world.rank())].shape), list);
    };
  });
}

TEST(MismatchedLists, lists_with_different_totals_tell_both) {
  expect_differ({3}, {"all_gather count: ", "= 9", "= 12"}, [](bool odd) {
    return [odd](TestWorld& world, Scratch& scratch) {
      auto list = list_of(scratch, odd ? std::vector<int64_t>{2, 7, 3} : std::vector<int64_t>{2, 4, 3});
      distributed::all_gather(list, scratch.tensor(DType::float32, list[static_cast<size_t>(world.rank())].shape));
    };
  });
}

void expect_only_the_middle_fails(TestWorld& world, const Outcomes& outcomes, int round) {
  Scratch before, differing, after;
  bool odd = world.rank() == round % world.ranks();
  CallChoice good{.kind = Collective::all_reduce, .count = 100, .async_op = true};
  WorkPtr first = make_call(world.group(), before, good);
  WorkPtr middle = make_call(world.group(), differing, {.kind = Collective::broadcast, .count = odd ? 7 : 9, .async_op = true});
  WorkPtr last = make_call(world.group(), after, good);
  EXPECT_TRUE(first->wait());
  outcomes.note(world.rank(), round, [&] { middle->wait(); });
  EXPECT_TRUE(last->wait());
  EXPECT_TRUE(differing.is_untouched());
  EXPECT_FALSE(before.is_untouched());
  EXPECT_FALSE(after.is_untouched());
  EXPECT_TRUE(middle->is_completed());
  EXPECT_FALSE(middle->is_success());
  EXPECT_EQ(middle->exception().code(), ErrorCode::mismatch);
}

TEST(MismatchedWork, is_raised_by_wait_and_leaves_the_calls_around_it_alone) {
  for (int cores : {0, 1})
    for (Kind kind : each(ranks(2)).kinds)
      for (int size : {2, 3, 5}) {
        SCOPED_TRACE(fmt::format("{} ranks, UNISONO_CORES={}", size, cores));
        Outcomes outcomes(size, 10);
        for_each_world(ranks(size).with(kind).with([&](Settings& settings) { settings.cores = cores; }), [&](TestWorld& world) {
          for (int round = 0; round < outcomes.rounds(); ++round) expect_only_the_middle_fails(world, outcomes, round);
          expect_works(world);
        });
        for (int round = 0; round < outcomes.rounds(); ++round) expect_told(outcomes, round, {"broadcast count: ", "= 7", "= 9"});
      }
}

// Nobody waits for them one by one: the progress thread alone notices all.
TEST(MismatchedWork, a_queue_of_different_calls_fails_without_being_waited_for) {
  for (int cores : {0, 1})
    for_each_world(each(ranks({2, 3})).with([&](Settings& settings) { settings.cores = cores; }), [](TestWorld& world) {
      const int calls = 20;
      std::deque<Scratch> scratches(calls);
      std::vector<WorkPtr> works;
      const int64_t started_ns = now_ns();
      for (int call = 0; call < calls; ++call)
        works.push_back(make_call(world.group(), scratches[static_cast<size_t>(call)], {.count = 3 + world.rank(), .async_op = true}));
      EXPECT_TRUE(await([&] { return works.back()->is_completed(); }));
      EXPECT_LT(static_cast<double>(now_ns() - started_ns) * 1e-9, 5.0);
      for (int call = 0; call < calls; ++call) {
        EXPECT_EQ(works[static_cast<size_t>(call)]->exception().code(), ErrorCode::mismatch) << works[static_cast<size_t>(call)]->exception().text();
        EXPECT_TRUE(scratches[static_cast<size_t>(call)].is_untouched());
      }
      expect_works(world);
    });
}

void differ_in_plan(int rank, WorldChoice choice, const Outcomes& outcomes) {
  if (rank == 1) choice.settings.plan = "all_reduce:16-1M=ring";
  as_rank(rank, choice, [&](TestWorld& world) {
    for (int round = 0; round < outcomes.rounds(); ++round) {
      Scratch scratch, shared;
      outcomes.note(rank, round, [&] { make_call(world.group(), scratch, {.count = round % 2 == 0 ? 10 : 20'000}); });
      EXPECT_TRUE(scratch.is_untouched());
      make_call(world.group(), shared, {.kind = Collective::broadcast});
    }
  });
}

TEST(MismatchedPlans, different_settings_on_ranks_are_told_with_the_settings_to_look_at) {
  for (int size : {2, 3}) {
    for (Kind kind : each(ranks(2)).kinds) {
      Outcomes outcomes(size, 4);
      WorldChoice choice{.size = size};
      if (kind == Kind::processes) {
        expect_all_succeeded(Children(size, [&](int rank) { differ_in_plan(rank, choice, outcomes); }).wait());
      } else {
        std::vector<std::thread> threads;
        for (int rank = 0; rank < size; ++rank) threads.emplace_back([&, rank] { differ_in_plan(rank, choice, outcomes); });
        for (std::thread& thread : threads) thread.join();
      }
      for (int round = 0; round < outcomes.rounds(); ++round)
        expect_told(outcomes, round, {"all_reduce plan: ", "rank 1", "UNISONO_PLAN"});
    }
  }
}

}  // namespace
}  // namespace unisono::testing
