// Ranks that come late or never: who waited is told who was missing and how far it had come, in time; whoever is merely late
// is waited for. Stopped processes: deadline_stop_test.cpp.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/calls.hpp"
#include "tests/support/children.hpp"
#include "tests/support/outcomes.hpp"

namespace unisono::testing {
namespace {

constexpr double deadline_s = 0.5;

// Runs the body as processes with room and as threads that are crowded, or every way in a full run, with outcomes of its
// own each time.
void play(int size, int rounds, const std::function<void(TestWorld&, const Outcomes&)>& body,
          const std::function<void(const Outcomes&)>& check) {
  for (int64_t cores : {0, 1})
    for (Kind kind : {Kind::threads, Kind::processes}) {
      if (kind == (cores == 0 ? Kind::threads : Kind::processes) && !full_run()) continue;
      if (kind == Kind::processes && under_thread_sanitizer()) continue;
      SCOPED_TRACE(fmt::format("{} ranks as {}, UNISONO_CORES={}", size, kind == Kind::threads ? "threads" : "processes", cores));
      Outcomes outcomes(size, rounds);
      for_each_world(ranks(size).with(kind).with([&](Settings& settings) { settings.cores = cores; }), [&](TestWorld& world) {
        body(world, outcomes);
        expect_works(world);
      });
      check(outcomes);
    }
}

void await_end(const Outcomes& outcomes, const std::vector<int>& ranks, int round = 0) {
  for (int rank : ranks) EXPECT_TRUE(await([&] { return outcomes.of(rank, round).was_made(); }));
}

void expect_gave_up(const Outcomes& outcomes, int rank, int round, const std::vector<std::string>& words) {
  const Outcome& outcome = outcomes.of(rank, round);
  EXPECT_EQ(outcome.code, ErrorCode::timeout) << "rank " << rank << ": " << outcome.text();
  for (const std::string& word : words)
    EXPECT_NE(outcome.text().find(numbered(word)), std::string::npos) << outcome.text() << "\nshould say " << numbered(word);
  EXPECT_LT(outcome.took_s(), deadline_s + 1) << outcome.text();
}

TEST(Deadline, a_rank_that_never_comes_is_named_with_its_last_call_by_all_who_waited) {
  play(
      4, 2,
      [](TestWorld& world, const Outcomes& outcomes) {
        GroupHandle group = distributed::new_group({0, 1, 2, 3}, {.timeout_s = deadline_s, .name = "waiting"});
        Scratch scratch;
        for (int call = 0; call < 6; ++call) make_call(group, scratch, {});
        Scratch never;
        if (world.rank() == 2) await_end(outcomes, {0, 1, 3});
        outcomes.note(world.rank(), [&] { make_call(group, never, {}); });
        outcomes.note(world.rank(), 1, [&] { make_call(group, never, {.kind = Collective::barrier}); });
      },
      [](const Outcomes& outcomes) {
        double longest_s = 0;
        for (int rank : {0, 1, 3}) {
          expect_gave_up(outcomes, rank, 0, {"\"waiting\"", "call #7 all_reduce float32[8] sum", "rank 2 has not entered call #7 (last finished call #6)"});
          longest_s = std::max(longest_s, outcomes.of(rank).took_s());
        }
        EXPECT_GE(longest_s, deadline_s);
        // The group is broken for good, also for the rank that came too late, and everybody says the same first cause.
        for (int rank = 0; rank < 4; ++rank) {
          expect_gave_up(outcomes, rank, 1, {"rank 2 has not entered call #7 (last finished call #6)"});
          EXPECT_LT(outcomes.of(rank, 1).took_s(), 0.5);
        }
        EXPECT_EQ(outcomes.of(2).code, ErrorCode::timeout) << outcomes.of(2).text();
      });
}

// Whether a rank's result depends on what rank 1 gives. The root is rank 0.
bool needs_rank_1(Collective kind, int rank) {
  switch (kind) {
    case Collective::broadcast:
    case Collective::scatter: return false;
    case Collective::reduce:
    case Collective::gather: return rank == 0;
    case Collective::scan:
    case Collective::exscan: return rank > 1;
    default: return true;
  }
}

TEST(Deadline, holds_for_every_collective) {
  const auto kinds = all_collectives();
  play(
      3, static_cast<int>(kinds.size()),
      [&](TestWorld& world, const Outcomes& outcomes) {
        std::vector<GroupHandle> groups;
        std::deque<Scratch> scratches(kinds.size());
        std::vector<WorkPtr> works;
        for (Collective kind : kinds) groups.push_back(distributed::new_group({0, 1, 2}, {.timeout_s = deadline_s, .name = std::string(name_of(kind))}));
        if (world.rank() == 1) return await_end(outcomes, {0, 2}, outcomes.rounds() - 1);
        for (size_t index = 0; index < kinds.size(); ++index)
          works.push_back(make_call(groups[index], scratches[index], {.kind = kinds[index], .async_op = true}));
        const int64_t entered_ns = now_ns();
        for (size_t index = 0; index < kinds.size(); ++index) {
          outcomes.note(world.rank(), static_cast<int>(index), [&] { works[index]->wait(); });
          outcomes.of(world.rank(), static_cast<int>(index)).entered_ns = entered_ns;
        }
      },
      [&](const Outcomes& outcomes) {
        for (int round = 0; round < outcomes.rounds(); ++round)
          for (int rank : {0, 2}) {
            const Collective kind = kinds[static_cast<size_t>(round)];
            if (spans_hosts() && !needs_rank_1(kind, rank) && outcomes.of(rank, round).code == ErrorCode::ok) continue;
            expect_gave_up(outcomes, rank, round, {std::string(name_of(kind)), "rank 1 has not entered call #1 (last finished call #0)"});
          }
      });
}

TEST(Deadline, of_one_call_is_its_own_and_frees_those_who_gave_it_more) {
  play(
      3, 1,
      [](TestWorld& world, const Outcomes& outcomes) {
        GroupHandle group = distributed::new_group({0, 1, 2}, {.timeout_s = 50, .name = "patient"});
        Scratch scratch;
        if (world.rank() == 2) return await_end(outcomes, {0, 1});
        outcomes.note(world.rank(), [&] { make_call(group, scratch, {.timeout_s = world.rank() == 0 ? deadline_s : 40}); });
      },
      [](const Outcomes& outcomes) {
        for (int rank : {0, 1}) expect_gave_up(outcomes, rank, 0, {"\"patient\"", "rank 2 has not entered call #1", "on rank 0"});
      });
}

TEST(Deadline, passed_by_an_asynchronous_call_ends_those_behind_it_too) {
  play(
      2, 3,
      [](TestWorld& world, const Outcomes& outcomes) {
        GroupHandle group = distributed::new_group({0, 1}, {.timeout_s = deadline_s, .name = "queue"});
        std::deque<Scratch> scratches(3);
        std::vector<WorkPtr> works;
        if (world.rank() == 1) return await_end(outcomes, {0}, 2);
        for (Scratch& scratch : scratches) works.push_back(make_call(group, scratch, {.async_op = true}));
        EXPECT_TRUE(await([&] { return works.back()->is_completed(); }));
        for (int call = 0; call < 3; ++call) outcomes.note(0, call, [&] { works[static_cast<size_t>(call)]->wait(); });
      },
      [](const Outcomes& outcomes) {
        for (int call = 0; call < 3; ++call) expect_gave_up(outcomes, 0, call, {"rank 1 has not entered call #1 (last finished call #0)"});
      });
}

// Rank 0 is in the first group and rank 1 in the second; each says what it waits for.
TEST(Deadline, calls_in_swapped_order_on_two_groups_say_what_each_waits_for) {
  play(
      2, 1,
      [](TestWorld& world, const Outcomes& outcomes) {
        GroupHandle one = distributed::new_group({0, 1}, {.timeout_s = deadline_s, .name = "one"});
        GroupHandle other = distributed::new_group({0, 1}, {.timeout_s = deadline_s, .name = "other"});
        Scratch scratch;
        outcomes.note(world.rank(), [&] { make_call(world.rank() == 0 ? one : other, scratch, {}); });
      },
      [](const Outcomes& outcomes) {
        expect_gave_up(outcomes, 0, 0, {"\"one\", call #1 all_reduce", "rank 1 has not entered call #1", " in group \"other\", call #1 all_reduce"});
        expect_gave_up(outcomes, 1, 0, {"\"other\", call #1 all_reduce", "rank 0 has not entered call #1", " in group \"one\", call #1 all_reduce"});
      });
}

TEST(Deadline, is_inherited_by_new_groups_and_by_parts_of_groups) {
  Worlds worlds = ranks(2).with(Kind::threads).with([](Settings& settings) { settings.timeout_s = 33; });
  for_each_world(worlds, [](TestWorld& world) {
    EXPECT_EQ(world.group().group()->timeout_s(), 33);
    EXPECT_EQ(distributed::new_group({0, 1}).group()->timeout_s(), 33);
    GroupHandle shorter = distributed::new_group({0, 1}, {.timeout_s = 22});
    EXPECT_EQ(shorter.group()->timeout_s(), 22);
    EXPECT_EQ(distributed::split_group(shorter, 0).group()->timeout_s(), 22);
    EXPECT_EQ(distributed::split_group(shorter, 0, 0, {.timeout_s = 11}).group()->timeout_s(), 11);
    EXPECT_EQ(distributed::split_group({}, 0).group()->timeout_s(), 33);
  });
}

TEST(Deadline, holds_while_a_group_is_made) {
  play(
      3, 1,
      [](TestWorld& world, const Outcomes& outcomes) {
        if (world.rank() == 2) return await_end(outcomes, {0, 1});
        outcomes.note(world.rank(), [&] { distributed::new_group({0, 1, 2}, {.timeout_s = deadline_s, .name = "half-made"}); });
      },
      [](const Outcomes& outcomes) {
        for (int rank : {0, 1}) expect_gave_up(outcomes, rank, 0, {"\"half-made\"", "[0, 1, 2]", "rank 2 has not come"});
      });
}

TEST(Deadline, a_rank_that_comes_just_in_time_is_waited_for) {
  play(
      3, 1,
      [](TestWorld& world, const Outcomes& outcomes) {
        GroupHandle group = distributed::new_group({0, 1, 2}, {.timeout_s = 1.0, .name = "just in time"});
        const int64_t started_ns = now_ns();
        if (world.rank() == 1) { EXPECT_TRUE(await([&] { return static_cast<double>(now_ns() - started_ns) * 1e-9 > 0.6; })); }
        outcomes.note(world.rank(), [&] { expect_works(world, group); });
      },
      [](const Outcomes& outcomes) {
        for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(outcomes.of(rank).code, ErrorCode::ok) << outcomes.of(rank).text();
      });
}

// The late rank comes once both others have said, on standard error, whom they wait for.
TEST(Deadline, a_straggler_is_named_in_a_warning_before_the_deadline) {
  if (under_thread_sanitizer()) GTEST_SKIP() << "reads what processes write";
  for (int64_t cores : {0, 1}) {
    SharedArray<std::atomic<int>> warned(1);
    WorldChoice choice{.size = 3};
    choice.settings.warn_after_s = 0.1;
    choice.settings.cores = cores;
    Children children(3, [&](int rank) {
      as_rank(rank, choice, [&](TestWorld& world) {
        GroupHandle group = distributed::new_group({0, 1, 2}, {.name = "slow"});
        Scratch scratch;
        make_call(group, scratch, {});
        if (rank == 1) { EXPECT_TRUE(await([&] { return warned[0] == 1; })); }
        expect_works(world, group);
      });
    });
    const std::string names = numbered("rank 1 has not entered call #2 (last finished call #1)");
    for (int rank : {0, 2}) children.await_output(rank, names);
    warned[0] = 1;
    std::vector<Ending> endings = children.wait();
    expect_all_succeeded(endings);
    for (int rank : {0, 2}) {
      const std::string& output = endings[static_cast<size_t>(rank)].output;
      const std::string start = numbered(fmt::format("unisono warning rank {}: group \"slow\", call #2 all_reduce int32[3] sum has waited 0.1 s: ", rank));
      EXPECT_EQ(output.find(start), 0u) << output;
      EXPECT_EQ(output.find('\n'), output.size() - 1) << "one line: " << output;
    }
    EXPECT_EQ(endings[1].output, "");
  }
}

}  // namespace
}  // namespace unisono::testing
