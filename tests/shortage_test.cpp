// What the system can run out of, at every moment of joining and of a first large call: shared memory, threads, memory of the
// control group. Everybody is told in time, nobody is killed by SIGBUS, and what does not need it goes on.
//
// The functions below take the place of the C library's in this program and in the library that it uses.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/sizes.hpp"
#include "tests/support/calls.hpp"
#include "tests/support/cgroup.hpp"
#include "tests/support/file_tree.hpp"
#include "tests/support/losses.hpp"
#include "unisono/shared_tensor.hpp"

namespace {

// Counts calls; the one that makes it `fail_at` fails, and so do all after it where `for_good` is set.
struct Shortage {
  std::atomic<int> calls, fail_at;
  std::atomic<bool> for_good;

  void arm(int at, bool from_then_on = false) {
    calls = 0;
    for_good = from_then_on;
    fail_at = at;
  }
  bool strikes() {
    const int number = ++calls, at = fail_at;
    return at > 0 && (number == at || (for_good && number > at));
  }
};
Shortage of_shared_memory;

}  // namespace

extern "C" int fallocate(int descriptor, int mode, off_t offset, off_t bytes) {
  const bool takes = (mode & 2) == 0;  // not FALLOC_FL_PUNCH_HOLE, which gives back
  if (takes && of_shared_memory.strikes()) {
    errno = ENOSPC;
    return -1;
  }
  return static_cast<int>(syscall(SYS_fallocate, descriptor, mode, offset, bytes));
}

