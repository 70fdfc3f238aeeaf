// Agreeing, shrinking and subgroups: one answer for everybody, also after deaths and on broken groups.
#include <gtest/gtest.h>

#include "tests/support/expect_error.hpp"
#include "tests/support/losses.hpp"
#include "tests/support/outcomes.hpp"
#include "tests/support/test_world.hpp"
#include "unisono/distributed.hpp"

namespace unisono {
namespace {

using testing::as_rank;
using testing::Children;
using testing::expect_error;
using testing::for_each_world;
using testing::Outcomes;
using testing::ranks;
using testing::SharedArray;
using testing::TestWorld;
using testing::WorldChoice;

TEST(Agree, is_true_only_when_everybody_says_so) {
  for_each_world(ranks({1, 2, 3, 5}), [](TestWorld& world) {
    for (int round = 0; round < 40; ++round) {
      EXPECT_TRUE(distributed::agree(true));
      EXPECT_EQ(distributed::agree(world.rank() != round % world.ranks()), false);
      EXPECT_FALSE(distributed::agree(false));
    }
  });
}

TEST(Agree, works_on_groups_and_beside_their_calls) {
  for_each_world(ranks(3), [](TestWorld& world) {
    GroupHandle pair = distributed::new_group({2, 0});
    std::vector<int32_t> data(100'000, 1);
    WorkPtr work = distributed::all_reduce(view(data), {.async_op = true});
    if (pair.is_member()) {
      EXPECT_EQ(distributed::agree(world.rank() == 2, pair), false);
    }
    work->wait();
    EXPECT_EQ(data.back(), 3);
  });
}

TEST(Agree, works_on_a_broken_group) {
  for_each_world(ranks(3), [](TestWorld& world) {
    if (world.rank() == 1) distributed::abort();
    EXPECT_TRUE(distributed::agree(true));
    EXPECT_THROW(distributed::barrier(), RevokedError);
    EXPECT_FALSE(distributed::agree(world.rank() != 2));
  });
}

// A vote that was cast stands, and is asked about until its outcome is learnt: nobody gets ahead of those who come late.
TEST(Agree, names_who_did_not_come_and_breaks_nothing) {
  for_each_world(ranks(3), [](TestWorld& world) {
    if (world.rank() == 0) {
      try {
        distributed::agree(true, {}, 0.05);
        FAIL() << "nobody else had come";
      } catch (const TimeoutError& error) {
        EXPECT_NE(std::string(error.what()).find("ranks 1, 2 did not come"), std::string::npos) << error.what();
      }
      expect_error<StateError>({"has said yes already"}, [] { distributed::agree(false); });
    }
    distributed::barrier();
    if (world.rank() != 0) {
      EXPECT_TRUE(distributed::agree(true)) << "rank 0 has spoken already";
    }
    distributed::barrier();
    if (world.rank() == 0) {
      EXPECT_TRUE(distributed::agree(true)) << "the others have answered meanwhile";
    }
    EXPECT_FALSE(distributed::agree(world.rank() != 1));
    for (int round = 0; round < 3 && world.rank() == 0; ++round) EXPECT_THROW(distributed::agree(false, {}, 0.01), TimeoutError);
    distributed::barrier();
    EXPECT_FALSE(distributed::agree(world.rank() != 0)) << "asked often, and counted once";
    EXPECT_TRUE(distributed::agree(true));
    EXPECT_THROW(distributed::agree(true, {}, -1.0), ArgumentError);
  });
}

// Rank 0 comes early, gives up and comes again while the others come late: they meet in the same vote.
TEST(Agree, shrinking_again_meets_those_who_come_late) {
  for_each_world(ranks(3), [](TestWorld& world) {
    if (world.rank() == 0)
      for (int attempt = 0; attempt < 3; ++attempt)
        expect_error<TimeoutError>({"ranks 1, 2 did not come", "Shrink again"}, [] { distributed::shrink_group({}, {}, {.timeout_s = 0.02}); });
    distributed::barrier();
    const GroupHandle smaller = distributed::shrink_group();
    std::vector<int32_t> one(3, 1);
    distributed::all_reduce(view(one), {.group = smaller});
    EXPECT_EQ(one.front(), 3);
  });
}

class AgreeDeath : public ::testing::Test {
 protected:
  void TearDown() override { traces_.expect_none_left(); }
  testing::Traces traces_;
};

// One rank after the other dies at a moment of its own; those who are left always come to one answer, and shrink.
TEST_F(AgreeDeath, leaves_one_answer_to_the_survivors) {
  constexpr int size = 5, rounds = 30;
  for (int scene = 0; scene < 4; ++scene) {
    SharedArray<int> answers(size * rounds);
    SharedArray<int> sums(size);
    auto endings = testing::run_processes(size, testing::Worlds::test_settings(), [&](TestWorld& world) {
      const int me = world.rank();
      for (int round = 0; round < rounds; ++round) {
        const bool dies = me > 0 && me < size - 1 && round == 7 * me + scene;
        const bool flag = (round + me) % (size + 1) != 0;
        if (dies && scene % 2 == 0) raise(SIGKILL);
        answers[me * rounds + round] = distributed::agree(flag) ? 2 : 1;
        if (dies) raise(SIGKILL);
      }
      std::vector<int32_t> one(3, 1);
      GroupHandle rest = distributed::shrink_group();
      distributed::all_reduce(view(one), {.group = rest});
      sums[me] = one.front();
    });
    for (int round = 0; round < rounds; ++round)
      for (int rank = 1; rank < size; ++rank) {
        const int answer = answers[rank * rounds + round];
        if (answer != 0) {
          EXPECT_EQ(answer, answers[round]) << "rank " << rank << ", round " << round << ", scene " << scene;
        }
      }
    EXPECT_TRUE(endings.front().succeeded()) << endings.front().output;
    EXPECT_TRUE(endings.back().succeeded()) << endings.back().output;
    EXPECT_EQ(sums[0], 2);
    EXPECT_EQ(sums[size - 1], 2);
  }
}

// They die one after the other, each while the rest wait for it in shrink_group.
TEST_F(AgreeDeath, of_those_whom_shrinking_waits_for_leaves_them_out) {
  constexpr int size = 4;
  for (int survivors : {1, 2}) {
    const WorldChoice choice{.size = size};
    SharedArray<std::atomic<int>> ready(1);
    Children children(size, [&](int rank) {
      as_rank(rank, choice, [&](TestWorld& world) {
        testing::expect_works(world);
        ready[0] += 1;
        if (rank >= survivors) testing::await([] { return false; });
        GroupHandle rest = distributed::shrink_group();
        EXPECT_EQ(distributed::get_world_size(rest), survivors);
        std::vector<int32_t> one(3, 1);
        distributed::all_reduce(view(one), {.group = rest});
        EXPECT_EQ(one.front(), survivors);
      });
    });
    EXPECT_TRUE(testing::await([&] { return ready[0] == size; }));
    for (int victim = size - 1; victim >= survivors; --victim) {
      children.await_asleep(0);
      children.kill(victim);
    }
    const std::vector<testing::Ending> endings = children.wait();
    for (int rank = 0; rank < survivors; ++rank) EXPECT_TRUE(endings[static_cast<size_t>(rank)].succeeded()) << endings[static_cast<size_t>(rank)].output;
  }
}

TEST(Shrink, leaves_out_whom_it_is_told_to) {
  for_each_world(ranks(4), [](TestWorld& world) {
    if (world.rank() == 2) return;
    GroupHandle rest = distributed::shrink_group({2});
    EXPECT_EQ(distributed::get_process_group_ranks(rest), (std::vector<int>{0, 1, 3}));
    std::vector<int32_t> one(3, 1);
    distributed::all_reduce(view(one), {.group = rest});
    EXPECT_EQ(one.front(), 3);
    EXPECT_THROW(distributed::shrink_group({7}), ArgumentError);
  });
}

TEST(Subgroups, cut_the_world_into_equal_parts) {
  for_each_world(ranks(4), [](TestWorld& world) {
    auto [mine, all] = distributed::new_subgroups(2);
    EXPECT_EQ(all.size(), 2u);
    const int first = world.rank() / 2 * 2;
    EXPECT_EQ(distributed::get_process_group_ranks(mine), (std::vector<int>{first, first + 1}));
    EXPECT_FALSE(all[static_cast<size_t>(1 - world.rank() / 2)].is_member());
    EXPECT_THROW(distributed::new_subgroups(3), ArgumentError);
    EXPECT_THROW(distributed::new_subgroups(0), ArgumentError);
    auto listed = distributed::new_subgroups_by_enumeration({{3, 0}, {1}}, {.name = "listed"});
    EXPECT_EQ(listed.mine.is_member(), world.rank() != 2);
    if (world.rank() == 3) {
      EXPECT_EQ(distributed::get_rank(listed.mine), 0);
    }
    EXPECT_THROW(distributed::new_subgroups_by_enumeration({{0, 1}, {1}}), ArgumentError);
  });
}

TEST(MonitoredBarrier, names_every_rank_that_does_not_come) {
  for_each_world(ranks(4), [](TestWorld& world) {
    distributed::monitored_barrier();
    GroupHandle group = distributed::new_group({0, 1, 2, 3});
    if (world.rank() == 1 || world.rank() == 2) {
      distributed::barrier();  // of the world: until the others have given up
      EXPECT_THROW(distributed::monitored_barrier({.group = group}), TimeoutError);
      return;
    }
    try {
      distributed::monitored_barrier({.group = group, .timeout_s = 0.1, .wait_all_ranks = true});
      ADD_FAILURE() << "two ranks were missing";
    } catch (const TimeoutError& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("monitored_barrier"), std::string::npos) << text;
      EXPECT_NE(text.find("rank 1 has not entered"), std::string::npos) << text;
      EXPECT_NE(text.find("rank 2 has not entered"), std::string::npos) << text;
    }
    distributed::barrier();
  });
}

TEST(MonitoredBarrier, is_not_a_barrier) {
  for_each_world(ranks(2), [](TestWorld& world) {
    if (world.rank() == 0)
      EXPECT_THROW(distributed::monitored_barrier(), MismatchError);
    else
      EXPECT_THROW(distributed::barrier(), MismatchError);
    distributed::monitored_barrier();
  });
}

}  // namespace
}  // namespace unisono
