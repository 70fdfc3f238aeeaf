// Too little memory, storms of signals, and more elements than 32 bits count.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>

#include <thread>

#include "base/sizes.hpp"
#include "tests/support/calls.hpp"
#include "tests/support/children.hpp"
#include "tests/support/outcomes.hpp"
#include "transport/headroom.hpp"

namespace unisono::testing {
namespace {

constexpr int64_t small_arena = 700_KiB;  // holds the head and some lanes, but no tiles

void run_ranks(int size, Kind kind, const std::function<void(int)>& body) {
  if (kind == Kind::processes) return expect_all_succeeded(Children(size, body).wait());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) threads.emplace_back([&, rank] { body(rank); });
  for (std::thread& thread : threads) thread.join();
}

std::vector<Kind> kinds() {
  return under_thread_sanitizer() ? std::vector<Kind>{Kind::threads} : std::vector<Kind>{Kind::threads, Kind::processes};
}

// Rank 1 has no room for the tiles of a large call; the others have.
TEST(Memory, that_one_rank_lacks_is_told_to_all_and_small_calls_go_on) {
  for (Kind kind : kinds()) {
    Outcomes outcomes(3, 3);
    WorldChoice choice{.size = 3};
    run_ranks(3, kind, [&](int rank) {
      WorldChoice mine = choice;
      if (rank == 1) mine.settings.arena_bytes = small_arena;
      as_rank(rank, mine, [&](TestWorld& world) {
        for (int round = 0; round < outcomes.rounds(); ++round) {
          Scratch scratch;
          outcomes.note(rank, round, [&] { make_call(world.group(), scratch, {.count = 100'000}); });
          EXPECT_TRUE(scratch.is_untouched());
          expect_works(world);
        }
      });
    });
    for (int round = 0; round < outcomes.rounds(); ++round) {
      EXPECT_EQ(outcomes.of(1, round).code, ErrorCode::memory) << outcomes.of(1, round).text();
      for (const char* word : {"a group's tiles needs", "of the arena's 700 KiB", "UNISONO_ARENA"})
        EXPECT_NE(outcomes.of(1, round).text().find(word), std::string::npos) << outcomes.of(1, round).text();
      for (int rank : {0, 2}) {
        EXPECT_EQ(outcomes.of(rank, round).code, ErrorCode::peer_argument) << outcomes.of(rank, round).text();
        EXPECT_EQ(outcomes.of(rank, round).peer, 1);
        EXPECT_NE(outcomes.of(rank, round).text().find("a group's tiles needs"), std::string::npos) << outcomes.of(rank, round).text();
      }
      EXPECT_LT(outcomes.took_s(round), 1.0);
    }
  }
}

TEST(Memory, too_little_to_join_at_all_is_an_error_with_numbers) {
  Settings settings = Worlds::test_settings();
  settings.arena_bytes = 64_KiB;
  auto world = join_as(0, 1, unique_job(), settings);
  ASSERT_FALSE(world.ok());
  EXPECT_EQ(world.status().code(), ErrorCode::memory) << world.status().text();
  EXPECT_NE(world.status().text().find("64 KiB"), std::string::npos) << world.status().text();
}

TEST(Memory, for_groups_runs_out_with_an_error_and_comes_back_when_some_are_destroyed) {
  Worlds worlds = ranks(1).with(Kind::threads).with([](Settings& settings) { settings.arena_bytes = small_arena; });
  for_each_world(worlds, [](TestWorld& world) {
    std::vector<GroupHandle> groups;
    auto make_many = [&] {
      while (groups.size() < 100) groups.push_back(distributed::new_group({0}));
    };
    EXPECT_THROW(make_many(), MemoryError);
    ASSERT_GT(groups.size(), 1u);
    distributed::destroy_process_group(groups.back());
    groups.back() = distributed::new_group({0});
    for (const GroupHandle& group : groups) expect_works(world, group);
  });
}

TEST(Descriptors, too_few_to_join_are_counted_before_anybody_waits) {
  if (under_thread_sanitizer()) GTEST_SKIP() << "limits a process";
  expect_all_succeeded(Children(1, [](int) {
    rlimit few = {40, 40};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    auto world = join_as(0, 8, unique_job(), Worlds::test_settings());
    ASSERT_FALSE(world.ok());
    EXPECT_EQ(world.status().code(), ErrorCode::resource);
    for (const char* word : {"8 ranks", "the limit is 40", "ulimit -n"})
      EXPECT_NE(world.status().text().find(word), std::string::npos) << world.status().text();
  }).wait());
}

// A signal every millisecond interrupts every system call sooner or later: while joining, in calls and while leaving.
TEST(Signals, in_a_storm_change_nothing) {
  if (under_thread_sanitizer()) GTEST_SKIP() << "needs processes";
  WorldChoice choice{.size = 3};
  expect_all_succeeded(Children(3, [&](int rank) {
    struct sigaction action = {};
    action.sa_handler = [](int) {};
    ASSERT_EQ(sigaction(SIGALRM, &action, nullptr), 0);
    const itimerval storm = {{0, 1000}, {0, 1000}};
    ASSERT_EQ(setitimer(ITIMER_REAL, &storm, nullptr), 0);
    for (int world_number = 0; world_number < 3; ++world_number)
      as_rank(rank, choice, [&](TestWorld& world) {
        for (int round = 0; round < (small_run() ? 20 : 100); ++round)
          for (size_t count : {1u, 5000u, 500'000u}) {
            std::vector<int32_t> data(count, 1);
            WorkPtr work = distributed::all_reduce(view(data), {.group = world.group(), .async_op = round % 2 == 1});
            if (work) work->wait();
            ASSERT_EQ(data, std::vector<int32_t>(count, 3));
          }
      });
    const itimerval calm = {};
    setitimer(ITIMER_REAL, &calm, nullptr);
  }).wait());
}

// More than 2^32 elements and bytes. The memory is zero and never written to but at a few places, so it costs little until
// the result is.
TEST(Elements, more_than_32_bits_count_are_reduced_and_moved) {
  if (!full_run()) GTEST_SKIP() << "takes 9 GiB and a while: set UNISONO_TEST_FULL=1";
  if (memory_headroom().bytes < 12_GiB) GTEST_SKIP() << "needs 12 GiB of memory";
  Worlds worlds = ranks(2).with(Kind::threads).with([](Settings& settings) {
    settings.timeout_s = 600;
    settings.cores = 1;
  });
  for_each_world(worlds, [](TestWorld& world) {
    const int64_t count = (int64_t{1} << 32) + 5;
    void* memory = mmap(nullptr, static_cast<size_t>(count), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    auto* bytes = static_cast<int8_t*>(memory);
    const int64_t places[] = {0, int64_t{1} << 31, int64_t{1} << 32, count - 1};
    for (int64_t place : places) bytes[place] = static_cast<int8_t>(3 + world.rank());
    distributed::all_reduce({memory, DType::int8, Shape{count}}, {.group = world.group()});
    for (int64_t place : places) EXPECT_EQ(bytes[place], 7) << place;
    EXPECT_EQ(bytes[count - 2], 0);
    bytes[count - 1] = static_cast<int8_t>(world.rank() + 20);
    distributed::broadcast({memory, DType::int8, Shape{count}}, {.src = 1, .group = world.group()});
    EXPECT_EQ(bytes[count - 1], 21);
    munmap(memory, static_cast<size_t>(count));
  });
}

}  // namespace
}  // namespace unisono::testing
