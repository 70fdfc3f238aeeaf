// Prepared calls: made many times and in turns, beside others and in every state of their group.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>

#include "dialects/default_world.hpp"
#include "tests/support/calls.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/outcomes.hpp"
#include "tests/support/test_world.hpp"
#include "unisono/persistent.hpp"

namespace unisono {
namespace {

using namespace distributed;
using testing::eventually;
using testing::expect_works;
using testing::for_each_world;
using testing::ranks;
using testing::TestWorld;
using Ints = std::vector<int32_t>;
using Views = std::vector<TensorView>;

constexpr int rounds = 12;

// One kind of call, prepared: what is put in before it is made, and what is expected after it.
struct Member {
  std::string name;
  Prepared prepared;
  std::function<void(int round)> fill, check;
};

// A number that says who gave it, to whom, in which round.
int32_t number(int from, int to, int round) { return from * 10'000 + to * 100 + round; }
int32_t sum_of(const TestWorld& world, int to, int round) {
  int32_t sum = 0;
  for (int rank = 0; rank < world.ranks(); ++rank) sum += number(rank, to, round);
  return sum;
}

// Every kind there is, on `count` elements a rank.
class Members {
 public:
  Members(TestWorld& world, size_t count) : world_(world), count_(count), me_(world.rank()), n_(world.ranks()) {
    add_reductions();
    add_movements();
    add_lists();
  }
  std::vector<Member>& all() { return all_; }

 private:
  Ints& memory(size_t times = 1) { return memory_.emplace_back(count_ * times, -1); }
  std::span<int32_t> part(Ints& data, int rank) const {
    return std::span(data).subspan(static_cast<size_t>(rank) * count_, count_);
  }
  Views parts(Ints& data) const {
    Views list;
    for (int rank = 0; rank < n_; ++rank) list.push_back(view(part(data, rank)));
    return list;
  }
  size_t ranks_size() const { return static_cast<size_t>(n_); }
  static void expect_all(std::span<const int32_t> data, int32_t wanted, const char* what) {
    for (int32_t found : data) ASSERT_EQ(found, wanted) << what;
  }

  void add_reductions() {
    Ints &sum = memory(), &rooted = memory(), &in = memory(ranks_size()), &out = memory(), &in_list = memory(ranks_size()),
         &out_list = memory();
    const int root = n_ - 1;
    all_.push_back({"all_reduce", prepare_all_reduce(view(sum), {.group = world_.group()}),
                    [&, this](int round) { std::fill(sum.begin(), sum.end(), number(me_, 0, round)); },
                    [&, this](int round) { expect_all(sum, sum_of(world_, 0, round), "all_reduce"); }});
    all_.push_back({"reduce", prepare_reduce(view(rooted), root, {.group = world_.group()}),
                    [&, this](int round) { std::fill(rooted.begin(), rooted.end(), number(me_, 1, round)); },
                    [&, this, root](int round) {
                      expect_all(rooted, me_ == root ? sum_of(world_, 1, round) : number(me_, 1, round), "reduce");
                    }});
    auto fill_for_all = [this](Ints& data) {
      return [&data, this](int round) {
        for (int rank = 0; rank < n_; ++rank)
          std::fill(part(data, rank).begin(), part(data, rank).end(), number(me_, rank, round));
      };
    };
    all_.push_back({"reduce_scatter_tensor", prepare_reduce_scatter_tensor(view(out), view(in), {.group = world_.group()}),
                    fill_for_all(in),
                    [&, this](int round) { expect_all(out, sum_of(world_, me_, round), "reduce_scatter_tensor"); }});
    all_.push_back({"reduce_scatter", prepare_reduce_scatter(view(out_list), parts(in_list), {.group = world_.group()}),
                    fill_for_all(in_list),
                    [&, this](int round) { expect_all(out_list, sum_of(world_, me_, round), "reduce_scatter"); }});
  }

  void add_movements() {
    Ints &one = memory(), &given = memory(), &got = memory(ranks_size()), &to_all = memory(ranks_size()),
         &from_all = memory(ranks_size());
    const int root = n_ / 2;
    all_.push_back({"broadcast", prepare_broadcast(view(one), {.src = root, .group = world_.group()}),
                    [&, this](int round) { std::fill(one.begin(), one.end(), number(me_, 2, round)); },
                    [&, root](int round) { expect_all(one, number(root, 2, round), "broadcast"); }});
    all_.push_back({"all_gather_into_tensor", prepare_all_gather_into_tensor(view(got), view(given), {.group = world_.group()}),
                    [&, this](int round) { std::fill(given.begin(), given.end(), number(me_, 3, round)); },
                    [&, this](int round) {
                      for (int rank = 0; rank < n_; ++rank)
                        expect_all(part(got, rank), number(rank, 3, round), "all_gather_into_tensor");
                    }});
    all_.push_back({"all_to_all_single", prepare_all_to_all_single(view(from_all), view(to_all), {.group = world_.group()}),
                    [&, this](int round) {
                      for (int rank = 0; rank < n_; ++rank)
                        std::fill(part(to_all, rank).begin(), part(to_all, rank).end(), number(me_, rank, round));
                    },
                    [&, this](int round) {
                      for (int rank = 0; rank < n_; ++rank)
                        expect_all(part(from_all, rank), number(rank, me_, round), "all_to_all_single");
                    }});
    all_.push_back({"barrier", prepare_barrier({.group = world_.group()}), [](int) {}, [](int) {}});
  }

  void add_lists() {
    Ints &given = memory(), &got = memory(ranks_size()), &one = memory(), &gathered = memory(ranks_size()),
         &dealt = memory(ranks_size()), &hand = memory(), &to_all = memory(ranks_size()), &from_all = memory(ranks_size()),
         &left = memory(), &right = memory();
    auto is_dealt = [&, this](int round) {
      for (int rank = 0; rank < n_; ++rank) std::fill(part(dealt, rank).begin(), part(dealt, rank).end(), number(0, rank, round));
    };
    all_.push_back({"all_gather", prepare_all_gather(parts(got), view(given), {.group = world_.group()}),
                    [&, this](int round) { std::fill(given.begin(), given.end(), number(me_, 4, round)); },
                    [&, this](int round) {
                      for (int rank = 0; rank < n_; ++rank) expect_all(part(got, rank), number(rank, 4, round), "all_gather");
                    }});
    all_.push_back({"gather",
                    prepare_gather(view(one), me_ == 0 ? parts(gathered) : Views{}, {.dst = 0, .group = world_.group()}),
                    [&, this](int round) { std::fill(one.begin(), one.end(), number(me_, 5, round)); },
                    [&, this](int round) {
                      for (int rank = 0; rank < n_ && me_ == 0; ++rank)
                        expect_all(part(gathered, rank), number(rank, 5, round), "gather");
                    }});
    all_.push_back({"scatter",
                    prepare_scatter(view(hand), me_ == 0 ? parts(dealt) : Views{}, {.src = 0, .group = world_.group()}), is_dealt,
                    [&, this](int round) { expect_all(hand, number(0, me_, round), "scatter"); }});
    all_.push_back({"all_to_all", prepare_all_to_all(parts(from_all), parts(to_all), {.group = world_.group()}),
                    [&, this](int round) {
                      for (int rank = 0; rank < n_; ++rank)
                        std::fill(part(to_all, rank).begin(), part(to_all, rank).end(), number(me_, rank, round));
                    },
                    [&, this](int round) {
                      for (int rank = 0; rank < n_; ++rank)
                        expect_all(part(from_all, rank), number(rank, me_, round), "all_to_all");
                    }});
    all_.push_back({"all_reduce_coalesced",
                    prepare_all_reduce_coalesced(Views{view(right), view(left)}, {.group = world_.group()}),
                    [&, this](int round) {
                      std::fill(left.begin(), left.end(), number(me_, 6, round));
                      std::fill(right.begin(), right.end(), number(me_, 7, round));
                    },
                    [&, this](int round) {
                      expect_all(left, sum_of(world_, 6, round), "all_reduce_coalesced");
                      expect_all(right, sum_of(world_, 7, round), "all_reduce_coalesced");
                    }});
  }

  TestWorld& world_;
  size_t count_;
  int me_, n_;
  std::deque<Ints> memory_;
  std::vector<Member> all_;
};

TEST(Prepared, calls_of_all_kinds_take_turns) {
  for_each_world(ranks({1, 2, 4}), [](TestWorld& world) {
    for (size_t count : {size_t{3}, size_t{20'000}}) {
      Members members(world, count);
      for (int round = 0; round < rounds; ++round)
        for (Member& member : members.all()) {
          member.fill(round);
          member.prepared.run();
          member.check(round);
          if (::testing::Test::HasFatalFailure()) return;
        }
    }
  });
}

TEST(Prepared, calls_of_all_kinds_are_under_way_together) {
  for_each_world(ranks({1, 2, 3}), [](TestWorld& world) {
    Members small(world, 5), large(world, 9000);
    for (int round = 0; round < rounds; ++round) {
      for (Members* members : {&small, &large})
        for (Member& member : members->all()) {
          member.fill(round);
          member.prepared.start();
          EXPECT_TRUE(member.prepared.is_started());
        }
      Ints plain(4, 1);
      distributed::all_reduce(view(plain), {.group = world.group()});  // behind all of them
      EXPECT_EQ(plain, Ints(4, world.ranks()));
      for (Members* members : {&large, &small})
        for (Member& member : members->all()) {
          EXPECT_TRUE(member.prepared.is_completed());
          EXPECT_TRUE(member.prepared.wait());
          EXPECT_FALSE(member.prepared.is_started());
          member.check(round);
          if (::testing::Test::HasFatalFailure()) return;
        }
    }
  });
}

TEST(Prepared, calls_meet_plain_ones_of_other_ranks) {
  for_each_world(ranks(3), [](TestWorld& world) {
    Ints data(100, 0), other(40'000, 0);
    Prepared small = prepare_all_reduce(view(data), {.group = world.group()}),
             large = prepare_all_reduce(view(other), {.group = world.group()});
    for (int round = 0; round < rounds; ++round) {
      std::fill(data.begin(), data.end(), round);
      std::fill(other.begin(), other.end(), round);
      const bool is_prepared = (round + world.rank()) % 3 != 0;
      if (is_prepared) {
        large.start();
        small.run();  // behind it
        large.wait();
      } else {
        distributed::all_reduce(view(other), {.group = world.group()});
        distributed::all_reduce(view(data), {.group = world.group()});
      }
      ASSERT_EQ(data, Ints(100, 3 * round));
      ASSERT_EQ(other, Ints(40'000, 3 * round));
    }
  });
}

TEST(Prepared, a_call_with_split_sizes_learns_them_each_time) {
  for_each_world(ranks(2), [](TestWorld& world) {
    const int me = world.rank();
    Ints input(5, me), output(me == 0 ? 6u : 4u, -1);
    const std::vector<int64_t> sent = me == 0 ? std::vector<int64_t>{3, 2} : std::vector<int64_t>{3, 2};
    const std::vector<int64_t> received = me == 0 ? std::vector<int64_t>{3, 3} : std::vector<int64_t>{2, 2};
    Prepared exchange = prepare_all_to_all_single(
        view(output), view(input), {.output_split_sizes = received, .input_split_sizes = sent, .group = world.group()});
    for (int round = 0; round < rounds; ++round) {
      std::fill(input.begin(), input.end(), number(me, 0, round));
      if (round % 2 == 0) {
        exchange.run();
      } else {
        exchange.start();
        exchange.wait();
      }
      for (size_t at = 0; at < output.size(); ++at)
        ASSERT_EQ(output[at], number(at < static_cast<size_t>(received[0]) ? 0 : 1, 0, round)) << at;
    }
  });
}

TEST(Prepared, says_when_it_is_used_out_of_turn) {
  for_each_world(ranks(2), [](TestWorld& world) {
    Ints data(10, 1);
    Prepared sum = prepare_all_reduce(view(data), {.group = world.group()});
    EXPECT_THROW(sum.wait(), StateError);
    sum.start();
    EXPECT_THROW(sum.start(), StateError);
    EXPECT_THROW(sum.run(), StateError);
    EXPECT_TRUE(sum.wait());
    EXPECT_THROW(sum.wait(), StateError);
    sum.run();
    EXPECT_EQ(data, Ints(10, 4));
    expect_works(world);
  });
}

TEST(Prepared, a_wait_that_expires_leaves_it_under_way) {
  testing::SharedArray<std::atomic<int>> expired(2);
  for_each_world(ranks(2), [&](TestWorld& world) {
    std::atomic<int>& first_gave_up = expired[world.are_threads() ? 0 : 1];
    Ints data(10, 1);
    Prepared sum = prepare_all_reduce(view(data), {.group = world.group()});
    if (world.rank() == 0) {
      sum.start();
      EXPECT_THROW(sum.wait(0.001), TimeoutError);
      EXPECT_TRUE(sum.is_started());
      EXPECT_FALSE(sum.is_completed());
      first_gave_up = 1;
    } else {
      EXPECT_TRUE(eventually([&] { return first_gave_up == 1; }));
      sum.start();
    }
    EXPECT_TRUE(sum.wait());
    EXPECT_EQ(data, Ints(10, 2));
  });
}

TEST(Prepared, wrong_arguments_are_told_to_nobody_else) {
  for_each_world(ranks(2), [](TestWorld& world) {
    Ints data(10, 1);
    std::vector<float> real(2);
    const uint32_t before = world.world().world_group()->finished();
    if (world.rank() == 0) {
      EXPECT_THROW(prepare_all_reduce(view(real), {.op = ReduceOp::band, .group = world.group()}), ArgumentError);
      EXPECT_THROW(prepare_all_gather_into_tensor(view(data), view(data), {.group = world.group()}), ArgumentError);
      EXPECT_THROW(prepare_all_reduce(view(data), {.group = world.group(), .timeout_s = -1}), ArgumentError);
    }
    EXPECT_EQ(world.world().world_group()->finished(), before);
    expect_works(world);
  });
}

TEST(Prepared, calls_that_differ_are_found_each_time) {
  for_each_world(ranks(2), [](TestWorld& world) {
    Ints data(10, 1), longer(11, 1);
    Prepared odd = prepare_all_reduce(view(world.rank() == 0 ? data : longer), {.group = world.group()});
    Prepared same = prepare_all_reduce(view(data), {.group = world.group()});
    for (int round = 0; round < 3; ++round) {
      EXPECT_THROW(odd.run(), MismatchError);
      odd.start();
      EXPECT_THROW(odd.wait(), MismatchError);
      EXPECT_FALSE(odd.is_started());
      data.assign(10, 1);
      same.run();
      ASSERT_EQ(data, Ints(10, 2));
    }
    EXPECT_EQ(longer, Ints(11, 1));
  });
}

TEST(Prepared, may_be_dropped_while_its_call_is_under_way) {
  for_each_world(ranks({2, 3}), [](TestWorld& world) {
    std::deque<Ints> data;
    for (int round = 0; round < rounds; ++round) {
      Ints& mine = data.emplace_back(static_cast<size_t>(round % 2 == 0 ? 3 : 30'000), 1);
      prepare_all_reduce(view(mine), {.group = world.group()}).start();
    }
    distributed::barrier({.group = world.group()});  // is behind them
    for (const Ints& mine : data) ASSERT_EQ(mine, Ints(mine.size(), world.ranks()));
  });
}

TEST(Prepared, moves_with_its_call) {
  for_each_world(ranks(2), [](TestWorld& world) {
    Ints data(10, 1);
    Prepared here = prepare_all_reduce(view(data), {.group = world.group()}), there;
    here.start();
    there = std::move(here);
    EXPECT_TRUE(there.wait());
    there.run();
    EXPECT_EQ(data, Ints(10, 4));
  });
}

TEST(Prepared, on_a_broken_or_destroyed_group_gives_the_usual_errors) {
  for_each_world(ranks(2), [](TestWorld& world) {
    const GroupHandle broken = distributed::new_group({0, 1}, {.name = "to be broken"}),
                      gone = distributed::new_group({0, 1}, {.name = "to be gone"});
    Ints data(10, 1);
    Prepared on_broken = prepare_all_reduce(view(data), {.group = broken}),
             on_gone = prepare_all_reduce(view(data), {.group = gone});
    on_broken.run();
    on_gone.run();
    distributed::barrier({.group = world.group()});
    if (world.rank() == 0) distributed::abort(broken, "for a test");
    EXPECT_TRUE(eventually([&] { return !broken.group()->usable().ok(); }));
    EXPECT_THROW(on_broken.run(), RevokedError);
    on_broken.start();
    EXPECT_THROW(on_broken.wait(), RevokedError);
    EXPECT_THROW(prepare_all_reduce(view(data), {.group = broken}), RevokedError);
    distributed::destroy_process_group(gone);
    EXPECT_THROW(on_gone.run(), StateError);
    on_gone.start();
    EXPECT_THROW(on_gone.wait(), StateError);
    EXPECT_EQ(data, Ints(10, 4));
    expect_works(world);
  });
}

TEST(Prepared, outside_the_group_does_nothing) {
  for_each_world(ranks(1), [](TestWorld&) {
    Ints data(10, 1);
    Prepared nothing = prepare_all_reduce(view(data), {.group = GroupHandle::outside()});
    nothing.start();
    EXPECT_TRUE(nothing.wait());
    nothing.run();
    EXPECT_EQ(data, Ints(10, 1));
  });
}

}  // namespace
}  // namespace unisono
