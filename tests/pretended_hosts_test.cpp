// Groups that span pretended hosts: every collective on several layouts, letters, and what goes wrong between hosts: calls that differ,
// refusals, deaths, deadlines, aborts, members that leave. Every other live test runs on them in the rough tier (modes l-…).
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>

#include "tests/support/calls.hpp"
#include "tests/support/children.hpp"
#include "tests/support/outcomes.hpp"
#include "tests/support/scale.hpp"
#include "tests/support/test_world.hpp"
#include "tests/support/trial_lists.hpp"

namespace unisono::testing {
namespace {

Worlds on_hosts(const std::string& layout, int size, const std::string& streams = "rings") {
  return ranks(size).with([&](Settings& settings) {
    settings.pretend_hosts = layout;
    settings.test_streams = streams;
  });
}

struct Layout {
  std::string text;
  int ranks;
};

std::vector<Layout> layouts() {
  std::vector<Layout> some = {{"2,2", 4}, {"3,1", 4}};
  if (scale() != Scale::full) return some;
  some.insert(some.end(), {{"1,1", 2}, {"1,2,1", 4}, {"0/1/0/1", 4}, {"2,3", 5}, {"2x4", 8}});
  return some;
}

class PretendedHosts : public ::testing::TestWithParam<Layout> {};

TEST_P(PretendedHosts, carry_every_collective) {
  const auto& [layout, size] = GetParam();
  const int every = scale() == Scale::full ? 1 : scale() == Scale::normal ? 3 : 17;
  perform_all(trials_of_sizes({.ranks = size, .largest_bytes = 600'000, .every = every}), on_hosts(layout, size));
  perform_all(trials_of_numbers({.ranks = size, .every = 5 * every}, 29), on_hosts(layout, size));
}

TEST_P(PretendedHosts, carry_asynchronous_calls) {
  const auto& [layout, size] = GetParam();
  std::vector<Trial> trials = trials_of_sizes({.ranks = size, .largest_bytes = 200'000, .every = scale() == Scale::full ? 2 : 11});
  for (Trial& trial : trials) trial.async_op = true;
  perform_all(trials, on_hosts(layout, size));
}

TEST_P(PretendedHosts, carry_every_collective_over_small_buffers_and_rough_ways) {
  const auto& [layout, size] = GetParam();
  for (const char* streams : {"sockets:4K", "rough:3"}) {
    SCOPED_TRACE(streams);
    const int every = scale() == Scale::full ? 7 : 41;
    perform_all(trials_of_sizes({.ranks = size, .largest_bytes = 600'000, .every = every}), on_hosts(layout, size, streams));
  }
}

TEST_P(PretendedHosts, carry_letters_between_all_ranks) {
  const auto& [layout, size] = GetParam();
  for_each_world(on_hosts(layout, size), [size = size](TestWorld& world) {
    for (size_t count : {size_t{0}, size_t{1}, size_t{20'000}, size_t{300'000}}) {
      std::vector<std::vector<int32_t>> given(static_cast<size_t>(size)), taken(static_cast<size_t>(size));
      std::vector<WorkPtr> works;
      for (int peer = 0; peer < size; ++peer) {
        if (peer == world.rank()) continue;
        auto &out = given[static_cast<size_t>(peer)], &in = taken[static_cast<size_t>(peer)];
        out.assign(count, 100 * world.rank() + peer);
        in.assign(count, -1);
        works.push_back(distributed::isend(view(out), peer));
        works.push_back(distributed::irecv(view(in), peer));
      }
      for (const WorkPtr& work : works) work->wait();
      for (int peer = 0; peer < size; ++peer)
        if (peer != world.rank()) { EXPECT_EQ(taken[static_cast<size_t>(peer)], std::vector<int32_t>(count, 100 * peer + world.rank())); }
    }
  });
}

// Fewer ranks than a host has, ranks of several, in another order than the world's; and within one host.
TEST_P(PretendedHosts, may_be_covered_in_part_by_a_group) {
  const auto& [layout, size] = GetParam();
  for_each_world(on_hosts(layout, size), [size = size](TestWorld& world) {
    for (const std::vector<int>& members : {std::vector<int>{size - 1, 0}, std::vector<int>{0, 1}, std::vector<int>{size - 1, 1, 0}}) {
      if (std::set<int>(members.begin(), members.end()).size() != members.size()) continue;
      GroupHandle group = distributed::new_group(members);
      if (std::find(members.begin(), members.end(), world.rank()) != members.end()) expect_works(world, group);
    }
    expect_works(world);
  });
}

INSTANTIATE_TEST_SUITE_P(Of, PretendedHosts, ::testing::ValuesIn(layouts()), [](const auto& info) {
  std::string name = info.param.text;
  for (char& letter : name)
    if (letter == ',' || letter == '/') letter = '_';
  return name;
});

int mapped_arenas() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find("memfd:unisono") != std::string::npos;
  return count;
}

TEST(PretendedHosts, map_no_arena_of_another) {
  for_each_world(on_hosts("3,1", 4).with(Kind::processes), [](TestWorld& world) {
    EXPECT_EQ(mapped_arenas(), world.rank() < 3 ? 3 : 1);
    expect_works(world);
  });
}

struct Faults {
  std::string layout = "2,2";
  int ranks = 4;
  double timeout_s = 30;
};

// What each rank says of its calls, made after one that works. Every rank then makes a group anew, which works.
Outcomes outcomes_of(const Faults& faults, const std::function<void(TestWorld&)>& call) {
  Outcomes outcomes(faults.ranks, 2);
  SharedArray<std::atomic<int>> ready(1);
  const Kind kind = under_thread_sanitizer() ? Kind::threads : Kind::processes;  // it does not see into other processes
  for_each_world(on_hosts(faults.layout, faults.ranks).with(kind).with([&](Settings& settings) { settings.timeout_s = faults.timeout_s; }),
                 [&](TestWorld& world) {
                   expect_works(world);
                   ready[0] += 1;
                   EXPECT_TRUE(await([&] { return ready[0] == faults.ranks; }));  // nobody is in that call any more
                   outcomes.note(world.rank(), 0, [&] { call(world); });
                   outcomes.note(world.rank(), 1, [&] { distributed::barrier(); });
                   std::vector<int> everybody;
                   for (int rank = 0; rank < faults.ranks; ++rank) everybody.push_back(rank);
                   auto again = world.world().create_group("anew", everybody);
                   ASSERT_TRUE(again.ok()) << again.status().text();
                   expect_works(world, GroupHandle(*again));
                 });
  return outcomes;
}

void expect_everywhere(const Outcomes& outcomes, ErrorCode code, const std::vector<std::string>& words) {
  for (int rank = 0; rank < outcomes.ranks(); ++rank) {
    const Outcome& first = outcomes.of(rank).code != ErrorCode::ok ? outcomes.of(rank) : outcomes.of(rank, 1);  // who only gives may be gone by then
    EXPECT_EQ(first.code, code) << "rank " << rank << ": " << first.text();
    for (const std::string& word : words)
      EXPECT_NE(first.text().find(word), std::string::npos) << "rank " << rank << ": " << first.text() << "\nshould say " << word;
  }
}

TEST(BetweenHosts, calls_that_differ_break_the_group_and_both_are_named) {
  const Outcomes outcomes = outcomes_of({}, [](TestWorld& world) {
    std::vector<float> data(world.rank() < 2 ? 10 : 11);
    distributed::all_reduce(view(data));
  });
  expect_everywhere(outcomes, ErrorCode::mismatch, {"called all_reduce float32[10] sum", "called all_reduce float32[11] sum", "spans hosts and is broken"});
}

TEST(BetweenHosts, calls_of_different_kinds_are_told_apart) {
  for (Collective kind : {Collective::all_gather, Collective::broadcast, Collective::barrier, Collective::scan, Collective::all_to_all}) {
    SCOPED_TRACE(name_of(kind));
    const Outcomes outcomes = outcomes_of({.timeout_s = 5}, [kind](TestWorld& world) {
      Scratch scratch;
      make_call(world.group(), scratch, {.kind = world.rank() == 3 ? kind : Collective::all_reduce, .root = 3});
    });
    expect_everywhere(outcomes, ErrorCode::mismatch, {"called all_reduce", fmt::format("called {}", name_of(kind))});
  }
}

// Each waits for the other, and neither has sent anything: what they say while they wait tells.
TEST(BetweenHosts, calls_in_which_nobody_sends_are_told_apart) {
  const Outcomes outcomes = outcomes_of({.layout = "1,1", .ranks = 2}, [](TestWorld& world) {
    std::vector<float> data(10);
    distributed::broadcast(view(data), {.src = 1 - world.rank()});
  });
  expect_everywhere(outcomes, ErrorCode::mismatch, {"root: rank 0 = 1, rank 1 = 0"});
  EXPECT_LT(outcomes.took_s(), 2);
}

TEST(BetweenHosts, a_refusal_breaks_the_group_and_says_why) {
  const Outcomes outcomes = outcomes_of({}, [](TestWorld& world) {
    std::vector<float> data(10);
    distributed::broadcast(view(data), {.src = world.rank() == 3 ? 17 : 0});
  });
  EXPECT_EQ(outcomes.of(3).code, ErrorCode::argument) << outcomes.of(3).text();
  for (int rank = 0; rank < 3; ++rank) {
    const Outcome& told = outcomes.of(rank).code != ErrorCode::ok ? outcomes.of(rank) : outcomes.of(rank, 1);
    EXPECT_EQ(told.code, ErrorCode::peer_argument) << told.text();
    EXPECT_NE(told.text().find("rank 3 refused its broadcast"), std::string::npos) << told.text();
  }
}

TEST(BetweenHosts, an_abort_frees_everybody) {
  const Outcomes outcomes = outcomes_of({}, [](TestWorld& world) {
    std::vector<float> data(10);
    if (world.rank() == 2) throw_if_error(world.world().world_group()->abort("enough"));
    distributed::all_reduce(view(data));
  });
  expect_everywhere(outcomes, ErrorCode::revoked, {"rank 2 aborted group", "enough"});
}

TEST(BetweenHosts, a_deadline_names_who_is_missing_on_another_host) {
  Outcomes outcomes(4);
  SharedArray<std::atomic<int>> told(1);
  Settings settings = on_hosts("2,2", 4).settings;
  const WorldChoice choice{.size = 4, .settings = settings};
  Children children(4, [&](int rank) {
    as_rank(rank, choice, [&](TestWorld& world) {
      expect_works(world);
      if (rank == 3) {
        EXPECT_TRUE(await([&] { return told[0] == 3; }));
        return;
      }
      std::vector<float> data(10);
      outcomes.note(rank, [&] { distributed::all_reduce(view(data), {.timeout_s = 1.5}); });
      told[0] += 1;
    });
  });
  for (const Ending& ending : children.wait()) EXPECT_TRUE(ending.succeeded()) << ending.output;
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(outcomes.of(rank).code, ErrorCode::timeout) << outcomes.of(rank).text();
    EXPECT_NE(outcomes.of(rank).text().find(numbered("rank 3 has not entered call #2 (last finished call #1)")), std::string::npos)
        << outcomes.of(rank).text();
  }
}

// It cannot say anything; its mate on that host reads in its memory how far it is.
TEST(BetweenHosts, a_deadline_says_of_a_stopped_rank_what_its_mate_sees) {
  if (under_thread_sanitizer()) GTEST_SKIP() << "stops processes";
  Outcomes outcomes(4);
  SharedArray<std::atomic<int>> step(1);
  const WorldChoice choice{.size = 4, .settings = on_hosts("2,2", 4).settings};
  Children children(4, [&](int rank) {
    as_rank(rank, choice, [&](TestWorld& world) {
      expect_works(world);
      step[0] += 1;
      EXPECT_TRUE(await([&] { return step[0] >= 10; }));
      std::vector<float> data(10);
      if (rank != 3) outcomes.note(rank, [&] { distributed::all_reduce(view(data), {.timeout_s = rank == 2 ? 20.0 : 5.0}); });  // its mate is not the first to say so
      step[0] += 1;
      EXPECT_TRUE(await([&] { return step[0] >= 14; }));
    });
  });
  EXPECT_TRUE(await([&] { return step[0] == 4; }));
  children.signal(3, SIGSTOP);
  children.await_stopped(3);
  step[0] = 10;
  EXPECT_TRUE(await([&] { return step[0] == 13; }));
  children.signal(3, SIGCONT);
  for (const Ending& ending : children.wait()) EXPECT_TRUE(ending.succeeded()) << ending.output;
  for (int rank : {0, 1, 2})
    expect_parts(outcomes.of(rank), ErrorCode::timeout, {numbered("rank 3 has not entered call #2 (last finished call #1)"), "it has not run for"});
}

// Whoever watched a rank on its own host tells the others how it ended; of a host with nobody left it is only known that it is silent.
void expect_death_is_told(const std::string& layout, int ranks, int victim, const std::string& how) {
  SCOPED_TRACE(fmt::format("rank {} of {}", victim, layout));
  Outcomes outcomes(ranks, 2);
  SharedArray<std::atomic<int>> ready(1);
  const WorldChoice choice{.size = ranks, .settings = on_hosts(layout, ranks).settings};
  Children children(ranks, [&](int rank) {
    as_rank(rank, choice, [&](TestWorld& world) {
      expect_works(world);
      ready[0] += 1;
      std::vector<float> data(1000);
      if (rank == victim) pause();
      outcomes.note(rank, 0, [&] { distributed::all_reduce(view(data)); });
      outcomes.note(rank, 1, [&] { distributed::all_reduce(view(data)); });
    });
  });
  EXPECT_TRUE(await([&] { return ready[0] == ranks; }));
  for (int rank = 0; rank < ranks; ++rank)
    if (rank != victim) children.await_asleep(rank);
  const int64_t killed_ns = children.kill_together({victim});
  for (const Ending& ending : children.wait()) EXPECT_TRUE(ending.succeeded() || ending.killed_by(SIGKILL)) << ending.output;
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank == victim) continue;
    for (int round : {0, 1}) {
      EXPECT_EQ(outcomes.of(rank, round).code, ErrorCode::peer_lost) << outcomes.of(rank, round).text();
      EXPECT_EQ(outcomes.of(rank, round).peer, victim);
      EXPECT_NE(outcomes.of(rank, round).text().find(how), std::string::npos) << outcomes.of(rank, round).text();
    }
    EXPECT_LT(static_cast<double>(outcomes.of(rank).ended_ns - killed_ns) * 1e-9, 1.0) << rank;
  }
}

TEST(BetweenHosts, a_death_is_told_to_all) {
  for (int victim = 0; victim < 4; ++victim) expect_death_is_told("2,2", 4, victim, "was killed by signal 9");
  expect_death_is_told("3,1", 4, 1, "was killed by signal 9");
  expect_death_is_told("3,1", 4, 3, "is silent");
  expect_death_is_told("1,1", 2, 0, "is silent");
}

// Who could tell how rank 1 ended is stopped, and is waited for no longer than patience lasts. It is no member, so nobody needs it.
TEST(BetweenHosts, a_death_that_a_stopped_rank_alone_has_seen_is_told_as_silence) {
  if (under_thread_sanitizer()) GTEST_SKIP() << "kills processes";
  constexpr double promised_s = 3;
  Outcomes outcomes(3);
  SharedArray<std::atomic<int>> ready(1);
  const WorldChoice choice{.size = 3, .settings = on_hosts("2,1", 3).settings};
  Children children(3, [&](int rank) {
    as_rank(rank, choice, [&](TestWorld& world) {
      expect_works(world);
      const GroupHandle pair = distributed::new_group({1, 2});
      ready[0] += 1;
      if (rank == 1) pause();
      if (rank == 2) outcomes.note(rank, [&] { distributed::barrier({.group = pair}); });
      if (rank == 0) { EXPECT_TRUE(await([&] { return outcomes.of(2).was_made(); })); }
    });
  });
  EXPECT_TRUE(await([&] { return ready[0] == 3; }));
  children.await_asleep(2);
  children.signal(0, SIGSTOP);
  children.await_stopped(0);
  const int64_t killed_ns = children.kill_together({1});
  EXPECT_TRUE(await([&] { return outcomes.of(2).was_made(); }));
  children.signal(0, SIGCONT);
  for (const Ending& ending : children.wait()) EXPECT_TRUE(ending.succeeded() || ending.killed_by(SIGKILL)) << ending.output;
  EXPECT_EQ(outcomes.of(2).code, ErrorCode::peer_lost) << outcomes.of(2).text();
  EXPECT_EQ(outcomes.of(2).peer, 1);
  EXPECT_NE(outcomes.of(2).text().find("rank 1 (pid"), std::string::npos) << outcomes.of(2).text();
  EXPECT_EQ(outcomes.of(2).text().find(" on 2,1)"), std::string::npos) << "the layout is no machine's name: " << outcomes.of(2).text();
  EXPECT_NE(outcomes.of(2).text().find("is silent"), std::string::npos) << outcomes.of(2).text();
  EXPECT_LT(static_cast<double>(outcomes.of(2).ended_ns - killed_ns) * 1e-9, promised_s);
}

// A root that gives returns at once, and may be gone before the others have come.
TEST(BetweenHosts, what_was_given_before_leaving_arrives) {
  for_each_world(on_hosts("1,1", 2), [](TestWorld& world) {
    for (int round = 0; round < 20; ++round) {
      GroupHandle group = distributed::new_group({0, 1});
      std::vector<int32_t> data(30'000, world.rank() == 0 ? round : -1);
      distributed::broadcast(view(data), {.src = 0, .group = group});
      EXPECT_EQ(data, std::vector<int32_t>(30'000, round));
      distributed::destroy_process_group(group);
    }
  });
}

// As within a host: whoever sends a short letter need not wait for its receiver, whichever of the two is the lower rank.
TEST(BetweenHosts, a_short_letter_leaves_before_its_receiver_asks_for_it) {
  for_each_world(on_hosts("1,1", 2), [](TestWorld& world) {
    for (int sender : {0, 1}) {
      std::vector<int32_t> data(10, world.rank() == sender ? 7 : -1);
      if (world.rank() == sender) distributed::send(view(data), 1 - sender);
      distributed::barrier();
      if (world.rank() != sender) distributed::recv(view(data), sender);
      EXPECT_EQ(data, std::vector<int32_t>(10, 7));
    }
  });
}

// The lane of a group that was given up is another's when the other rank tells, once more, that it gave up.
TEST(BetweenHosts, news_of_a_group_that_was_given_up_concerns_no_other) {
  SharedArray<std::atomic<int>> step(1);
  const WorldChoice choice{.size = 2, .settings = on_hosts("1,1", 2).settings};
  Children children(2, [&](int rank) {
    as_rank(rank, choice, [&](TestWorld& world) {
      EXPECT_FALSE(world.world().create_group("differs", {0, 1}, {.run_ahead = 1 + rank}).ok());
      distributed::barrier();
      step[0] += 1;
      if (rank == 1) { EXPECT_TRUE(await([&] { return step[0] == 3; })); }
      auto made = world.world().create_group("next", {0, 1}, {.run_ahead = 1});
      ASSERT_TRUE(made.ok()) << made.status().text();
      EXPECT_EQ((*made)->survivors(), (std::vector<int>{0, 1}));
      expect_works(world, GroupHandle(*made));
    });
  });
  EXPECT_TRUE(await([&] { return step[0] == 2; }));
  children.await_asleep(0);  // it waits for the other to make it
  step[0] = 3;
  for (const Ending& ending : children.wait()) EXPECT_TRUE(ending.succeeded()) << ending.output;
}

// Within a host nothing has changed: a group there is usable after calls that differ.
TEST(WithinAHost, a_group_is_usable_after_calls_that_differ) {
  for_each_world(on_hosts("2,1", 3), [](TestWorld& world) {
    GroupHandle mates = distributed::new_group({0, 1});
    if (world.rank() == 2) return;
    std::vector<float> data(world.rank() == 0 ? 10 : 11);
    EXPECT_THROW(distributed::all_reduce(view(data), {.group = mates}), MismatchError);
    expect_works(world, mates);
  });
}

}  // namespace
}  // namespace unisono::testing
