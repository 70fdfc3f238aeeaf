// Agreeing and shrinking between hosts, which are pretended: one answer and one world for all who are left, whoever dies when, and none for those who may be the smaller side; in the time
// that docs/failure_model.md gives.
// The rules behind it are tortured in torture_ballots_test; real machines are in machines_survivors_test.
#include <gtest/gtest.h>

#include "base/at_end.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/losses.hpp"
#include "tests/support/outcomes.hpp"
#include "unisono/distributed.hpp"

namespace unisono::testing {
namespace {

constexpr double decided_within_s = 1;

// By one who knows what there is to know.
template <typename Decide>
auto soon(Decide decide) {
  const AtEnd judge([from_ns = now_ns()] { EXPECT_LT(seconds_between(from_ns, now_ns()), decided_within_s); });
  return decide();
}

WorldChoice world_on(const std::string& hosts, int size, bool minority = false) {
  WorldChoice choice{.size = size, .settings = Worlds::test_settings()};
  choice.settings.pretend_hosts = hosts;
  choice.settings.minority = minority;
  return choice;
}

Worlds on_hosts(const std::string& hosts, int size) {
  Worlds worlds = ranks(size);
  worlds.settings.pretend_hosts = hosts;
  return worlds;
}

void expect_sum_of_ones(const GroupHandle& group, int members) {
  std::vector<int32_t> one(100'000, 1);
  distributed::all_reduce(view(one), {.group = group});
  EXPECT_EQ(one.front(), members);
  EXPECT_EQ(one.back(), members);
}

TEST(AgreeBetweenHosts, is_true_only_when_everybody_says_so) {
  for (const char* hosts : {"1,1", "2,1", "1,2,2", "0/1/0/1/2", "1,1,1,1,1"}) {
    const int size = *Hosts::ranks_in("hosts", hosts);
    for_each_world(on_hosts(hosts, size), [](TestWorld& world) {
      for (int round = 0; round < 20; ++round) {
        EXPECT_TRUE(distributed::agree(true));
        EXPECT_EQ(distributed::agree(world.rank() != round % world.ranks()), false);
      }
    });
  }
}

TEST(AgreeBetweenHosts, names_who_did_not_come_and_breaks_nothing) {
  for_each_world(on_hosts("2,2", 4), [](TestWorld& world) {
    if (world.rank() == 0) expect_error<TimeoutError>({"ranks 1-3 did not come"}, [] { distributed::agree(true, {}, 0.4); });
    distributed::barrier();
    if (world.rank() != 0) {
      EXPECT_TRUE(distributed::agree(true)) << "rank 0 has voted already";
    }
    distributed::barrier();
    if (world.rank() == 0) {
      EXPECT_TRUE(distributed::agree(true)) << "the same question, which the others have answered meanwhile";
    }
    EXPECT_FALSE(distributed::agree(world.rank() != 3));
    expect_works(world);
  });
}

// Ranks of every host die, each at a round of its own, before or after it has voted. Each host keeps one who can testify.
TEST(AgreeBetweenHosts, leaves_one_answer_to_the_survivors) {
  constexpr int size = 6, rounds = 24;
  for (const char* hosts : {"3,3", "2,2,2", "0/1/0/1/0/1"}) {
    for (int scene = 0; scene < 4; ++scene) {
      SharedArray<int> answers(size * rounds), sums(size);
      const Outcomes outcomes(size, rounds);
      const Hosts layout = *Hosts::parse("hosts", hosts, size);
      auto is_victim = [&](int rank) { return layout.ranks_on(layout.of(rank)).back() == rank; };
      auto endings = run_processes(size, world_on(hosts, size).settings, [&](TestWorld& world) {
        const int me = world.rank();
        for (int round = 0; round < rounds; ++round) {
          const bool dies = is_victim(me) && round == 3 * me + scene;
          if (dies && scene % 2 == 0) raise(SIGKILL);
          const Outcome& agreed = outcomes.note(me, round, [&] { answers[me * rounds + round] = distributed::agree((round + me) % (size + 1) != 0) ? 2 : 1; });
          EXPECT_EQ(agreed.code, ErrorCode::ok) << agreed.text();
          if (dies) raise(SIGKILL);
        }
        const GroupHandle rest = soon([] { return distributed::shrink_group(); });
        sums[me] = distributed::get_world_size(rest);
        expect_sum_of_ones(rest, sums[me]);
      });
      for (int round = 0; round < rounds; ++round) EXPECT_LT(outcomes.took_s(round), decided_within_s) << "round " << round << ", scene " << scene << " on " << hosts;
      int survivors = 0;
      for (int rank = 0; rank < size; ++rank) survivors += !is_victim(rank);
      for (int rank = 0; rank < size; ++rank) {
        if (!is_victim(rank)) {
          EXPECT_TRUE(endings[static_cast<size_t>(rank)].succeeded()) << endings[static_cast<size_t>(rank)].output;
          EXPECT_EQ(sums[rank], survivors) << "rank " << rank << " on " << hosts;
        }
        for (int round = 0; round < rounds; ++round)
          if (const int answer = answers[rank * rounds + round]; answer != 0) {
            EXPECT_EQ(answer, answers[round]) << "rank " << rank << ", round " << round << ", scene " << scene << " on " << hosts;
          }
      }
    }
  }
}

// All of `victims` are killed together; then those who are left shrink.
struct LossScene {
  std::string hosts;
  std::vector<int> victims;
  bool minority = false;
};

template <typename Survive>
void lose(const LossScene& scene, Survive survive) {
  const double told_within_s = scene.victims.size() > 1 ? 2 : 1;
  const int size = *Hosts::ranks_in("hosts", scene.hosts);
  const WorldChoice choice = world_on(scene.hosts, size, scene.minority);
  const Outcomes outcomes(size);
  SharedArray<std::atomic<int>> ready(1);
  Children children(size, [&](int rank) {
    as_rank(rank, choice, [&](TestWorld& world) {
      expect_works(world);
      ready[0] += 1;
      if (std::count(scene.victims.begin(), scene.victims.end(), rank) > 0) await([] { return false; });
      outcomes.note(rank, [] { distributed::barrier(); });
      survive(world);
    });
  });
  EXPECT_TRUE(await([&] { return ready[0] == size; }));
  const int64_t killed_ns = children.kill_together(scene.victims);
  const std::vector<Ending> endings = children.wait();
  for (int rank = 0; rank < size; ++rank)
    if (std::count(scene.victims.begin(), scene.victims.end(), rank) == 0) {
      EXPECT_TRUE(endings[static_cast<size_t>(rank)].succeeded()) << "rank " << rank << " on " << scene.hosts << ": " << endings[static_cast<size_t>(rank)].output;
      expect_lost(outcomes.of(rank), scene.victims);
      EXPECT_LT(seconds_between(killed_ns, outcomes.of(rank).ended_ns), told_within_s) << "rank " << rank << " on " << scene.hosts;
    }
}

TEST(ShrinkBetweenHosts, goes_on_without_a_host_that_nobody_lives_on) {
  for (const LossScene& scene : {LossScene{"2,1,2", {2}}, LossScene{"2,1,2", {0, 1}}, LossScene{"2,2", {2, 3}}, LossScene{"1,1", {1}}}) {
    lose(scene, [&](TestWorld& world) {
      EXPECT_TRUE(soon([] { return distributed::agree(true); }));
      const GroupHandle rest = soon([] { return distributed::shrink_group(); });
      const int left = world.ranks() - static_cast<int>(scene.victims.size());
      EXPECT_EQ(distributed::get_world_size(rest), left);
      expect_sum_of_ones(rest, left);
    });
  }
}

// Of the three ranks of a host two die, which the third testifies before it dies, too: then the other host is the larger part of those who may live.
TEST(ShrinkBetweenHosts, counts_as_dead_whom_somebody_on_their_host_has_testified_to_be) {
  const WorldChoice choice = world_on("3,2", 5);
  SharedArray<std::atomic<int>> ready(2);
  Children children(5, [&](int rank) {
    as_rank(rank, choice, [&](TestWorld& world) {
      expect_works(world);
      ready[0] += 1;
      if (rank < 3) await([] { return false; });
      EXPECT_THROW(distributed::barrier(), PeerLostError);
      EXPECT_TRUE(await([&] { return distributed::failed_ranks() == std::vector<int>{1, 2}; }));
      ready[1] += 1;
      EXPECT_TRUE(await([&] { return distributed::failed_ranks() == std::vector<int>{0, 1, 2}; }));
      expect_sum_of_ones(soon([] { return distributed::shrink_group(); }), 2);
    });
  });
  EXPECT_TRUE(await([&] { return ready[0] == 5; }));
  children.kill_together({1, 2});
  EXPECT_TRUE(await([&] { return ready[1] == 2; }));
  children.kill(0);
  const std::vector<Ending> endings = children.wait();
  for (size_t rank : {3u, 4u}) EXPECT_TRUE(endings[rank].succeeded()) << endings[rank].output;
}

TEST(ShrinkBetweenHosts, is_refused_to_who_may_be_the_smaller_side) {
  for (const LossScene& scene : {LossScene{"2,2", {0, 1}}, LossScene{"1,1", {0}}, LossScene{"1,1,2", {2, 3, 0}}})
    lose(scene, [](TestWorld&) {
      const std::vector<std::string> why = {"smaller side", "UNISONO_MINORITY"};
      soon([&] { expect_error<RevokedError>(why, [] { distributed::shrink_group(); }); });
      soon([&] { expect_error<RevokedError>(why, [] { distributed::agree(true); }); });
    });
}

TEST(ShrinkBetweenHosts, is_allowed_to_the_smaller_side_by_a_setting) {
  lose({"2,2", {0, 1}, true}, [](TestWorld&) {
    EXPECT_TRUE(soon([] { return distributed::agree(true); }));
    expect_sum_of_ones(soon([] { return distributed::shrink_group(); }), 2);
  });
}

TEST(AgreeBetweenHosts, counts_who_left_in_good_order_as_gone) {
  for (const char* hosts : {"1,1", "2,1"}) {
    const int size = *Hosts::ranks_in("hosts", hosts);
    for_each_world(on_hosts(hosts, size), [](TestWorld& world) {
      const GroupHandle all = distributed::new_group({}, {.name = "all"});
      distributed::barrier();
      if (world.rank() != world.ranks() - 1) return distributed::destroy_process_group(all);
      EXPECT_TRUE(distributed::agree(true, all)) << "all others have left, and said so";
      EXPECT_FALSE(distributed::agree(false, all));
    });
  }
}

// Who is left out may not make a world of its own once the others have left the old group, and with them their weight.
TEST(ShrinkBetweenHosts, leaves_no_second_world_to_who_was_left_out) {
  for (const char* hosts : {"3", "1,2", "1,1,1"}) {
    for_each_world(on_hosts(std::string(hosts) == "3" ? "" : hosts, 3), [](TestWorld& world) {
      const GroupHandle all = distributed::new_group({}, {.name = "all"});
      if (world.rank() != 0) {
        expect_sum_of_ones(distributed::shrink_group({0}, all), 2);
        distributed::destroy_process_group(all);
      }
      distributed::barrier();
      for (int call = 0; call < 3 && world.rank() == 0; ++call) expect_error<RevokedError>({"smaller group without rank 0"}, [&] { distributed::shrink_group({}, all); });
    });
  }
}

// Nobody of the host that proposes first runs, and it lives.
TEST(ShrinkBetweenHosts, leaves_out_whom_it_is_told_to_though_they_are_stopped) {
  const WorldChoice choice = world_on("2,3", 5);
  SharedArray<std::atomic<int>> step(1);
  Children children(5, [&](int rank) {
    as_rank(rank, choice, [&](TestWorld& world) {
      expect_works(world);
      step[0] += 1;
      EXPECT_TRUE(await([&] { return step[0] >= 10; }));
      if (rank < 2) return;
      const GroupHandle rest = distributed::shrink_group({0, 1});
      EXPECT_EQ(distributed::get_process_group_ranks(rest), (std::vector<int>{2, 3, 4}));
      expect_sum_of_ones(rest, 3);
      step[0] += 1;
      EXPECT_TRUE(await([&] { return step[0] >= 20; }));
    });
  });
  EXPECT_TRUE(await([&] { return step[0] == 5; }));
  for (int rank : {0, 1}) {
    children.signal(rank, SIGSTOP);
    children.await_stopped(rank);
  }
  step[0] = 10;
  EXPECT_TRUE(await([&] { return step[0] == 13; }));
  for (int rank : {0, 1}) children.signal(rank, SIGCONT);
  step[0] = 20;
  expect_all_succeeded(children.wait());
}

}  // namespace
}  // namespace unisono::testing
