// What nobody reckons with in the middle of a call: memory that runs out, memory that cannot be read any more, signals, limits,
// a fork beside a call under way. Nobody hangs, everybody is told.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <new>

#include "dialects/default_world.hpp"
#include "tests/support/calls.hpp"
#include "tests/support/children.hpp"
#include "tests/support/forking.hpp"
#include "tests/support/outcomes.hpp"
#include "unisono/distributed.hpp"

namespace {

thread_local size_t smallest_to_fail = SIZE_MAX;  // one allocation of at least this many bytes fails, and none after it

}  // namespace

// noinline: otherwise the compiler takes the pair malloc and delete for a mistake.
[[gnu::noinline]] void* operator new(size_t bytes) {
  if (bytes >= smallest_to_fail) {
    smallest_to_fail = SIZE_MAX;
    throw std::bad_alloc();
  }
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace unisono::testing {
namespace {

// Doubling needs scratch memory of the call's length. Rank 0 cannot have it: it refuses, the others hear of it, all go on.
TEST(Surprise, memory_that_runs_out_for_a_call_refuses_it) {
  auto worlds = ranks(3).with([](Settings& settings) { settings.plan = "all_reduce=doubling"; });
  for_each_world(worlds, [](TestWorld& world) {
    std::vector<float> data(100'000, 1);
    const distributed::AllReduceOptions options{.op = ReduceOp::sum, .group = world.group(), .async_op = false, .timeout_s = {}};
    distributed::all_reduce(view(std::span(data).first(1)), options);
    if (world.rank() == 0) {
      smallest_to_fail = 100'000;
      EXPECT_THROW(distributed::all_reduce(view(data), options), MemoryError);
      EXPECT_EQ(smallest_to_fail, SIZE_MAX) << "nothing asked for memory";
    } else {
      EXPECT_THROW(distributed::all_reduce(view(data), options), PeerArgumentError);
    }
    distributed::all_reduce(view(data), options);
    EXPECT_EQ(data.back(), 3);
  });
}

// The root's tensor lies in memory that nobody can read; the root does not look at it, the others do.
TEST(Surprise, memory_of_a_peer_that_cannot_be_read_breaks_the_group_and_says_why) {
  constexpr int64_t bytes = 1 << 20;
  auto worlds = ranks(3).with(Kind::processes).with([](Settings& settings) { settings.plan = "broadcast=direct_read"; });
  for_each_world(worlds, [](TestWorld& world) {
    void* closed = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    std::vector<uint8_t> open(bytes);
    const TensorView tensor{world.rank() == 0 ? closed : open.data(), DType::uint8, {bytes}};
    try {
      distributed::broadcast(tensor, {.src = 0, .group = world.group(), .async_op = false, .timeout_s = {}, .group_src = {}});
      ADD_FAILURE() << "it was read";
    } catch (const ResourceError& error) {
      EXPECT_NE(std::string(error.what()).find("the memory of rank 0"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("Bad address"), std::string::npos) << error.what();
    }
    EXPECT_THROW(distributed::barrier({.group = world.group(), .async_op = false, .timeout_s = {}}), ResourceError);
    munmap(closed, bytes);
  });
}

pthread_t handler_ran_on;
void note_thread(int) { handler_ran_on = pthread_self(); }

TEST(Surprise, signals_are_delivered_to_the_users_threads_only) {
  Children children(1, [](int) {
    as_rank(0, {.size = 1}, [](TestWorld&) {
      sigset_t user;
      sigemptyset(&user);
      sigaddset(&user, SIGUSR1);
      struct sigaction action = {};
      action.sa_handler = note_thread;
      sigaction(SIGUSR1, &action, nullptr);
      pthread_sigmask(SIG_BLOCK, &user, nullptr);
      kill(getpid(), SIGUSR1);  // pending, since nobody takes it
      sigset_t pending;
      EXPECT_TRUE(await([&] { return sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1) == 1; }));
      pthread_sigmask(SIG_UNBLOCK, &user, nullptr);
      EXPECT_TRUE(pthread_equal(handler_ran_on, pthread_self()));
    });
  });
  expect_all_succeeded(children.wait());
}

TEST(Surprise, a_limit_on_file_sizes_is_told_and_does_not_kill) {
  Children children(1, [](int) {
    const rlimit limit{1 << 20, RLIM_INFINITY};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    auto world = join_as(0, 1, unique_job(), Worlds::test_settings());
    ASSERT_FALSE(world.ok());
    EXPECT_EQ(world.status().code(), ErrorCode::resource);
    EXPECT_NE(world.status().message().find("ulimit -f"), std::string::npos) << world.status().message();
  });
  expect_all_succeeded(children.wait());
}

TEST(Surprise, a_child_forked_beside_a_call_under_way_is_told_and_lives) {
  if (under_thread_sanitizer()) GTEST_SKIP() << "forks";
  const WorldChoice choice{.size = 2};
  SharedArray<std::atomic<int>> go(1);
  Children children(2, [&](int rank) {
    as_rank(rank, choice, [&](TestWorld& world) {
      std::vector<int32_t> data = {1};
      const distributed::AllReduceOptions options{.op = ReduceOp::sum, .group = world.group(), .async_op = true, .timeout_s = {}};
      if (rank == 1) {
        EXPECT_TRUE(await([&] { return go[0] == 1; }));
        distributed::all_reduce(view(data), options)->wait();
        return;
      }
      WorkPtr work = distributed::all_reduce(view(data), options);
      await_allocator();
      const pid_t child = fork();
      if (child == 0) {
        int wrong = 0;
        for (const auto& use : {std::function<void()>([&] { work->wait(); }),
                                std::function<void()>([&] { distributed::all_reduce(view(data), options)->wait(); })}) try {
            use();
            wrong += 1;
          } catch (const StateError&) {
          } catch (...) {
            wrong += 10;
          }
        _exit(wrong);
      }
      int status = -1;
      EXPECT_EQ(waitpid(child, &status, 0), child);
      EXPECT_EQ(status, 0) << "the child's ending";
      go[0] = 1;
      work->wait();
      EXPECT_EQ(data[0], 2);
    });
  });
  expect_all_succeeded(children.wait());
}

TEST(Surprise, a_rank_that_cannot_make_a_group_tells_the_others) {
  for_each_world(ranks(3), [](TestWorld& world) {
    SpeakAs speak(world.shared_world());
    const bool odd = world.rank() == 1;
    auto make = [&] { return distributed::new_group({0, 1, 2}, {.timeout_s = {}, .name = "", .run_ahead = odd ? 99 : 0}); };
    if (odd) {
      EXPECT_THROW(make(), ArgumentError);
    } else {
      EXPECT_THROW(make(), PeerArgumentError);
    }
    distributed::barrier({.group = world.group(), .async_op = false, .timeout_s = {}});
    std::vector<int32_t> data = {1};
    distributed::all_reduce(view(data), {.op = ReduceOp::sum, .group = distributed::new_group({0, 1, 2}), .async_op = false, .timeout_s = {}});
    EXPECT_EQ(data[0], 3);
  });
}

// Rank 0 tries alone and gives up; then it waits in its second try, and rank 1's first is that.
TEST(Surprise, a_rank_that_comes_later_joins_the_try_that_waits_for_it) {
  if (under_thread_sanitizer()) GTEST_SKIP() << "starts processes";
  SharedArray<std::atomic<int>> waiting(1);
  const WorldChoice choice{.size = 2};
  Children children(2, [&](int rank) {
    as_rank(rank, choice, [&](TestWorld&) {
      if (rank == 0) {
        EXPECT_THROW(distributed::new_group({0, 1}, {.timeout_s = 0.05, .name = "", .run_ahead = 0}), TimeoutError);
        waiting[0] = getpid();
      } else {
        EXPECT_TRUE(await([&] { return waiting[0] != 0; }));
        EXPECT_TRUE(await_asleep(waiting[0], waiting[0]));
      }
      EXPECT_EQ(distributed::get_world_size(distributed::new_group({0, 1})), 2);
    });
  });
  expect_all_succeeded(children.wait());
}

TEST(Timeouts, that_cannot_be_are_refused) {
  for_each_world(ranks(2), [](TestWorld& world) {
    std::vector<int32_t> data = {1};
    for (double timeout_s : {0.0, -1.0, std::nan("")}) {
      auto call = [&] { distributed::all_reduce(view(data), {.op = ReduceOp::sum, .group = world.group(), .async_op = false, .timeout_s = timeout_s}); };
      EXPECT_THROW(call(), ArgumentError);
      EXPECT_THROW(distributed::init_process_group({.rank = 0, .world_size = 1, .job = unique_job(), .timeout_s = timeout_s}), ArgumentError);
    }
  });
}

}  // namespace
}  // namespace unisono::testing
