// Refusals in a row, behind asynchronous calls, by several ranks at once, and by ranks that are not in the group. What is
// refused: argument_test.cpp.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "dialects/default_world.hpp"
#include "tests/support/calls.hpp"
#include "tests/support/children.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/outcomes.hpp"
#include "unisono/binding.hpp"
#include "unisono/comm_func.hpp"
#include "unisono/communication.hpp"

namespace unisono::testing {
namespace {

Worlds each(std::vector<int> sizes) {
  Worlds worlds = ranks(std::move(sizes));
  return under_thread_sanitizer() ? worlds.with(Kind::threads) : worlds;
}

// Runs the body in every world, each with outcomes of its own, and lets `check` see them afterwards.
void play(const Worlds& worlds, int rounds, const std::function<void(TestWorld&, const Outcomes&)>& body,
          const std::function<void(const Outcomes&)>& check) {
  for (int64_t cores : {0, 1})
    for (Kind kind : worlds.kinds)
      for (int size : worlds.sizes) {
        SCOPED_TRACE(fmt::format("{} ranks as {}, UNISONO_CORES={}", size, kind == Kind::threads ? "threads" : "processes", cores));
        Outcomes outcomes(size, rounds);
        for_each_world(ranks(size).with(kind).with([&](Settings& settings) { settings.cores = cores; }), [&](TestWorld& world) {
          body(world, outcomes);
          expect_works(world);
        });
        check(outcomes);
      }
}

const TensorView nowhere{nullptr, DType::float32, Shape{8}};

void refuse(const TestWorld& world, const Outcomes& outcomes, int round) {
  outcomes.note(world.rank(), round, [&] { distributed::all_reduce(nowhere, {.group = world.group()}); });
}

void call(const TestWorld& world, const Outcomes& outcomes, int round, int64_t count = 8) {
  Scratch scratch;
  outcomes.note(world.rank(), round, [&] { make_call(world.group(), scratch, {.count = count}); });
  EXPECT_TRUE(scratch.is_untouched()) << "rank " << world.rank();
}

void expect_refused_by(const Outcomes& outcomes, int round, int refuser) {
  for (int rank = 0; rank < outcomes.ranks(); ++rank) {
    const Outcome& outcome = outcomes.of(rank, round);
    EXPECT_EQ(outcome.code, rank == refuser ? ErrorCode::argument : ErrorCode::peer_argument)
        << "rank " << rank << ", round " << round << ": " << outcome.text();
    if (rank != refuser) { EXPECT_EQ(outcome.peer, refuser); }
  }
}

TEST(Refusals, five_in_a_row_do_not_wait_for_the_others) {
  SharedArray<std::atomic<int>> refusals(1);
  play(
      each({2, 3}), 5,
      [&](TestWorld& world, const Outcomes& outcomes) {
        distributed::barrier({.group = world.group()});
        if (world.rank() == 0) refusals[0] = 0;
        distributed::barrier({.group = world.group()});
        if (world.rank() == 1) {
          for (int round = 0; round < 5; ++round) refuse(world, outcomes, round);
          refusals[0] = 5;
        } else {
          EXPECT_TRUE(await([&] { return refusals[0] == 5; }));
          for (int round = 0; round < 5; ++round) call(world, outcomes, round);
        }
      },
      [](const Outcomes& outcomes) {
        for (int round = 0; round < 5; ++round) {
          expect_refused_by(outcomes, round, 1);
          EXPECT_LT(outcomes.took_s(round), 1.0);
        }
      });
}

TEST(Refusals, a_call_after_refusals_waits_for_its_turn) {
  play(
      each({3}), 4,
      [](TestWorld& world, const Outcomes& outcomes) {
        for (int round = 0; round < 4; ++round) world.rank() == 0 ? refuse(world, outcomes, round) : call(world, outcomes, round);
      },
      [](const Outcomes& outcomes) {
        for (int round = 0; round < 4; ++round) expect_refused_by(outcomes, round, 0);
      });
}

TEST(Refusals, behind_asynchronous_calls_keep_their_place) {
  play(
      each({2, 3}), 2,
      [](TestWorld& world, const Outcomes& outcomes) {
        std::deque<Scratch> scratches(3);
        std::vector<WorkPtr> works;
        CallChoice good{.kind = Collective::all_reduce, .count = 30'000, .async_op = true};
        for (int round = 0; round < 2; ++round) {
          works.push_back(make_call(world.group(), scratches[static_cast<size_t>(round)], good));
          if (world.rank() == 0) refuse(world, outcomes, round);
          if (world.rank() != 0) call(world, outcomes, round);
        }
        works.push_back(make_call(world.group(), scratches[2], good));
        for (const WorkPtr& work : works) EXPECT_TRUE(work->wait());
        for (const Scratch& scratch : scratches) EXPECT_FALSE(scratch.is_untouched());
      },
      [](const Outcomes& outcomes) {
        for (int round = 0; round < 2; ++round) expect_refused_by(outcomes, round, 0);
      });
}

TEST(Refusals, of_asynchronous_calls_are_raised_at_once_and_not_by_wait) {
  play(
      each({3}), 1,
      [](TestWorld& world, const Outcomes& outcomes) {
        Scratch scratch;
        outcomes.note(world.rank(), [&] {
          TensorView tensor = world.rank() == 2 ? nowhere : scratch.tensor(DType::float32, {8});
          WorkPtr work = distributed::all_reduce(tensor, {.group = world.group(), .async_op = true});
          EXPECT_NE(world.rank(), 2) << "a call that is refused returns no Work";
          work->wait();
        });
        EXPECT_TRUE(scratch.is_untouched());
      },
      [](const Outcomes& outcomes) { expect_refused_by(outcomes, 0, 2); });
}

TEST(Refusals, of_one_call_by_two_ranks_tell_the_third_of_one_of_them) {
  play(
      each({3, 5}), 20,
      [](TestWorld& world, const Outcomes& outcomes) {
        for (int round = 0; round < outcomes.rounds(); ++round)
          world.rank() < 2 ? refuse(world, outcomes, round) : call(world, outcomes, round);
      },
      [](const Outcomes& outcomes) {
        for (int round = 0; round < outcomes.rounds(); ++round) {
          for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(outcomes.of(rank, round).code, ErrorCode::argument);
          for (int rank = 2; rank < outcomes.ranks(); ++rank) {
            EXPECT_EQ(outcomes.of(rank, round).code, ErrorCode::peer_argument);
            EXPECT_EQ(outcomes.of(rank, round).text(), outcomes.of(2, round).text());
            EXPECT_TRUE(outcomes.of(rank, round).peer == 0 || outcomes.of(rank, round).peer == 1);
          }
        }
      });
}

TEST(Refusals, by_everybody_leave_the_group_usable) {
  play(
      each({1, 3}), 10,
      [](TestWorld& world, const Outcomes& outcomes) {
        for (int round = 0; round < outcomes.rounds(); ++round) refuse(world, outcomes, round);
      },
      [](const Outcomes& outcomes) {
        for (int round = 0; round < outcomes.rounds(); ++round)
          for (int rank = 0; rank < outcomes.ranks(); ++rank) EXPECT_EQ(outcomes.of(rank, round).code, ErrorCode::argument);
      });
}

TEST(Refusals, beside_different_calls_tell_everybody_else_the_same) {
  play(
      each({4}), 20,
      [](TestWorld& world, const Outcomes& outcomes) {
        for (int round = 0; round < outcomes.rounds(); ++round)
          world.rank() == 1 ? refuse(world, outcomes, round) : call(world, outcomes, round, 8 + world.rank() % 2);
      },
      [](const Outcomes& outcomes) {
        for (int round = 0; round < outcomes.rounds(); ++round) {
          EXPECT_EQ(outcomes.of(1, round).code, ErrorCode::argument);
          for (int rank : {0, 2, 3}) {
            ErrorCode code = outcomes.of(rank, round).code;
            EXPECT_TRUE(code == ErrorCode::peer_argument || code == ErrorCode::mismatch) << outcomes.of(rank, round).text();
            EXPECT_EQ(outcomes.of(rank, round).text(), outcomes.of(0, round).text());
          }
        }
      });
}

// A text that is longer than what an announcement holds is cut, never run past its end.
TEST(Refusals, with_a_long_text_reach_the_others_cut) {
  play(
      each({2}), 1,
      [](TestWorld& world, const Outcomes& outcomes) {
        const Shape long_shape = {-1'000'000'000'000'000'000, 1'000'000'000'000'000'001, 1'000'000'000'000'000'002, 1'000'000'000'000'000'003,
                                  1'000'000'000'000'000'004,  1'000'000'000'000'000'005, 1'000'000'000'000'000'006, 1'000'000'000'000'000'007};
        if (world.rank() == 1)
          outcomes.note(1, [&] { distributed::all_reduce({&outcomes.of(1).peer, DType::float32, long_shape}, {.group = world.group()}); });
        else
          call(world, outcomes, 0);
      },
      [](const Outcomes& outcomes) {
        expect_refused_by(outcomes, 0, 1);
        EXPECT_GT(std::strlen(outcomes.of(1).message), 152u);
        EXPECT_NE(outcomes.of(0).text().find("(-1000000000000000000, 1000000000000000001"), std::string::npos) << outcomes.of(0).text();
      });
}

// As a binding does when it is given something that is no array. The others may be in any form of the call.
TEST(Refusals, of_a_binding_are_told_to_the_others) {
  for_each_world(each({2, 3}), [](TestWorld& world) {
    GroupHandle outside = distributed::new_group({0}, {.name = "alone"});
    const Status why(ErrorCode::argument_type, "tensor is a list");
    for (const char* dialect : {"distributed", "comm_func"}) {
      Scratch scratch;
      TensorView tensor = scratch.tensor(DType::float32, {6});
      if (world.rank() != 0)
        expect_error<PeerArgumentError>({"rank 0 refused its all_to_all", "tensor is a list"}, [&] {
          distributed::all_to_all_single(tensor, scratch.tensor(DType::float32, {6}));
        });
      else if (dialect == std::string("distributed"))
        expect_error<ArgumentTypeError>({"tensor is a list"}, [&] { distributed::refuse(Collective::all_to_all, why); });
      else
        expect_error<ArgumentTypeError>({"tensor is a list"}, [&] { comm_func::refuse(Collective::all_to_all, why, ""); });
    }
    if (world.rank() == 1)
      expect_error<ArgumentTypeError>({"tensor is a list"}, [&] { distributed::refuse(Collective::barrier, why, outside); });
    expect_works(world);
  });
}

TEST(Outsiders, get_an_error_in_comm_func_and_nothing_in_distributed) {
  for_each_world(each({3}), [](TestWorld& world) {
    GroupHandle pair = distributed::new_group({0, 1}, {.name = "pair"});
    Scratch scratch;
    TensorView tensor = scratch.tensor(DType::float32, {8});
    if (world.rank() == 2) {
      EXPECT_EQ(distributed::all_reduce(tensor, {.group = pair, .async_op = true}), nullptr);
      try {
        comm_func::all_reduce(tensor, {.group = "pair"});
        ADD_FAILURE() << "an outsider's call went through";
      } catch (const ArgumentError& error) {
        EXPECT_NE(std::string(error.what()).find("all_reduce: rank 2 is not in a group \"pair\""), std::string::npos) << error.what();
      }
      EXPECT_THROW(comm_func::barrier("pair"), ArgumentError);
      EXPECT_THROW(communication::get_rank("pair"), ArgumentError);
      EXPECT_TRUE(scratch.is_untouched());
    } else {
      comm_func::all_reduce(tensor, {.group = "pair"});
      comm_func::barrier("pair");
    }
    expect_works(world);
  });
}

}  // namespace
}  // namespace unisono::testing