namespace unisono::testing {
namespace {

constexpr double bound_s = 1;  // for errors that all are told of

struct Story {
  int calls;        // of fallocate on the rank that lacks it
  bool was_struck;  // whether one of them failed
};

void expect_short_of_memory(const Outcome& outcome) {
  EXPECT_TRUE(outcome.code == ErrorCode::memory || outcome.code == ErrorCode::resource) << outcome.text();
  for (const char* word : {"needs", "iB", "No space left"})  // bytes in KiB or MiB, and the system's reason
    EXPECT_NE(outcome.text().find(word), std::string::npos) << outcome.text();
}

// Rank 1 lacks memory at its n-th request while joining. False: there was no n-th.
bool join_with_too_little(int nth) {
  Outcomes outcomes(3);
  SharedArray<Story> stories(1);
  WorldChoice choice{.size = 3};
  choice.settings.join_timeout_s = 3;
  expect_all_succeeded(Children(3, [&](int rank) {
    if (rank == 1) of_shared_memory.arm(nth);
    outcomes.note(rank, [&] {
      auto world = join_as(rank, 3, choice.job, choice.settings);
      throw_if_error(world.status());
      (*world)->leave();
    });
    if (rank == 1) stories[0] = {of_shared_memory.calls, of_shared_memory.calls >= nth};
  }).wait());
  EXPECT_GT(stories[0].calls, 0) << "the library's fallocate is not the one of this test";
  if (!stories[0].was_struck) return false;
  expect_short_of_memory(outcomes.of(1));
  for (int rank : {0, 2}) {
    EXPECT_NE(outcomes.of(rank).code, ErrorCode::ok);
    EXPECT_LT(outcomes.of(rank).took_s(), choice.settings.join_timeout_s + bound_s) << outcomes.of(rank).text();
  }
  return true;
}

TEST(SharedMemory, that_is_missing_at_any_moment_of_joining_is_an_error_with_numbers) {
  int struck = 0;
  while (struck < 100 && join_with_too_little(struck + 1)) ++struck;
  EXPECT_GT(struck, 1);
  EXPECT_LT(struck, 100);
}

// The same in the first large call of a group, and in the groups beside it nothing happens.
bool call_with_too_little(int nth, bool for_good) {
  Outcomes outcomes(3, 2);
  SharedArray<Story> stories(1);
  WorldChoice choice{.size = 3};
  choice.settings.timeout_s = 3;
  expect_all_succeeded(Children(3, [&](int rank) {
    as_rank(rank, choice, [&](TestWorld& world) {
      const GroupHandle group = distributed::new_group({0, 1, 2});
      Scratch scratch;
      if (rank == 1) of_shared_memory.arm(nth, for_good);
      outcomes.note(rank, 0, [&] { make_call(group, scratch, {.count = 500'000}); });
      if (rank == 1) stories[0] = {of_shared_memory.calls, of_shared_memory.calls >= nth};
      if (rank == 1) of_shared_memory.arm(0);
      outcomes.note(rank, 1, [&] { make_call(group, scratch, {.count = 500'000}); });
      expect_works(world);
    });
  }).wait());
  EXPECT_GT(stories[0].calls, 0) << "the library's fallocate is not the one of this test";
  if (!stories[0].was_struck) return false;
  expect_short_of_memory(outcomes.of(1));
  for (int rank : {0, 2}) {
    EXPECT_EQ(outcomes.of(rank).code, ErrorCode::peer_argument) << outcomes.of(rank).text();
    EXPECT_EQ(outcomes.of(rank).peer, 1) << outcomes.of(rank).text();
  }
  EXPECT_LT(outcomes.took_s(0), bound_s);
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(outcomes.of(rank, 1).code, ErrorCode::ok) << outcomes.of(rank, 1).text();
  return true;
}

TEST(SharedMemory, that_is_missing_in_a_large_call_is_told_to_all_and_the_group_goes_on) {
  for (bool for_good : {false, true}) {
    int struck = 0;
    while (struck < 100 && call_with_too_little(struck + 1, for_good)) ++struck;
    EXPECT_GT(struck, 0);
    EXPECT_LT(struck, 100);
  }
}

TEST(ControlGroup, without_room_is_an_error_with_numbers_and_the_process_lives) {
  Cgroup memory("memory");
  if (!memory.limit_memory(64_MiB)) GTEST_SKIP() << memory.why_not();
  WorldChoice choice{.size = 2};
  expect_all_succeeded(Children(2, [&](int rank) {
    if (rank == 1) { ASSERT_TRUE(memory.add(0)) << memory.why_not(); }
    as_rank(rank, choice, [&](TestWorld& world) {
      expect_works(world);
      if (rank == 1) {
        try {
          Tensor tensor = alloc_shared(Shape{int64_t{128_MiB}}, DType::uint8);
          ADD_FAILURE() << "128 MiB were promised in a control group of 64 MiB";
        } catch (const MemoryError& error) {
          for (const char* word : {"128 MiB", "may still be taken", "limited by", "unisono-test"})
            EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
        }
      }
      expect_works(world);
    });
  }).wait());
}

// Pages of files count as used, but the kernel gives them up as soon as somebody needs memory: whoever has read or written a
// large file must still be able to join.
TEST(ControlGroup, that_is_full_of_pages_of_files_has_room) {
  Cgroup memory("memory");
  if (!memory.limit_memory(64_MiB)) GTEST_SKIP() << memory.why_not();
  const FileTree tree({});
  WorldChoice choice{.size = 2};
  choice.settings.join_timeout_s = 5;
  expect_all_succeeded(Children(2, [&](int rank) {
    if (rank == 1) {
      ASSERT_TRUE(memory.add(0)) << memory.why_not();
      std::ofstream file(tree.root() + "large");
      const std::vector<char> piece(1_MiB, 'x');
      for (int64_t bytes = 0; bytes < 100_MiB; bytes += 1_MiB) file.write(piece.data(), static_cast<std::streamsize>(piece.size()));
    }
    as_rank(rank, choice, [&](TestWorld& world) {
      expect_works(world);
      const Tensor tensor = alloc_shared(Shape{int64_t{8_MiB}}, DType::uint8);
      expect_works(world);
    });
  }).wait());
}

// The kernel kills it. When exactly it does, the victim cannot say: it is asked of the system, from which the second counts.
TEST(ControlGroup, whose_memory_runs_out_loses_a_rank_and_the_others_are_told) {
  Cgroup memory("memory");
  if (!memory.limit_memory(64_MiB)) GTEST_SKIP() << memory.why_not();
  Outcomes outcomes(3);
  SharedArray<Signs> signs(1);
  const WorldChoice choice{.size = 3};
  Children children(3, [&](int rank) {
    if (rank == 1) { ASSERT_TRUE(memory.add(0)) << memory.why_not(); }
    as_rank(rank, choice, [&](TestWorld& world) {
      expect_works(world);
      signs[0].ready += 1;
      std::vector<std::vector<char>> hoard;
      if (rank == 1 && await([&] { return signs[0].go == 1; }))
        for (int piece = 0; piece < 256; ++piece) hoard.emplace_back(1_MiB, 'x');
      outcomes.note(rank, [&] { distributed::barrier({.group = world.group()}); });
    });
  });
  ASSERT_TRUE(await([&] { return signs[0].ready == 3; }));
  for (int rank : {0, 2}) children.await_asleep(rank);
  signs[0].go = 1;
  EXPECT_TRUE(await([&] {
    siginfo_t info = {};
    return waitid(P_PID, static_cast<id_t>(children.pid(1)), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0;
  }));
  const int64_t died_ns = now_ns();
  const std::vector<Ending> endings = children.wait();
  EXPECT_TRUE(endings[1].killed_by(SIGKILL)) << endings[1].output;
  for (int rank : {0, 2}) {
    EXPECT_TRUE(endings[static_cast<size_t>(rank)].succeeded()) << endings[static_cast<size_t>(rank)].output;
    expect_lost(outcomes.of(rank), {1});
    EXPECT_LT(seconds_between(died_ns, outcomes.of(rank).ended_ns), 1.0);
  }
}

// A process without a thread more: its own, and the first of the library's two.
TEST(Threads, that_cannot_be_started_are_an_error_on_all_ranks) {
  for (int allowed : {1, 2}) {
    Cgroup processes("pids");
    if (!processes.limit_processes(allowed)) GTEST_SKIP() << processes.why_not();
    Outcomes outcomes(3);
    WorldChoice choice{.size = 3};
    choice.settings.join_timeout_s = 10;
    expect_all_succeeded(Children(3, [&](int rank) {
      if (rank == 1) { ASSERT_TRUE(processes.add(0)) << processes.why_not(); }
      outcomes.note(rank, [&] { throw_if_error(join_as(rank, 3, choice.job, choice.settings).status()); });
    }).wait());
    EXPECT_EQ(outcomes.of(1).code, ErrorCode::resource) << outcomes.of(1).text();
    EXPECT_NE(outcomes.of(1).text().find("thread"), std::string::npos) << outcomes.of(1).text();
    for (int rank : {0, 2}) {
      const bool says_so_itself = spans_hosts() && outcomes.of(rank).text().find("rank 1 (pid") != std::string::npos &&
                                  outcomes.of(rank).text().find("cannot join: a thread could not be started") != std::string::npos;  // an agent, of its machine
      EXPECT_EQ(outcomes.of(rank).code, says_so_itself ? ErrorCode::resource : ErrorCode::init) << outcomes.of(rank).text();
      EXPECT_NE(outcomes.of(rank).text().find("rank 1"), std::string::npos) << outcomes.of(rank).text();
      EXPECT_LT(outcomes.of(rank).took_s(), 2) << outcomes.of(rank).text();
    }
  }
}

}  // namespace
}  // namespace unisono::testing
