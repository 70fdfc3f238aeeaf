// What must work on any machine: joining, every collective in both dialects, a death. The rough tier runs it in every mode of
// tests/rough/modes.py, after a test that the mode is in force.
#include <fmt/format.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/sizes.hpp"
#include "tests/support/losses.hpp"
#include "tests/support/rank_process.hpp"
#include "tests/support/trial.hpp"

namespace unisono::testing {
namespace {

constexpr uid_t nobody = 65534;

class Joining : public ::testing::TestWithParam<int> {};

TEST_P(Joining, works_and_works_again_after_leaving) {
  const int size = GetParam();
  const WorldChoice choice{.size = size};
  expect_all_succeeded(Children(size, [&](int rank) {
    for (int round = 0; round < 2; ++round) as_rank(rank, choice, [](TestWorld& world) { expect_works(world); });
  }).wait());
}

INSTANTIATE_TEST_SUITE_P(With, Joining, ::testing::Values(2, 4, 8), [](const auto& info) { return fmt::format("{}_ranks", info.param); });

// At most so many descriptors, and no privileges; where the mode has already taken more, that stays.
void become_an_ordinary_user(rlim_t descriptors) {
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max = std::min(limit.rlim_cur, descriptors);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  if (geteuid() != 0) return;
  ASSERT_EQ(setgroups(0, nullptr), 0);
  ASSERT_EQ(setresgid(nobody, nobody, nobody), 0);
  ASSERT_EQ(setresuid(nobody, nobody, nobody), 0);
  ASSERT_EQ(prctl(PR_SET_DUMPABLE, 1), 0);  // as after exec: else its own files in /proc belong to root
}

// On one core and behind rank 0, so that all that it sends is under way before anybody reads.
void let_rank_0_run_first(int rank) {
  cpu_set_t all, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
  CPU_ZERO(&one);
  for (int core = 0; core < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++core)
    if (CPU_ISSET(core, &all)) CPU_SET(core, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  const sched_param parameters = {};
  if (rank > 0) { ASSERT_EQ(sched_setscheduler(0, SCHED_IDLE, &parameters), 0); }
}

rlim_t most_descriptors() {
  rlimit limit = {};
  EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  return limit.rlim_cur;
}

Outcomes join_as_ordinary_users(const WorldChoice& choice) {
  Outcomes outcomes(choice.size);
  expect_all_succeeded(Children(choice.size, [&](int rank) {
    become_an_ordinary_user(1024);
    let_rank_0_run_first(rank);
    std::shared_ptr<World> world;
    outcomes.note(rank, [&] {
      auto joined = join_as(rank, choice.size, choice.job, choice.settings);
      throw_if_error(joined.status());
      world = *joined;
    });
    if (world) expect_works(TestWorld(world, false));
    if (world) world->leave();
  }).wait());
  return outcomes;
}

class ManyRanks : public ::testing::TestWithParam<int> {};

// The kernel counts the descriptors that an ordinary user has under way in messages. With 256 of them more than 32 ranks may
// be too many, and then rank 0 says so; the others wait for it in vain.
TEST_P(ManyRanks, of_an_ordinary_user_join_within_the_deadline) {
  if (in_rough_mode('i')) GTEST_SKIP() << "so many processes take more than 64 MiB by themselves";
  if (in_rough_mode('m')) GTEST_SKIP() << "an ordinary user cannot enter a machine";
  WorldChoice choice{.size = GetParam()};
  const bool must_work = most_descriptors() >= 1024 || choice.size <= 32;
  choice.settings.arena_bytes = 16_MiB;
  choice.settings.join_timeout_s = must_work ? 20 : 3;
  const Outcomes outcomes = join_as_ordinary_users(choice);
  EXPECT_LT(outcomes.took_s(), choice.settings.join_timeout_s + (must_work ? 0 : 1));
  const Outcome& first = outcomes.of(0);
  if (!must_work && first.code != ErrorCode::ok) {
    EXPECT_EQ(first.code, ErrorCode::resource) << first.text();
    EXPECT_NE(first.text().find("ulimit -n"), std::string::npos) << first.text();
  }
  for (int rank = 0; rank < choice.size; ++rank) {
    const Outcome& outcome = outcomes.of(rank);
    EXPECT_EQ(outcome.code == ErrorCode::ok, must_work || first.code == ErrorCode::ok) << "rank " << rank << ": " << outcome.text();
  }
}

INSTANTIATE_TEST_SUITE_P(With, ManyRanks, ::testing::Values(32, 64, 128), [](const auto& info) { return fmt::format("{}_ranks", info.param); });

// Every form of both dialects: within a slot, within a tile, and large enough that peers read each other's own memory. In a
// cgroup of 64 MiB there is no room for the buffers of that.
std::vector<Trial> trials(int size) {
  std::vector<Trial> all;
  const int64_t largest = in_rough_mode('i') ? 50'000 : 600'000;
  for (const Form& form : all_forms())
    for (int64_t count : {int64_t{3}, int64_t{1000}, int64_t{20'000}, largest})
      all.push_back({&form, DType::float32, ReduceOp::sum, count, static_cast<int>(all.size()) % size, all.size() % 3 == 0 && form.has_async});
  return all;
}

void perform_all(Worlds worlds) {
  for (int size : worlds.sizes) {
    const std::vector<Trial> all = trials(size);
    make_patterns_of(all, size);
    for_each_world(ranks(size).with(worlds.kinds.front()), [&](TestWorld& world) {
      for (const Trial& trial : all) {
        perform(trial, world.world().world_group());
        if (::testing::Test::HasFailure()) return;  // one is enough to read
      }
    });
  }
}

TEST(EveryCollective, works_between_processes) { perform_all(ranks({2, 4}).with(Kind::processes)); }
TEST(EveryCollective, works_between_threads) { perform_all(ranks(3).with(Kind::threads)); }

TEST(Groups, are_made_used_and_destroyed) {
  for_each_world(ranks(4).with(Kind::processes), [](TestWorld& world) {
    for (int round = 0; round < 5; ++round) {
      GroupHandle odd = distributed::new_group({1, 3});
      if (world.rank() % 2 == 1) expect_works(world, odd);
      if (world.rank() % 2 == 1) distributed::destroy_process_group(odd);
      expect_works(world);
    }
  });
}

TEST(Kill, is_told_to_the_survivors_of_a_small_call) {
  expect_survivors_are_told({.ranks = 4, .victims = {2}, .late = 3}, [](TestWorld& world) {
    Scratch scratch;
    make_call(world.group(), scratch, {.count = 8});
  });
}

TEST(Kill, is_told_to_the_survivors_of_a_large_call) {
  expect_survivors_are_told({.ranks = 3, .victims = {0}, .late = 1}, [](TestWorld& world) {
    Scratch scratch;
    make_call(world.group(), scratch, {.count = 1 << 20});
  });
}

// A program that closed its standard streams still writes to them, and so does whatever it calls. None of these numbers may
// have become a descriptor of ours.
TEST(StandardStreams, can_be_written_to_by_any_rank) {
  for_each_world(ranks(2).with(Kind::processes), [](TestWorld& world) {
    const std::string noise(1 << 16, '.');
    for (int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
      if (in_rough_mode('d')) (void)!write(number, noise.data(), noise.size());
    for (int round = 0; round < 3; ++round) expect_works(world);
    const GroupHandle group = distributed::new_group({0, 1});
    expect_works(world, group);
  });
}

// Where dumps are written a process is not gone before its dump is, so the dump must not hold what others have mapped.
TEST(Crash, is_told_to_the_survivors_in_time) {
  Outcomes outcomes(3);
  SharedArray<Signs> signs(1);
  const WorldChoice choice{.size = 3};
  Children children(3, [&](int rank) {
    as_rank(rank, choice, [&](TestWorld& world) {
      expect_works(world);
      signs[0].ready += 1;
      if (rank == 1 && await([&] { return signs[0].go == 1; })) __builtin_trap();
      outcomes.note(rank, [&] { distributed::barrier({.group = world.group()}); });
    });
  });
  ASSERT_TRUE(await([&] { return signs[0].ready == 3; }));
  for (int rank : {0, 2}) children.await_asleep(rank);
  const int64_t crashed_ns = now_ns();
  signs[0].go = 1;
  const std::vector<Ending> endings = children.wait();
  EXPECT_TRUE(endings[1].killed_by(SIGILL) || endings[1].killed_by(SIGTRAP)) << endings[1].output;
  for (int rank : {0, 2}) {
    EXPECT_TRUE(endings[static_cast<size_t>(rank)].succeeded()) << endings[static_cast<size_t>(rank)].output;
    expect_lost(outcomes.of(rank), {1});
    EXPECT_LT(seconds_between(crashed_ns, outcomes.of(rank).ended_ns), 1.0);
  }
}

// Four arenas of 1 GiB do not fit. Everybody is told what to lower, and a lower one does fit.
TEST(AddressSpace, that_is_too_small_is_an_error_that_names_the_setting) {
  constexpr int size = 4;
  int owners = 0;  // of the problem
  Outcomes outcomes(size, 2);
  const WorldChoice large{.size = size}, small{.size = size};
  expect_all_succeeded(Children(size, [&](int rank) {
    const rlimit limit = {2_GiB, 2_GiB};
    ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    outcomes.note(rank, 0, [&] { throw_if_error(join_as(rank, size, large.job, large.settings).status()); });
    WorldChoice mine = small;
    mine.settings.arena_bytes = 64_MiB;
    outcomes.note(rank, 1, [&] { as_rank(rank, mine, [](TestWorld& world) { expect_works(world); }); });
  }).wait());
  for (int rank = 0; rank < size; ++rank) {
    const Outcome& outcome = outcomes.of(rank);
    const bool own = outcome.code == ErrorCode::resource || outcome.code == ErrorCode::memory;
    const bool of_another = outcome.code == ErrorCode::init && outcome.text().find("rank") != std::string::npos;
    EXPECT_TRUE(own || of_another) << outcome.text();
    if (own) { EXPECT_NE(outcome.text().find("UNISONO_ARENA"), std::string::npos) << outcome.text(); }
    owners += own;
    EXPECT_LT(outcome.took_s(), 5) << outcome.text();
    EXPECT_EQ(outcomes.of(rank, 1).code, ErrorCode::ok) << outcomes.of(rank, 1).text();
  }
  EXPECT_GT(owners, 0);
}

}  // namespace
}  // namespace unisono::testing
