// Asynchronous calls: order, waiting, dropped handles, threads. Aborting and leaving with calls pending:
// abort_test.cpp.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/support/calls.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/outcomes.hpp"
#include "tests/support/scale.hpp"
#include "tests/support/test_world.hpp"
#include "tests/support/trial_lists.hpp"
#include "unisono/comm_func.hpp"

namespace unisono {
namespace {

using testing::eventually;
using testing::expect_works;
using testing::for_each_world;
using testing::Form;
using testing::ranks;
using testing::SharedArray;
using testing::Started;
using testing::TestWorld;
using testing::Trial;

// Two hundred calls, mixed in kind and size.
std::vector<Trial> many_trials(int size) {
  std::vector<Trial> all = testing::trials_of_sizes({.ranks = size, .tile_bytes = 4096, .largest_bytes = 200 << 10},
                                                    [](const Form& form) { return form.has_async; });
  std::vector<Trial> some;
  for (size_t index = 0; some.size() < 200; index += 7) {  // no divisor of their number, so all of them come up
    some.push_back(all[index % all.size()]);
    some.back().async_op = true;
  }
  testing::make_patterns_of(some, size);
  return some;
}

std::vector<Started> start_all(const std::vector<Trial>& trials, TestWorld& world) {
  std::vector<Started> started;
  for (const Trial& trial : trials) started.push_back(testing::start(trial, world.world().world_group()));
  return started;
}

bool is_completed(const Started& started) {
  return started.work ? started.work->is_completed() : started.handle->is_completed();
}

TEST(AsyncCalls, a_work_may_be_waited_for_as_a_handle) {
  for_each_world(ranks(2), [](TestWorld& world) {
    std::vector<int32_t> data = {world.rank() + 1};
    CommHandle handle(distributed::all_reduce(view(data), {.group = world.group(), .async_op = true}));
    handle.wait();
    EXPECT_TRUE(handle.is_completed());
    EXPECT_TRUE(handle.exception().ok());
    EXPECT_EQ(data[0], 3);
  });
}

TEST(AsyncCalls, many_at_once_of_all_kinds_give_the_right_results) {
  for (int size : {1, 2, 4}) {
    const std::vector<Trial> trials = many_trials(size);
    for_each_world(ranks(size), [&](TestWorld& world) {
      for (const Started& started : start_all(trials, world)) started.finish();
    });
  }
}

TEST(AsyncCalls, may_be_waited_for_in_any_order) {
  const std::vector<Trial> trials = many_trials(3);
  for_each_world(ranks(3), [&](TestWorld& world) {
    std::vector<Started> started = start_all(trials, world);
    for (size_t step = 0; step < started.size(); ++step) started[(step * 77 + 150) % started.size()].finish();
  });
}

TEST(AsyncCalls, complete_in_the_order_made) {
  const std::vector<Trial> trials = many_trials(2);
  for_each_world(ranks(2), [&](TestWorld& world) {
    std::vector<Started> started = start_all(trials, world);
    for (bool all_done = false; !all_done;) {
      size_t last = started.size();
      while (last > 0 && !is_completed(started[last - 1])) --last;
      for (size_t before = 0; before < last; ++before)
        ASSERT_TRUE(is_completed(started[before])) << before << " is before " << last;
      all_done = last == started.size();
      std::this_thread::yield();
    }
    for (const Started& call : started) call.check();
  });
}

TEST(AsyncCalls, complete_without_anybody_waiting) {
  const std::vector<Trial> trials = many_trials(3);
  for_each_world(ranks(3), [&](TestWorld& world) {
    std::vector<Started> started = start_all(trials, world);
    ASSERT_TRUE(eventually([&] { return is_completed(started.back()); }));
    for (const Started& call : started) {
      ASSERT_TRUE(is_completed(call));
      call.check();
    }
  });
}

TEST(AsyncCalls, whose_handles_were_dropped_are_performed_all_the_same) {
  const std::vector<Trial> trials = many_trials(3);
  for_each_world(ranks(3), [&](TestWorld& world) {
    std::vector<Started> started = start_all(trials, world);
    for (Started& call : started) {
      call.work.reset();
      call.handle.reset();
    }
    distributed::barrier({.group = world.group()});  // behind all of them
    for (const Started& call : started) call.check();
  });
}

TEST(AsyncCalls, keep_the_results_of_comm_func_alive_when_everything_is_dropped) {
  for_each_world(ranks(2), [](TestWorld& world) {
    std::vector<float> input(50'000, 1);
    for (int round = 0; round < 20; ++round) {
      comm_func::all_reduce(view(input), {.async_op = true});
      comm_func::all_gather_into_tensor(view(input), {.async_op = true});
      comm_func::reduce_scatter_tensor(view(input), {.async_op = true});
    }
    expect_works(world);
    EXPECT_EQ(input, std::vector<float>(50'000, 1));
  });
}

TEST(SyncCalls, behind_asynchronous_ones_wait_for_their_turn) {
  for_each_world(ranks(3), [](TestWorld& world) {
    std::vector<int32_t> data(10'000, 1);
    for (int round = 0; round < 20; ++round) {
      std::fill(data.begin(), data.end(), 1);
      WorkPtr one = distributed::all_reduce(view(data), {.group = world.group(), .async_op = true});
      WorkPtr two = distributed::all_reduce(view(data), {.group = world.group(), .async_op = true});
      distributed::all_reduce(view(data), {.group = world.group()});
      EXPECT_TRUE(one->is_completed() && two->is_completed());
      EXPECT_TRUE(one->is_success() && two->exception().ok());
      ASSERT_EQ(data, std::vector<int32_t>(10'000, 27));
    }
  });
}

TEST(Wait, may_be_called_from_another_thread) {
  for_each_world(ranks(3), [](TestWorld& world) {
    for (int64_t count : {10, 30'000}) {
      std::vector<float> data(static_cast<size_t>(count), 1);
      WorkPtr work = distributed::all_reduce(view(data), {.group = world.group(), .async_op = true});
      std::thread([&] { EXPECT_TRUE(work->wait()); }).join();
      EXPECT_EQ(data, std::vector<float>(static_cast<size_t>(count), 3));
    }
  });
}

TEST(Wait, may_be_called_by_two_threads_at_once) {
  for_each_world(ranks(2), [](TestWorld& world) {
    for (int round = 0; round < 50; ++round) {
      std::vector<float> one(2000, 1), two(2000, 2);
      WorkPtr first = distributed::all_reduce(view(one), {.group = world.group(), .async_op = true});
      WorkPtr second = distributed::all_reduce(view(two), {.group = world.group(), .async_op = true});
      std::thread other([&] { EXPECT_TRUE(first->wait() && second->wait()); });
      EXPECT_TRUE(second->wait() && first->wait());
      other.join();
      ASSERT_EQ(one, std::vector<float>(2000, 2));
      ASSERT_EQ(two, std::vector<float>(2000, 4));
    }
  });
}

TEST(Wait, that_expires_leaves_the_call_running) {
  SharedArray<std::atomic<int>> expired(2);
  for_each_world(ranks(2), [&](TestWorld& world) {
    std::atomic<int>& has_expired = expired[world.are_threads()];
    std::vector<float> data(1000, 1);
    ASSERT_TRUE(world.rank() == 0 || eventually([&] { return has_expired.load() == 1; }));
    WorkPtr work = distributed::all_reduce(view(data), {.group = world.group(), .async_op = true});
    if (world.rank() == 0) {
      EXPECT_THROW(work->wait(0.02), TimeoutError);
      EXPECT_THROW(work->wait(0.0), TimeoutError);
      EXPECT_FALSE(work->is_completed());
      EXPECT_FALSE(work->is_success());
      EXPECT_TRUE(work->exception().ok());
      has_expired.store(1);
    }
    EXPECT_TRUE(work->wait());
    EXPECT_TRUE(work->wait(0.0)) << "what is over does not expire";
    EXPECT_EQ(data, std::vector<float>(1000, 2));
    expect_works(world);
  });
}

TEST(Wait, works_on_comm_func_handles_too) {
  SharedArray<std::atomic<int>> expired(2);
  for_each_world(ranks(2), [&](TestWorld& world) {
    std::atomic<int>& has_expired = expired[world.are_threads()];
    const std::vector<int64_t> data(20, world.rank() + 1);
    ASSERT_TRUE(world.rank() == 0 || eventually([&] { return has_expired.load() == 1; }));
    auto [output, handle] = comm_func::all_reduce(view(data), {.async_op = true});
    if (world.rank() == 0) {
      EXPECT_THROW(handle->wait(0.02), TimeoutError);
      has_expired.store(1);
    }
    handle->wait();
    EXPECT_TRUE(handle->is_completed());
    EXPECT_TRUE(handle->exception().ok());
    EXPECT_EQ(output.to_vector<int64_t>(), std::vector<int64_t>(20, 3));
  });
}

// Which thread's call comes first is not the same on every rank, so all of them are alike.
TEST(Threads, may_call_on_one_group_at_once) {
  const int calls = testing::scale() == testing::Scale::small ? 20 : 100;
  auto in_four_threads = [](auto body) {
    std::vector<std::thread> threads;
    for (int index = 0; index < 4; ++index) threads.emplace_back(body);
    for (std::thread& thread : threads) thread.join();
  };
  for_each_world(ranks({2, 3}), [&](TestWorld& world) {
    for (int64_t count : {5, 5000}) {
      in_four_threads([&] {
        for (int call = 0; call < calls; ++call) {
          std::vector<int32_t> data(static_cast<size_t>(count), 1);
          distributed::all_reduce(view(data), {.group = world.group()});
          ASSERT_EQ(data, std::vector<int32_t>(static_cast<size_t>(count), world.ranks())) << call;
        }
      });
      in_four_threads([&] {
        for (int call = 0; call < calls; ++call) distributed::barrier({.group = world.group()});
      });
      in_four_threads([&] {
        std::vector<std::vector<int32_t>> data(static_cast<size_t>(calls),
                                               std::vector<int32_t>(static_cast<size_t>(count), 1));
        std::vector<WorkPtr> works;
        for (auto& mine : data)
          works.push_back(distributed::all_reduce(view(mine), {.group = world.group(), .async_op = true}));
        for (WorkPtr& work : works) work->wait();
        for (auto& mine : data) ASSERT_EQ(mine, std::vector<int32_t>(static_cast<size_t>(count), world.ranks()));
      });
    }
  });
}

TEST(Threads, may_each_use_a_group_of_their_own) {
  for_each_world(ranks(3), [](TestWorld& world) {
    std::vector<GroupHandle> groups;
    for (int index = 0; index < 4; ++index) groups.push_back(distributed::new_group({0, 1, 2}));
    std::vector<std::thread> threads;
    for (const GroupHandle& group : groups)
      threads.emplace_back([&world, group] {
        for (int call = 0; call < 100; ++call) expect_works(world, group);
      });
    for (std::thread& thread : threads) thread.join();
  });
}

}  // namespace
}  // namespace unisono
