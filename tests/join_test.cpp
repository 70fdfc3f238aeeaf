// Joining when ranks are missing, claim the same place, disagree, die, or come again. Strangers: join_strangers_test.cpp.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <thread>

#include "base/cores.hpp"
#include "group/launch.hpp"
#include "tests/support/losses.hpp"

namespace unisono::testing {
namespace {

// What one process calls itself.
struct Claim {
  int rank = 0, size = 1;
};

Settings patient(double join_timeout_s) {
  Settings settings = Worlds::test_settings();
  settings.join_timeout_s = join_timeout_s;
  return settings;
}

// Joins as claimed, notes how that ended, and leaves once everybody has an answer.
void join_and_note(int index, const WorldChoice& choice, const Claim& claim, const Outcomes& outcomes) {
  Result<std::shared_ptr<World>> world = Status(ErrorCode::internal, "not tried");
  outcomes.note(index, [&] {
    world = join_as(claim.rank, claim.size, choice.job, choice.settings);
    throw_if_error(world.status());
  });
  if (world.ok()) (*world)->leave();
}

Outcomes all_join(const std::vector<Claim>& claims, const Settings& settings) {
  const int count = static_cast<int>(claims.size());
  Outcomes outcomes(count);
  WorldChoice choice{.settings = settings};
  Children children(count, [&](int index) { join_and_note(index, choice, claims[static_cast<size_t>(index)], outcomes); });
  expect_all_succeeded(children.wait());
  return outcomes;
}

void expect_init_error(const Outcome& outcome, const std::vector<std::string>& words, double within_s) {
  EXPECT_EQ(outcome.code, ErrorCode::init) << outcome.text();
  for (const std::string& word : words)
    EXPECT_NE(outcome.text().find(word), std::string::npos) << outcome.text() << "\nshould say " << word;
  EXPECT_LT(outcome.took_s(), within_s) << outcome.text();
}

// Rank 0 has the memory of as many ranks, its own included: their hellos have come to it.
bool has_heard_of(pid_t host, int ranks) {
  int arenas = 0;
  for (const auto& entry : std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", host))) {
    std::error_code gone;  // a descriptor may be closed while we look
    arenas += std::filesystem::read_symlink(entry, gone).string().starts_with("/memfd:unisono");
  }
  return arenas == ranks;
}

TEST(Join, ranks_that_cannot_be_are_refused_at_once) {
  for (auto [rank, size] : {std::pair(3, 3), std::pair(5, 3), std::pair(-1, 3), std::pair(0, 0), std::pair(0, -2)}) {
    auto world = join_as(rank, size, unique_job(), Worlds::test_settings());
    ASSERT_FALSE(world.ok());
    EXPECT_EQ(world.status().code(), ErrorCode::init);
    EXPECT_NE(world.status().text().find(fmt::format("rank {} is out of range: the world has {} ranks", rank, size)), std::string::npos) << world.status().text();
  }
}

TEST(Join, two_processes_of_one_rank_are_named_to_everybody) {
  for (const std::vector<Claim>& claims : {std::vector<Claim>{{0, 3}, {1, 3}, {1, 3}}, {{0, 4}, {2, 4}, {1, 4}, {2, 4}}}) {
    const int claimed_twice = claims[1].rank;
    Outcomes outcomes = all_join(claims, patient(20));
    for (int index = 0; index < outcomes.ranks(); ++index)
      expect_init_error(outcomes.of(index), {fmt::format("two processes call themselves rank {}: pid ", claimed_twice), " and pid "}, 2);
  }
}

TEST(Join, disagreement_on_the_size_of_the_world_is_named_to_everybody) {
  Outcomes outcomes = all_join({{0, 2}, {1, 3}}, patient(20));
  for (int index = 0; index < 2; ++index)
    expect_init_error(outcomes.of(index), {"rank 1 (pid ", "says there are 3 ranks", "rank 0 (pid ", "says 2"}, 2);
}

TEST(Join, a_rank_beyond_the_others_world_is_named_to_everybody) {
  Outcomes outcomes = all_join({{0, 2}, {4, 5}}, patient(20));
  for (int index = 0; index < 2; ++index) expect_init_error(outcomes.of(index), {"rank 4 (pid ", "5 ranks", "says 2"}, 2);
}

TEST(Join, who_is_missing_at_the_deadline_is_named_to_everybody) {
  Outcomes outcomes = all_join({{0, 4}, {1, 4}, {3, 4}}, patient(0.5));
  for (int index = 0; index < 3; ++index) expect_init_error(outcomes.of(index), {"3 of 4 ranks joined", "missing: 2."}, 1.5);
  EXPECT_GE(outcomes.of(0).took_s(), 0.5);
  Outcomes more = all_join({{0, 5}, {2, 5}}, patient(0.3));
  for (int index = 0; index < 2; ++index) expect_init_error(more.of(index), {"2 of 5 ranks joined", "missing: 1, 3, 4."}, 1.3);
}

TEST(Join, a_rank_0_that_never_comes_is_named) {
  Outcomes outcomes = all_join({{1, 3}, {2, 3}}, patient(0.3));
  for (int index = 0; index < 2; ++index) expect_init_error(outcomes.of(index), {"waited for rank 0", "was it started"}, 1.3);
}

TEST(Join, a_second_rank_0_is_told_who_the_first_is) {
  SharedArray<Signs> signs(1);
  Outcomes outcomes(2, 2);
  WorldChoice choice{.size = 2, .job = unique_job(), .settings = patient(20)};
  Children children(2, [&](int rank) {
    if (rank == 0) signs[0].ready = getpid();
    if (rank == 1) { EXPECT_TRUE(await([&] { return signs[0].rounds == 1; })); }
    as_rank(rank, choice, [&](TestWorld& world) {
      expect_works(world);
      signs[0].go += 1;
      EXPECT_TRUE(await([&] { return signs[0].rounds == 2; }));
      expect_works(world);
    });
  });
  const auto second_rank_0 = [&](int round) {
    EXPECT_TRUE(await([&] { return signs[0].ready != 0; }));
    auto joined = [&] { throw_if_error(join_as(0, 2, choice.job, choice.settings).status()); };
    EXPECT_TRUE(await([&] { return outcomes.note(0, round, joined).code != ErrorCode::ok; }));
    expect_init_error(outcomes.of(0, round), {"already running", fmt::format("rank 0 is pid {}", signs[0].ready.load())}, 1);
    signs[0].rounds += 1;
  };
  children.await_asleep(0);
  second_rank_0(0);  // while the first waits for rank 1
  EXPECT_TRUE(await([&] { return signs[0].go == 2; }));
  second_rank_0(1);  // while the world is at work
  expect_all_succeeded(children.wait());
}

// A rank that was killed is started again: the old world still lives, so it is refused; with the next world it may come.
TEST(Join, a_rank_started_again_is_refused_while_the_old_world_lives_and_welcome_in_the_next) {
  SharedArray<Signs> signs(1);
  WorldChoice choice{.size = 3, .job = unique_job(), .settings = patient(20)};
  auto live = [&](int rank) {
    as_rank(rank, choice, [&](TestWorld& world) {
      expect_works(world);
      signs[0].ready += 1;
      EXPECT_TRUE(await([&] { return signs[0].go == 1; }));
    });
    if (rank == 2) return;
    as_rank(rank, choice, [&](TestWorld& world) { expect_works(world); });
  };
  Children children(3, live);
  EXPECT_TRUE(await([&] { return signs[0].ready == 3; }));
  children.kill(2);
  Outcomes outcomes(1);
  outcomes.note(0, [&] { throw_if_error(join_as(2, 3, choice.job, choice.settings).status()); });
  expect_init_error(outcomes.of(0), {"already running with 3 ranks", fmt::format("rank 0 is pid {}", children.pid(0)), fmt::format("rank 2 is pid {}", children.pid(2))}, 1);
  signs[0].go = 1;
  Children again(1, [&](int) {
    Result<std::shared_ptr<World>> world = Status(ErrorCode::internal, "not tried");
    EXPECT_TRUE(await([&] {
      world = join_as(2, 3, choice.job, choice.settings);
      return world.ok();
    }));
    expect_works(TestWorld(*world, false));
    (*world)->leave();
  });
  expect_all_succeeded(again.wait());
  std::vector<Ending> endings = children.wait();
  for (int rank : {0, 1}) EXPECT_TRUE(endings[static_cast<size_t>(rank)].succeeded()) << endings[static_cast<size_t>(rank)].output;
}

TEST(Join, again_after_leaving_works_in_the_same_processes) {
  for (int size : {1, 2, 5}) {
    WorldChoice choice{.size = size};
    expect_all_succeeded(Children(size, [&](int rank) {
      for (int round = 0; round < 10; ++round) as_rank(rank, choice, [](TestWorld& world) { expect_works(world); });
    }).wait());
  }
}

TEST(Join, again_after_leaving_works_in_the_same_threads) {
  WorldChoice choice{.size = 3};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] {
      for (int round = 0; round < 10; ++round) as_rank(rank, choice, [](TestWorld& world) { expect_works(world); });
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(Join, two_jobs_at_once_do_not_meet) {
  WorldChoice choices[] = {{.size = 3}, {.size = 2}};
  expect_all_succeeded(Children(5, [&](int index) {
    const WorldChoice& choice = choices[index % 2];
    as_rank(index / 2, choice, [&](TestWorld& world) {
      EXPECT_EQ(world.ranks(), choice.size);
      for (int call = 0; call < 20; ++call) expect_works(world);
    });
  }).wait());
}

TEST(Join, thirty_two_ranks_meet_on_any_machine) {
  WorldChoice choice{.size = small_run() ? 8 : 32};
  expect_all_succeeded(Children(choice.size, [&](int rank) {
    as_rank(rank, choice, [](TestWorld& world) {
      expect_works(world);
      distributed::barrier({.group = world.group()});
    });
  }).wait());
}

// Whoever may use the fewest cores decides for all: a plan must be the same everywhere.
TEST(Join, the_cores_of_one_rank_count_for_all) {
  const int there = count(affinity());
  for (int64_t fewest : {1, 2, 5000}) {
    WorldChoice choice{.size = 3};
    expect_all_succeeded(Children(3, [&](int rank) {
      WorldChoice mine = choice;
      mine.settings.cores = rank == 1 ? fewest : 5000;
      as_rank(rank, mine, [&](TestWorld& world) {
        EXPECT_EQ(world.world().cores(), std::min(static_cast<int>(fewest), there));
        EXPECT_EQ(world.world().crowded(), world.world().cores() < 3);
        expect_works(world);
      });
    }).wait());
  }
}

// While rank 3 is awaited, rank 2 dies: it is missing, too, unless it comes again.
TEST(Join, a_rank_killed_while_it_waits_is_missing) {
  Outcomes outcomes(3);
  WorldChoice choice{.settings = patient(2)};
  Children children(3, [&](int rank) { join_and_note(rank, choice, {rank, 4}, outcomes); });
  EXPECT_TRUE(await([&] { return has_heard_of(children.pid(0), 3); }));
  children.kill(2);
  children.wait();
  for (int index : {0, 1}) expect_init_error(outcomes.of(index), {"2 of 4 ranks joined", "missing: 2, 3; ", fmt::format("rank 2 (pid {}", children.pid(2)), " came"}, 3);
}

TEST(Join, a_rank_0_that_died_is_said_to_have_been_there) {
  Outcomes outcomes(3);
  WorldChoice choice{.settings = patient(2)};
  Children children(3, [&](int rank) { join_and_note(rank, choice, {rank, 4}, outcomes); });
  EXPECT_TRUE(await([&] { return has_heard_of(children.pid(0), 3); }));
  children.kill(0);
  children.wait();
  for (int index : {1, 2}) expect_init_error(outcomes.of(index), {"rank 0", fmt::format("was there (pid {}), went away without a word", children.pid(0)), "did it die?"}, 3);
}

TEST(Join, a_rank_killed_while_it_waits_may_come_again) {
  SharedArray<Signs> signs(1);
  WorldChoice choice{.size = 3, .job = unique_job(), .settings = patient(20)};
  auto live = [&](int rank) {
    signs[0].ready += 1;
    as_rank(rank, choice, [](TestWorld& world) { expect_works(world); });
  };
  Children first(2, [&](int index) { live(index + 1); });
  EXPECT_TRUE(await([&] { return signs[0].ready == 2; }));
  for (int index : {0, 1}) first.await_asleep(index);
  first.kill(1);
  Children others(2, [&](int index) { live(index * 2); });
  expect_all_succeeded(others.wait());
  EXPECT_TRUE(first.wait()[0].succeeded());
}

TEST(Join, a_rank_stopped_on_the_way_is_named_at_the_deadline) {
  SharedArray<Signs> signs(1);
  Outcomes outcomes(3);
  WorldChoice choice{.settings = patient(2)};
  Children children(3, [&](int rank) {
    if (rank == 1) { EXPECT_TRUE(await([&] { return signs[0].go == 1; })); }
    join_and_note(rank, choice, {rank, 3}, outcomes);
  });
  EXPECT_TRUE(await([&] { return has_heard_of(children.pid(0), 2); }));
  children.signal(2, SIGSTOP);
  children.await_stopped(2);
  signs[0].go = 1;
  for (int rank : {0, 1}) EXPECT_TRUE(await([&] { return outcomes.of(rank).was_made(); }));
  children.signal(2, SIGCONT);
  expect_all_succeeded(children.wait());
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(outcomes.of(rank).code, ErrorCode::init) << outcomes.of(rank).text();
  for (int rank : {0, 1}) expect_init_error(outcomes.of(rank), {": 2. Are they stopped?"}, 4);
}

TEST(Join, variables_that_say_nothing_sensible_are_named_with_their_value) {
  const Environment good = {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "29500"}};
  const std::pair<std::string, std::string> wrong[] = {{"WORLD_SIZE", "abc"}, {"WORLD_SIZE", "0"}, {"WORLD_SIZE", "-3"}, {"RANK", "one"},
                                                       {"RANK", "1"}, {"UNISONO_TIMEOUT", "soon"}, {"UNISONO_PLAN", "all_reduce=fastest"},
                                                       {"UNISONO_ARENA", "big"}, {"UNISONO_LOG", "loud"}};
  for (const auto& [variable, value] : wrong) {
    Environment environment = good;
    environment[variable] = value;
    auto world = launch({}, environment);
    ASSERT_FALSE(world.ok()) << variable << "=" << value;
    EXPECT_EQ(world.status().code(), ErrorCode::init) << world.status().text();
    EXPECT_NE(world.status().text().find(variable), std::string::npos) << world.status().text();
    EXPECT_NE(world.status().text().find(value), std::string::npos) << world.status().text();
  }
}

TEST(Join, hosts_cannot_be_pretended_where_there_are_several) {
  const Environment by_torchrun = {{"TORCHELASTIC_RUN_ID", "7d1c"}, {"RANK", "5"},        {"WORLD_SIZE", "8"},          {"LOCAL_RANK", "1"},
                                   {"LOCAL_WORLD_SIZE", "4"},       {"GROUP_RANK", "1"},  {"GROUP_WORLD_SIZE", "2"},    {"MASTER_ADDR", "10.0.0.7"},
                                   {"MASTER_PORT", "29400"},        {"UNISONO_PRETEND_HOSTS", "4,4"}};
  const Status status = launch({}, by_torchrun).status();
  EXPECT_EQ(status.code(), ErrorCode::init);
  for (const char* words : {"UNISONO_PRETEND_HOSTS=\"4,4\"", "torchrun", "8 ranks, 4 here", "unset it"})
    EXPECT_NE(status.message().find(words), std::string::npos) << status.text();
}

}  // namespace
}  // namespace unisono::testing
