// abort() and destroying a group while calls are pending: everybody who waits is freed and told why, nothing wrong is
// ever called a success, and other groups go on.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/support/calls.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/outcomes.hpp"
#include "tests/support/scale.hpp"
#include "tests/support/test_world.hpp"
#include "tests/support/trial_lists.hpp"

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

std::vector<int> everybody(const TestWorld& world) {
  std::vector<int> members;
  for (int rank = 0; rank < world.ranks(); ++rank) members.push_back(rank);
  return members;
}

void expect_revoked(const Status& status, int aborter, const std::string& why) {
  EXPECT_EQ(status.code(), ErrorCode::revoked) << status.text();
  EXPECT_EQ(status.peer(), aborter) << status.text();
  EXPECT_NE(status.message().find(fmt::format("rank {} aborted", aborter)), std::string::npos) << status.text();
  EXPECT_NE(status.message().find(why), std::string::npos) << status.text();
}

template <typename CallFunction>
Status status_of(CallFunction call) {
  try {
    call();
  } catch (const Error& error) {
    return error.status();
  }
  return Status::success();
}

// Rank 0 does not come to the call that the others are in; then rank 1 has had enough.
TEST(Abort, from_another_thread_frees_the_waiters_on_every_rank) {
  for (int64_t count : {4, 100'000}) {
    for_each_world(ranks(3), [&](TestWorld& world) {
      GroupHandle doomed = distributed::new_group(everybody(world)), other = distributed::new_group(everybody(world));
      std::vector<float> data(static_cast<size_t>(count), 1);
      if (world.rank() == 0) {
        EXPECT_TRUE(eventually([&] { return !doomed.group()->usable().ok(); }));
      } else {
        WorkPtr work = distributed::all_reduce(view(data), {.group = doomed, .async_op = true});
        if (world.rank() == 1) {
          EXPECT_THROW(work->wait(0.01), TimeoutError);
        }
        std::thread waiter([&] { expect_revoked(status_of([&] { work->wait(); }), 1, "enough"); });
        if (world.rank() == 1) distributed::abort(doomed, "enough");
        waiter.join();
        EXPECT_TRUE(work->is_completed());
        EXPECT_FALSE(work->is_success());
        expect_revoked(work->exception(), 1, "enough");
      }
      expect_revoked(status_of([&] { distributed::all_reduce(view(data), {.group = doomed}); }), 1, "enough");
      WorkPtr later = distributed::barrier({.group = doomed, .async_op = true});
      expect_revoked(status_of([&] { later->wait(); }), 1, "enough");
      expect_works(world, other);
      expect_works(world);
      distributed::destroy_process_group(doomed);
      expect_works(world, other);
    });
  }
}

// With a core for every rank and without: sleepers then sleep elsewhere.
void for_each_kind_of_pair(const testing::Body& body) {
  for (int cores : {0, 1}) for_each_world(ranks(2).with([&](Settings& settings) { settings.cores = cores; }), body);
}

TEST(Abort, frees_a_synchronous_call_of_another_thread) {
  for_each_kind_of_pair([](TestWorld& world) {
    GroupHandle doomed = distributed::new_group({0, 1}), idle = distributed::new_group({0, 1});
    if (world.rank() == 0) {
      WorkPtr never = distributed::barrier({.group = idle, .async_op = true});
      std::thread caller(
          [&] { expect_revoked(status_of([&] { distributed::barrier({.group = doomed}); }), 0, "no more"); });
      EXPECT_THROW(never->wait(0.02),
                   TimeoutError);  // by then the caller is most likely asleep; if not, the same must come of it
      distributed::abort(doomed, "no more");
      caller.join();
    } else {
      EXPECT_TRUE(eventually([&] { return !doomed.group()->usable().ok(); }));
      expect_revoked(status_of([&] { distributed::barrier({.group = doomed}); }), 0, "no more");
    }
    expect_works(world);
  });
}

TEST(Abort, frees_waiters_soon_also_where_ranks_outnumber_cores) {
  auto worlds = ranks(4).with([](Settings& settings) { settings.cores = 1; });
  for_each_world(worlds, [](TestWorld& world) {
    for (int round = 0; round < 5; ++round) {
      GroupHandle doomed = distributed::new_group(everybody(world));
      std::vector<float> data(8, 1);
      const int64_t began_ns = now_ns();
      if (world.rank() == round % 4) {
        distributed::abort(doomed, "at once");
      } else {
        WorkPtr work = distributed::all_reduce(view(data), {.group = doomed, .async_op = true});
        expect_revoked(status_of([&] { work->wait(); }), round % 4, "at once");
      }
      EXPECT_LT(now_ns() - began_ns, 30'000'000'000) << "far from any deadline";
    }
  });
}

// What was finished before the abort is right; the rest is revoked; nothing that was not finished is called a success.
TEST(Abort, amid_many_calls_leaves_no_wrong_result) {
  const size_t rounds = testing::scale() == testing::Scale::small ? 10 : 60;
  for (int size : {2, 3}) {
    std::vector<Trial> all = testing::trials_of_sizes({.ranks = size, .tile_bytes = 4096, .largest_bytes = 100 << 10},
                                                      [](const Form& form) { return form.has_async; });
    for (Trial& trial : all) trial.async_op = true;
    testing::make_patterns_of(all, size);
    for_each_world(ranks(size), [&](TestWorld& world) {
      for (size_t round = 0; round < rounds; ++round) {
        GroupHandle doomed = distributed::new_group(everybody(world));
        const int aborter = static_cast<int>(round) % size;
        std::vector<Started> started;
        for (size_t index = 0; index < 60; ++index)
          started.push_back(testing::start(all[(round * 61 + index * 7) % all.size()], doomed.group()));
        if (world.rank() == aborter) {
          started[round % 50].wait();
          distributed::abort(doomed, "halfway");
        }
        bool revoked = false;
        for (const Started& call : started) {
          Status status = status_of([&] { call.wait(); });
          EXPECT_FALSE(revoked && status.ok()) << "a call succeeded after one that was revoked";
          revoked = !status.ok();
          if (revoked)
            expect_revoked(status, aborter, "halfway");
          else
            call.check();
        }
        distributed::destroy_process_group(doomed);
      }
      expect_works(world);
    });
  }
}

TEST(Destroying, a_group_with_calls_pending_ends_them_and_tells_the_others) {
  for (int64_t count : {4, 100'000}) {
    SharedArray<std::atomic<int>> left(2);
    for_each_world(ranks(2), [&](TestWorld& world) {
      std::atomic<int>& has_left = left[world.are_threads()];
      GroupHandle group = distributed::new_group({0, 1}, {.name = "short"});
      if (world.rank() == 0) {
        std::vector<std::vector<float>> data(5, std::vector<float>(static_cast<size_t>(count), 1));
        std::vector<WorkPtr> works;
        for (auto& mine : data)
          works.push_back(distributed::all_reduce(view(mine), {.group = group, .async_op = true}));
        EXPECT_THROW(works.front()->wait(0.01), TimeoutError);
        distributed::destroy_process_group(group);
        for (WorkPtr& work : works) EXPECT_THROW(work->wait(), StateError);
        has_left.store(1);
      } else {
        ASSERT_TRUE(eventually([&] { return has_left.load() == 1; }));
        std::vector<float> data(static_cast<size_t>(count), 1);
        Status status;  // the first may still succeed: all that it needs of rank 0 may lie ready
        for (int call = 0; call < 3 && status.ok(); ++call)
          status = status_of([&] { distributed::all_reduce(view(data), {.group = group}); });
        EXPECT_EQ(status.code(), ErrorCode::peer_lost) << status.text();
        EXPECT_EQ(status.peer(), 0) << status.text();
      }
      expect_works(world);
    });
  }
}

TEST(Destroying, a_group_ends_the_waiting_of_other_threads) {
  for_each_kind_of_pair([](TestWorld& world) {
    GroupHandle waited = distributed::new_group({0, 1}), called = distributed::new_group({0, 1});
    GroupHandle idle = distributed::new_group({0, 1});
    if (world.rank() == 0) {
      std::vector<float> data(4, 1);
      WorkPtr work = distributed::all_reduce(view(data), {.group = waited, .async_op = true});
      WorkPtr never = distributed::barrier({.group = idle, .async_op = true});
      std::thread waiter([&] { EXPECT_EQ(status_of([&] { work->wait(); }).code(), ErrorCode::state); });
      std::thread caller(
          [&] { EXPECT_EQ(status_of([&] { distributed::barrier({.group = called}); }).code(), ErrorCode::state); });
      EXPECT_THROW(never->wait(0.05),
                   TimeoutError);  // by then both are most likely asleep; if not, the same must come of it
      distributed::destroy_process_group(waited);
      distributed::destroy_process_group(called);
      waiter.join();
      caller.join();
    }
    expect_works(world);
  });
}

// Calls of one thread meet the destruction by another at every point; what comes too late is refused.
TEST(Destroying, a_group_while_another_thread_calls_on_it_is_safe) {
  const int rounds = testing::scale() == testing::Scale::small ? 20 : 100;
  for_each_kind_of_pair([&](TestWorld& world) {
    for (int round = 0; round < rounds; ++round) {
      GroupHandle group = distributed::new_group({0, 1});
      std::atomic<int> calls{0};
      std::thread caller([&] {
        Status status;
        for (std::vector<int32_t> data(100, 1); status.ok(); std::fill(data.begin(), data.end(), 1)) {
          status = status_of([&] {
            WorkPtr work = distributed::all_reduce(view(data), {.group = group, .async_op = calls % 2 == 0});
            if (work) work->wait();
          });
          if (status.ok()) {
            EXPECT_EQ(data, std::vector<int32_t>(100, 2));
          }
          ++calls;
        }
        EXPECT_TRUE(status.code() == ErrorCode::state || status.code() == ErrorCode::peer_lost) << status.text();
      });
      EXPECT_TRUE(eventually([&] { return calls.load() > round % 7; }));
      distributed::destroy_process_group(group);
      caller.join();
    }
    expect_works(world);
  });
}

}  // namespace
}  // namespace unisono
