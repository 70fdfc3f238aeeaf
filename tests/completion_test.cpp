// What Work::on_completion() promises: the function is called once, after the call is over, by whoever ends it.
#include "group/completion.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/support/eventually.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/outcomes.hpp"
#include "tests/support/test_world.hpp"
#include "unisono/comm_func.hpp"
#include "unisono/distributed.hpp"

namespace unisono {
namespace {

using testing::eventually;
using testing::for_each_world;
using testing::ranks;
using testing::SharedArray;
using testing::TestWorld;

// Lets the other ranks of a world wait until one of them has come so far; threads and processes have a mark each.
class Mark {
 public:
  void set(const TestWorld& world) { marks_[world.are_threads()].store(1); }
  bool awaited(const TestWorld& world) {
    return eventually([&] { return marks_[world.are_threads()].load() == 1; });
  }

 private:
  SharedArray<std::atomic<int>> marks_{2};
};

TEST(Completion, calls_once_whoever_comes_first) {
  for (int round = 0; round < 2000; ++round) {
    Completion completion;
    int result = 0;  // plain memory: what the one who ends writes, the function has to see
    std::atomic<int> calls{0};
    std::thread other([&] {
      result = 7;
      completion.end();
    });
    completion.then([&] {
      EXPECT_EQ(result, 7);
      calls.fetch_add(1);
    });
    other.join();
    EXPECT_TRUE(completion.is_over());
    EXPECT_EQ(calls.load(), 1);
  }
}

TEST(Completion, lets_go_of_what_the_function_holds) {
  auto held = std::make_shared<int>(1);
  Completion completion;
  completion.then([held] {});
  EXPECT_EQ(held.use_count(), 2);
  completion.end();
  EXPECT_EQ(held.use_count(), 1);
}

TEST(OnCompletion, is_called_without_anybody_waiting) {
  for_each_world(ranks({2, 3}), [](TestWorld& world) {
    constexpr int calls = 50;
    std::vector<std::vector<int32_t>> data(calls, std::vector<int32_t>(2000, 1));
    std::vector<WorkPtr> works;
    std::atomic<int> finished{0};
    for (int call = 0; call < calls; ++call) {
      works.push_back(distributed::all_reduce(view(data[static_cast<size_t>(call)]), {.group = world.group(), .async_op = true}));
      works.back()->on_completion([&, call, work = works.back().get()] {
        EXPECT_TRUE(work->is_success());
        EXPECT_EQ(data[static_cast<size_t>(call)][1999], world.ranks());
        finished.fetch_add(1);
      });
    }
    EXPECT_TRUE(eventually([&] { return finished.load() == calls; }));
  });
}

TEST(OnCompletion, waits_for_the_call) {
  Mark asked;
  for_each_world(ranks(2), [&](TestWorld& world) {
    std::vector<float> data(10, 1);
    std::atomic<bool> called{false};
    ASSERT_TRUE(world.rank() == 0 || asked.awaited(world));
    WorkPtr work = distributed::all_reduce(view(data), {.group = world.group(), .async_op = true});
    work->on_completion([&] { called.store(true); });
    if (world.rank() == 0) {
      EXPECT_FALSE(called.load()) << "the other rank has not called yet";
      asked.set(world);
    }
    work->wait();
    EXPECT_TRUE(eventually([&] { return called.load(); })) << "perhaps the progress thread ended the call and is about to call";
  });
}

TEST(OnCompletion, of_a_call_that_is_over_is_called_at_once) {
  for_each_world(ranks(2), [](TestWorld& world) {
    std::vector<float> data(10, 1);
    WorkPtr work = distributed::all_reduce(view(data), {.group = world.group(), .async_op = true});
    work->wait();
    std::thread::id caller;
    work->on_completion([&] { caller = std::this_thread::get_id(); });
    EXPECT_EQ(caller, std::this_thread::get_id());
    testing::expect_error<StateError>({"on_completion", "takes one"}, [&] { work->on_completion([] {}); });
  });
}

TEST(OnCompletion, works_on_comm_func_handles_too) {
  for_each_world(ranks(2), [](TestWorld&) {
    const std::vector<int32_t> data(10, 1);
    auto [output, handle] = comm_func::all_reduce(view(data), {.async_op = true});
    std::atomic<bool> called{false};
    handle->on_completion([&] { called.store(true); });
    EXPECT_TRUE(eventually([&] { return called.load(); }));
    EXPECT_EQ(output.to_vector<int32_t>(), std::vector<int32_t>(10, 2));
  });
}

TEST(OnCompletion, is_called_when_the_handle_was_dropped) {
  for_each_world(ranks(2), [](TestWorld& world) {
    std::vector<float> data(10, 1);
    std::atomic<bool> called{false};
    distributed::all_reduce(view(data), {.group = world.group(), .async_op = true})->on_completion([&] { called.store(true); });
    EXPECT_TRUE(eventually([&] { return called.load(); }));
    EXPECT_EQ(data[0], 2);
  });
}

TEST(OnCompletion, tells_of_calls_that_failed) {
  for_each_world(ranks(2), [](TestWorld& world) {
    std::vector<float> data(world.rank() == 0 ? 10 : 20, 1);
    std::atomic<int> called{0};
    WorkPtr work = distributed::all_reduce(view(data), {.group = world.group(), .async_op = true});
    work->on_completion([&, handle = work.get()] {
      EXPECT_EQ(handle->exception().code(), ErrorCode::mismatch);
      called.fetch_add(1);
    });
    EXPECT_TRUE(eventually([&] { return called.load() == 1; }));
  });
}

TEST(OnCompletion, tells_of_calls_and_letters_that_were_aborted) {
  for_each_world(ranks(2), [](TestWorld& world) {
    GroupHandle group = distributed::new_group({0, 1});
    std::vector<float> data(10, 1), letter(10, 0);
    std::atomic<int> called{0};
    auto count_failure = [&](const WorkPtr& work) {
      work->on_completion([&, handle = work.get()] {
        EXPECT_FALSE(handle->is_success());
        called.fetch_add(1);
      });
      return work;
    };
    const int other = 1 - world.rank();
    WorkPtr received = count_failure(distributed::irecv(view(letter), other, {.group = group}));
    WorkPtr reduced = world.rank() == 0 ? count_failure(distributed::all_reduce(view(data), {.group = group, .async_op = true})) : nullptr;
    distributed::barrier({.group = world.group()});  // both have posted
    if (world.rank() == 1) distributed::abort(group);
    EXPECT_TRUE(eventually([&] { return called.load() == (world.rank() == 0 ? 2 : 1); }));
  });
}

TEST(OnCompletion, tells_of_letters_short_and_long) {
  for_each_world(ranks(2), [](TestWorld& world) {
    for (int64_t count : {4, 1 << 20}) {
      const int other = 1 - world.rank();
      std::vector<int32_t> mine(static_cast<size_t>(count), world.rank()), theirs(static_cast<size_t>(count), -1);
      std::atomic<int> called{0};
      WorkPtr sent = distributed::isend(view(mine), other, {.group = world.group()});
      WorkPtr received = distributed::irecv(view(theirs), other, {.group = world.group()});
      sent->on_completion([&] { called.fetch_add(1); });
      received->on_completion([&, work = received.get()] {
        EXPECT_EQ(work->source_rank(), other);
        EXPECT_EQ(theirs.back(), other);
        called.fetch_add(1);
      });
      EXPECT_TRUE(eventually([&] { return called.load() == 2; }));
    }
  });
}

}  // namespace
}  // namespace unisono
