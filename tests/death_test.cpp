// Processes that die while the others wait for them: everybody who needs them is told who, within a second. Deaths in the
// middle of data: death_stream_test.cpp; at every named point of the code: fault_points_test.cpp.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include "tests/support/losses.hpp"
#include "unisono/binding.hpp"

namespace unisono::testing {
namespace {

class Death : public ::testing::Test {
 protected:
  void TearDown() override { traces_.expect_none_left(); }
  Traces traces_;
};

WaitingCall calling(CallChoice choice) {
  return [choice](TestWorld& world) {
    Scratch scratch;
    if (WorkPtr work = make_call(world.group(), scratch, choice)) work->wait();
  };
}

std::vector<Collective> kinds() {
  if (small_run()) return {Collective::all_reduce, Collective::broadcast, Collective::barrier};
  return {all_collectives().begin(), all_collectives().end()};
}

TEST_F(Death, of_each_rank_is_told_to_all_who_wait_in_every_collective) {
  for (Collective kind : kinds())
    for (int victim = 0; victim < 4; ++victim) {
      SCOPED_TRACE(fmt::format("rank {} of 4 killed in {}", victim, name_of(kind)));
      expect_survivors_are_told({.victims = {victim}, .late = (victim + 1) % 4}, calling({.kind = kind}));
    }
}

TEST_F(Death, of_each_rank_is_told_to_all_who_wait_with_much_data) {
  for (Collective kind : kinds()) {
    SCOPED_TRACE(name_of(kind));
    const int victim = static_cast<int>(kind) % 4;
    expect_survivors_are_told({.victims = {victim}, .late = (victim + 1) % 4}, calling({.kind = kind, .count = 300'000}));
  }
}

TEST_F(Death, is_told_to_ranks_that_have_a_core_each) {
  for (int64_t count : {1, 300'000})
    expect_survivors_are_told({.ranks = 2, .victims = {1}, .late = 0}, calling({.count = count}));
}

TEST_F(Death, is_told_to_asynchronous_calls) {
  for (int64_t cores : {0, 1}) {
    KillScene scene{.victims = {2}, .late = 1};
    scene.settings.cores = cores;
    expect_survivors_are_told(scene, calling({.async_op = true}));
    expect_survivors_are_told(scene, calling({.count = 50'000, .async_op = true}));
  }
}

TEST_F(Death, of_two_ranks_together_names_one_of_them) {
  for (std::vector<int> victims : {std::vector<int>{0, 1}, std::vector<int>{1, 3}, std::vector<int>{0, 3}})
    expect_survivors_are_told({.victims = victims, .late = 2, .within_s = 2}, calling({}));
}

TEST_F(Death, of_all_but_one_is_told_to_that_one) {
  expect_survivors_are_told({.victims = {0, 1, 3}, .late = 2, .within_s = 2}, calling({}));
  expect_survivors_are_told({.victims = {1, 2, 3}, .late = 0, .within_s = 2}, calling({.count = 300'000}));
}

TEST_F(Death, is_told_to_those_who_make_a_group) {
  for (int victim : {0, 2}) {
    Outcomes outcomes(4);
    SharedArray<Signs> signs(1);
    WorldChoice choice{.size = 4};
    Children children(4, [&](int rank) {
      as_rank(rank, choice, [&](TestWorld&) {
        signs[0].ready += 1;
        if (rank == victim) await([] { return false; });
        outcomes.note(rank, [&] { distributed::new_group({0, 1, 2, 3}, {.name = "never"}); });
      });
    });
    EXPECT_TRUE(await([&] { return signs[0].ready == 4; }));
    for (int rank = 0; rank < 4; ++rank)
      if (rank != victim) children.await_asleep(rank);
    const int64_t killed_ns = now_ns();
    children.kill(victim);
    children.wait();
    for (int rank = 0; rank < 4; ++rank) {
      if (rank == victim) continue;
      expect_lost(outcomes.of(rank), {victim});
      EXPECT_NE(outcomes.of(rank).text().find("\"never\""), std::string::npos) << outcomes.of(rank).text();
      EXPECT_LT(seconds_between(killed_ns, outcomes.of(rank).ended_ns), 1.0);
    }
  }
}

// Rank 1 has come to make the group and died before rank 0 came: the group can be made, but not used.
TEST_F(Death, of_a_rank_that_had_come_to_make_a_group_is_told_in_its_first_call) {
  Outcomes outcomes(2, 2);
  SharedArray<Signs> signs(1);
  WorldChoice choice{.size = 2};
  Children children(2, [&](int rank) {
    as_rank(rank, choice, [&](TestWorld& world) {
      signs[0].ready += 1;
      if (rank == 0) { EXPECT_TRUE(await([&] { return signs[0].go == 1; })); }
      if (rank == 0) outcomes.note(0, 0, [&] { calling({})(world); });
      outcomes.note(rank, 1, [&] {
        Scratch scratch;
        make_call(distributed::new_group({0, 1}, {.name = "late"}), scratch, {});
      });
    });
  });
  EXPECT_TRUE(await([&] { return signs[0].ready == 2; }));
  children.await_asleep(1);
  children.kill(1);
  signs[0].go = 1;
  EXPECT_TRUE(children.wait()[0].succeeded());
  for (int round = 0; round < 2; ++round) {
    expect_lost(outcomes.of(0, round), {1});
    EXPECT_LT(outcomes.of(0, round).took_s(), 1.0);
  }
}

TEST_F(Death, leaves_the_groups_alone_that_do_not_need_the_dead) {
  SharedArray<Signs> signs(1);
  Outcomes outcomes(4);
  WorldChoice choice{.size = 4};
  Children children(4, [&](int rank) {
    as_rank(rank, choice, [&](TestWorld& world) {
      GroupHandle survivors = distributed::new_group({0, 1, 2}, {.name = "survivors"});
      signs[0].ready += 1;
      if (rank == 3) await([] { return false; });
      outcomes.note(rank, [&] { calling({})(world); });
      for (int call = 0; call < 10; ++call) expect_works(world, survivors);
      GroupHandle later = distributed::new_group({2, 1, 0}, {.name = "later"});
      expect_works(world, later);
      distributed::destroy_process_group(survivors);
      expect_works(world, later);
    });
  });
  EXPECT_TRUE(await([&] { return signs[0].ready == 4; }));
  children.kill(3);
  std::vector<Ending> endings = children.wait();
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_TRUE(endings[static_cast<size_t>(rank)].succeeded()) << endings[static_cast<size_t>(rank)].output;
    expect_lost(outcomes.of(rank), {3});
  }
}

// Rank 2 dies in a group that the others have left: nobody will touch their lanes any more.
TEST_F(Death, of_the_last_member_gives_back_the_memory_of_a_destroyed_group) {
  SharedArray<Signs> signs(1);
  WorldChoice choice{.size = 3};
  Children children(3, [&](int rank) {
    as_rank(rank, choice, [&](TestWorld& world) {
      const int64_t before = world.world().arena_taken_bytes();
      GroupHandle group = distributed::new_group({0, 1, 2}, {.name = "destroyed"});
      expect_works(world, group);
      EXPECT_GT(world.world().arena_taken_bytes(), before);
      if (rank != 2) distributed::destroy_process_group(group);
      signs[0].ready += 1;
      if (rank == 2) await([] { return false; });
      EXPECT_TRUE(await([&] { return signs[0].ready == 3; }));
      // The lane is looked after whenever a group is destroyed, and not given back as long as rank 2 lives.
      const auto sweep = [] { distributed::destroy_process_group(distributed::new_group({distributed::get_rank()})); };
      sweep();
      EXPECT_GT(world.world().arena_taken_bytes(), before);
      signs[0].rounds += 1;
      EXPECT_TRUE(await([&] { return !world.world().how_lost(2).empty(); }));
      sweep();
      EXPECT_EQ(world.world().arena_taken_bytes(), before);
    });
  });
  EXPECT_TRUE(await([&] { return signs[0].rounds == 2; }));
  children.kill(2);
  std::vector<Ending> endings = children.wait();
  for (size_t rank : {0u, 1u}) EXPECT_TRUE(endings[rank].succeeded()) << endings[rank].output;
}

// The victim has what it came for and dies while the others may still be taking theirs.
TEST_F(Death, of_a_rank_that_is_done_with_a_call_does_not_fail_it_for_the_others) {
  const int rounds = small_run() ? 4 : full_run() ? 200 : 20;
  for (int round = 0; round < rounds; ++round) {
    const int victim = round % 4;
    const size_t count = round % 3 == 0 ? 10 : round % 3 == 1 ? 10'000 : 1'000'000;
    WorldChoice choice{.size = 4};
    Children children(4, [&](int rank) {
      as_rank(rank, choice, [&](TestWorld& world) {
        std::vector<int32_t> data(count, rank);
        distributed::all_reduce(view(data), {.group = world.group()});
        if (rank == victim) raise(SIGKILL);
        EXPECT_EQ(data, std::vector<int32_t>(count, 6));
      });
    });
    std::vector<Ending> endings = children.wait();
    for (int rank = 0; rank < 4; ++rank) {
      const Ending& ending = endings[static_cast<size_t>(rank)];
      EXPECT_TRUE(rank == victim ? ending.killed_by(SIGKILL) : ending.succeeded()) << "round " << round << ": " << ending.output;
    }
  }
}

// How a rank ends that joined through a dialect and does not leave.
struct Way {
  std::string name;
  std::function<void()> end;
  std::string words;
  const char* hosts = nullptr;  // pretended
};

void expect_told_how(const Way& way) {
  SCOPED_TRACE(way.name);
  Outcomes outcomes(3);
  SharedArray<Signs> signs(1);
  const std::string job = unique_job();
  Children children(3, [&](int rank) {
    rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    if (way.hosts) setenv("UNISONO_PRETEND_HOSTS", way.hosts, 1);
    distributed::init_process_group({.rank = rank, .world_size = 3, .job = job});
    distributed::barrier();
    if (rank == 1) {
      signs[0].killed_ns = now_ns();
      way.end();
    }
    Scratch scratch;
    outcomes.note(rank, [&] { distributed::all_reduce(scratch.tensor(DType::float32, {8})); });
    distributed::destroy_process_group();
  });
  std::vector<Ending> endings = children.wait();
  for (int rank : {0, 2}) {
    EXPECT_TRUE(endings[static_cast<size_t>(rank)].succeeded()) << endings[static_cast<size_t>(rank)].output;
    expect_lost(outcomes.of(rank), {1});
    EXPECT_NE(outcomes.of(rank).text().find(way.words), std::string::npos) << outcomes.of(rank).text() << "\nshould say " << way.words;
    EXPECT_LT(seconds_between(signs[0].killed_ns, outcomes.of(rank).ended_ns), 1.0) << outcomes.of(rank).text();
  }
}

TEST_F(Death, by_an_exit_says_with_what) {
  expect_told_how({"exit(0)", [] { exit(0); }, "exited with 0"});
  expect_told_how({"exit(3)", [] { exit(3); }, "exited with 3"});
}

TEST_F(Death, by_any_signal_or_without_a_word_names_the_rank) {
  for (int number : {SIGSEGV, SIGABRT, SIGTERM, SIGILL})
    expect_told_how({strsignal(number), [number] { signal(number, SIG_DFL), raise(number); }, "rank 1 (pid "});
  expect_told_how({"_exit", [] { _exit(7); }, "rank 1 (pid "});
}

TEST_F(Death, a_rank_that_leaves_politely_is_said_to_have_left) {
  expect_told_how({"destroy", [] { distributed::destroy_process_group(), _exit(0); }, "left the group"});
}

// Ranks of its own host, and of others, hear why.
TEST_F(Death, of_a_process_that_said_why_is_told_with_its_words) {
  for (const char* hosts : {static_cast<const char*>(nullptr), "2,1", "1,2"}) {
    auto says = [](const char* why, auto end) { return [=] { say_last_words(why), end(); }; };
    expect_told_how({"exit", says("ValueError: a bad batch", [] { exit(1); }), "exited with 1 after ValueError: a bad batch;", hosts});
    expect_told_how({"destroy", says("a\033[1mb", [] { distributed::destroy_process_group(), _exit(0); }), "left the group after a?[1mb;", hosts});
  }
}

}  // namespace
}  // namespace unisono::testing
