// Letters between two ranks: sizes, tags, any source, orders that would hang if anything waited for anything, threads, and
// letters beside calls. What goes wrong: letters_error_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <thread>

#include "tests/support/eventually.hpp"
#include "tests/support/scale.hpp"
#include "tests/support/test_world.hpp"
#include "unisono/comm_func.hpp"

namespace unisono {
namespace {

using distributed::P2POp;
using testing::eventually;
using testing::for_each_world;
using testing::ranks;
using testing::TestWorld;
using testing::Worlds;

constexpr int64_t short_count = 5, long_count = 40'001;  // of 4 bytes: sent at once, and read by the receiver

// What rank `from` writes in its letter number `number` to rank `to`.
std::vector<int32_t> contents(int from, int to, int number, int64_t count) {
  std::vector<int32_t> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), from * 1'000'003 + to * 10'007 + number * 101);
  return values;
}

// With peers' memory readable, and with everything through the channels.
void for_each_way(const Worlds& worlds, const testing::Body& body) {
  for_each_world(worlds, body);
  for_each_world(worlds.with([](Settings& settings) { settings.peer_reads = "off"; }), body);
}

std::vector<int64_t> counts() { return {0, 1, 7, 8'191, 8'192, 8'193, 16'384, 100'003, 1'500'000}; }

TEST(Letters, of_every_size_arrive) {
  for_each_way(ranks({2, 3}), [](TestWorld& world) {
    const int me = world.rank(), next = (me + 1) % world.ranks(), before = (me + world.ranks() - 1) % world.ranks();
    int number = 0;
    for (int64_t count : counts()) {
      std::vector<int32_t> mine = contents(me, next, ++number, count), theirs(static_cast<size_t>(count), -1);
      if (me == 0) distributed::send(view(mine), next);
      EXPECT_EQ(distributed::recv(view(theirs), before), before);
      if (me != 0) distributed::send(view(mine), next);
      EXPECT_EQ(theirs, contents(before, me, number, count)) << count;
    }
  });
}

TEST(Letters, of_every_dtype_arrive) {
  for_each_world(ranks(2), [](TestWorld& world) {
    for (DType dtype : all_dtypes()) {
      Tensor tensor = Tensor::zeros(dtype, Shape{3, 5});
      if (world.rank() == 0) std::fill_n(static_cast<char*>(tensor.data()), tensor.bytes(), 0x5a);
      if (world.rank() == 0)
        distributed::send(tensor, 1);
      else
        distributed::recv(tensor, 0);
      EXPECT_EQ(static_cast<char*>(tensor.data())[tensor.bytes() - 1], 0x5a) << name_of(dtype);
    }
  });
}

TEST(Letters, meet_the_receive_with_their_tag_in_the_order_sent) {
  for_each_way(ranks(2), [](TestWorld& world) {
    constexpr int tags = 5, each = 4;
    const int peer = 1 - world.rank();
    std::vector<std::vector<int32_t>> given, got(tags * each);
    std::vector<WorkPtr> works;
    for (int number = 0; number < tags * each; ++number) {
      given.push_back(contents(world.rank(), peer, number, number % 3 ? short_count : long_count));
      works.push_back(distributed::isend(view(given.back()), peer, {.tag = number % tags - 2}));
    }
    for (int tag = tags - 1; tag >= 0; --tag)  // against the order of sending
      for (int turn = 0; turn < each; ++turn) {
        const int number = turn * tags + tag;
        auto& place = got[static_cast<size_t>(number)];
        place.resize(static_cast<size_t>(number % 3 ? short_count : long_count));
        distributed::recv(view(place), peer, {.tag = tag - 2});
        EXPECT_EQ(place, contents(peer, world.rank(), number, static_cast<int64_t>(place.size())));
      }
    for (const WorkPtr& work : works) work->wait();
  });
}

TEST(Letters, from_anybody_say_who_sent_them) {
  for_each_way(ranks({2, 4}), [](TestWorld& world) {
    constexpr int each = 3;
    for (int64_t count : {short_count, long_count}) {
      if (world.rank() != 0) {
        for (int number = 0; number < each; ++number) {
          auto mine = contents(world.rank(), 0, number, count);
          distributed::send(view(mine), 0, {.tag = 9});
        }
      } else {
        std::vector<int> seen(static_cast<size_t>(world.ranks()));
        for (int left = each * (world.ranks() - 1); left > 0; --left) {
          std::vector<int32_t> got(static_cast<size_t>(count));
          int from = -1;
          if (left % 2) {
            from = distributed::recv(view(got), {}, {.tag = 9});
          } else {
            WorkPtr work = distributed::irecv(view(got), {}, {.tag = 9});
            work->wait();
            from = work->source_rank();
          }
          EXPECT_EQ(got, contents(from, 0, seen[static_cast<size_t>(from)]++, count));
        }
        EXPECT_EQ(std::count(seen.begin() + 1, seen.end(), each), world.ranks() - 1);
      }
      distributed::barrier();
    }
  });
}

// Everybody posts everything to and from everybody in an order of its own, and waits in another.
TEST(Letters, in_any_order_never_hang) {
  const int rounds = testing::scale() == testing::Scale::small ? 2 : testing::scale() == testing::Scale::full ? 40 : 8;
  for_each_way(ranks({2, 3, 5}), [rounds](TestWorld& world) {
    for (int round = 0; round < rounds; ++round) {
      std::mt19937 random(static_cast<unsigned>(round * 100 + world.rank()));
      constexpr int each = 6;
      struct One {
        bool sends;
        int peer, number;
        std::vector<int32_t> data;
        WorkPtr work;
      };
      std::vector<One> all;
      for (int peer = 0; peer < world.ranks(); ++peer)
        for (int number = 0; number < each && peer != world.rank(); ++number)
          for (bool sends : {false, true}) {
            const int64_t count = number % 2 ? long_count + number : short_count + number;
            std::vector<int32_t> data(static_cast<size_t>(count));
            if (sends) data = contents(world.rank(), peer, number, count);
            all.push_back({sends, peer, number, std::move(data), nullptr});
          }
      std::shuffle(all.begin(), all.end(), random);  // so each number has a tag of its own
      for (One& one : all) {
        const distributed::LetterOptions options{.tag = one.number};
        one.work = one.sends ? distributed::isend(view(one.data), one.peer, options) : distributed::irecv(view(one.data), one.peer, options);
      }
      std::shuffle(all.begin(), all.end(), random);
      for (One& one : all) {
        one.work->wait();
        if (one.sends) continue;
        EXPECT_EQ(one.data, contents(one.peer, world.rank(), one.number, static_cast<int64_t>(one.data.size())));
        EXPECT_EQ(one.work->source_rank(), one.peer);
      }
    }
  });
}

// Far more than the rings hold, all sent before anything is received, by everybody.
TEST(Letters, may_all_be_sent_before_any_is_received) {
  for_each_way(ranks({2, 3}), [](TestWorld& world) {
    constexpr int many = 400;
    constexpr int64_t count = 2'000;
    const int next = (world.rank() + 1) % world.ranks(), before = (world.rank() + world.ranks() - 1) % world.ranks();
    std::vector<std::vector<int32_t>> given;
    std::vector<WorkPtr> works;
    for (int number = 0; number < many; ++number) given.push_back(contents(world.rank(), next, number, count));
    for (auto& letter : given) works.push_back(distributed::isend(view(letter), next));
    for (int number = 0; number < many; ++number) {
      std::vector<int32_t> got(count);
      distributed::recv(view(got), before);
      ASSERT_EQ(got, contents(before, world.rank(), number, count)) << number;
    }
    for (const WorkPtr& work : works) work->wait();
  });
}

// More short letters than a receiver keeps of one sender, all of them sent before the first is received; the last is received first.
TEST(Letters, beyond_what_is_kept_wait_with_their_sender) {
  constexpr int letters = 3000;
  constexpr int64_t count = 200;  // with its frame 832 bytes: 1 MiB is 1260 of them
  for_each_way(ranks(2), [](TestWorld& world) {
    const int me = world.rank(), other = 1 - me;
    std::vector<std::vector<int32_t>> mine;
    std::vector<WorkPtr> sent;
    for (int number = 0; number < letters; ++number) mine.push_back(contents(me, other, number, count));
    for (int number = 0; number < letters; ++number) sent.push_back(distributed::isend(view(mine[static_cast<size_t>(number)]), other));
    sent.push_back(distributed::isend(view(mine.front()), other, {.tag = 7}));
    std::vector<int32_t> theirs(static_cast<size_t>(count));
    distributed::recv(view(theirs), other, {.tag = 7});
    EXPECT_EQ(theirs, contents(other, me, 0, count));
    const auto over = std::count_if(sent.begin(), sent.end(), [](const WorkPtr& work) { return work->is_completed(); });
    EXPECT_LT(over, letters / 2) << "were sent though nobody has received any";
    distributed::barrier({.group = world.group()});  // both have looked
    for (int number = 0; number < letters; ++number) {
      distributed::recv(view(theirs), other);
      ASSERT_EQ(theirs, contents(other, me, number, count)) << number;
    }
    for (const WorkPtr& work : sent) work->wait();
  });
}

// More than a ring holds, by blocking sends on both sides: whoever waits for room takes what comes.
TEST(Letters, sent_to_each_other_before_any_is_received_do_not_wait_for_each_other) {
  constexpr int letters = 20;
  constexpr int64_t count = 8'000;  // of 4 bytes
  for_each_way(ranks(2), [](TestWorld& world) {
    const int me = world.rank(), other = 1 - me;
    for (int number = 0; number < letters; ++number) {
      std::vector<int32_t> mine = contents(me, other, number, count);
      distributed::send(view(mine), other);
    }
    for (int number = 0; number < letters; ++number) {
      std::vector<int32_t> theirs(static_cast<size_t>(count));
      distributed::recv(view(theirs), other);
      ASSERT_EQ(theirs, contents(other, me, number, count)) << number;
    }
  });
}

TEST(Letters, in_a_batch_cross_each_other) {
  for_each_way(ranks({2, 4}), [](TestWorld& world) {
    for (int64_t count : {short_count, long_count}) {
      std::vector<std::vector<int32_t>> given, got;
      std::vector<P2POp> batch;
      for (int peer = 0; peer < world.ranks(); ++peer) {
        given.push_back(contents(world.rank(), peer, 0, count));
        got.emplace_back(static_cast<size_t>(count));
      }
      for (int peer = 0; peer < world.ranks(); ++peer) {
        if (peer == world.rank()) continue;
        batch.push_back({P2POp::Kind::isend, view(given[static_cast<size_t>(peer)]), peer});
        batch.push_back({P2POp::Kind::irecv, view(got[static_cast<size_t>(peer)]), peer});
      }
      if (world.rank() % 2) std::reverse(batch.begin(), batch.end());
      std::vector<WorkPtr> works = distributed::batch_isend_irecv(batch);
      ASSERT_EQ(works.size(), batch.size());
      for (const WorkPtr& work : works) work->wait();
      for (int peer = 0; peer < world.ranks(); ++peer)
        if (peer != world.rank()) {
          EXPECT_EQ(got[static_cast<size_t>(peer)], contents(peer, world.rank(), 0, count));
        }
    }
  });
}

TEST(Letters, go_on_while_nobody_waits) {
  for_each_way(ranks(2), [](TestWorld& world) {
    const int peer = 1 - world.rank();
    auto given = contents(world.rank(), peer, 3, long_count);
    std::vector<int32_t> got(static_cast<size_t>(long_count));
    WorkPtr receive = distributed::irecv(view(got), peer), send = distributed::isend(view(given), peer);
    EXPECT_TRUE(eventually([&] { return receive->is_completed() && send->is_completed(); }));
    EXPECT_TRUE(receive->is_success() && send->is_success());
    EXPECT_EQ(got, contents(peer, world.rank(), 3, long_count));
    distributed::barrier();
  });
}

TEST(Letters, and_calls_of_one_group_do_not_wait_for_each_other) {
  for_each_way(ranks({2, 3}), [](TestWorld& world) {
    const int next = (world.rank() + 1) % world.ranks(), before = (world.rank() + world.ranks() - 1) % world.ranks();
    for (int64_t count : {short_count, long_count}) {
      auto given = contents(world.rank(), next, 1, count);
      std::vector<int32_t> got(static_cast<size_t>(count)), sum(100'000, 1);
      // The receive is posted first here and last there; the call in between needs everybody.
      WorkPtr receive = world.rank() % 2 ? distributed::irecv(view(got), before) : nullptr;
      WorkPtr send = distributed::isend(view(given), next);
      distributed::all_reduce(view(sum));
      if (!receive) receive = distributed::irecv(view(got), before);
      receive->wait();
      send->wait();
      EXPECT_EQ(got, contents(before, world.rank(), 1, count));
      EXPECT_EQ(sum.back(), world.ranks());
    }
  });
}

TEST(Letters, of_overlapping_groups_are_apart) {
  for_each_world(ranks(3), [](TestWorld& world) {
    GroupHandle pair = distributed::new_group({0, 1}), all = distributed::new_group({2, 1, 0});
    if (world.rank() == 0) {
      auto first = contents(0, 1, 1, short_count), second = contents(0, 1, 2, short_count);
      distributed::send(view(first), 1, {.group = all});
      distributed::send(view(second), 0, {.group = pair, .group_peer = 1});
    } else if (world.rank() == 1) {
      std::vector<int32_t> got(short_count);
      EXPECT_EQ(distributed::recv(view(got), {}, {.group = pair}), 0);
      EXPECT_EQ(got, contents(0, 1, 2, short_count));
      EXPECT_EQ(distributed::recv(view(got), {}, {.group = all, .group_peer = 2}), 0);
      EXPECT_EQ(got, contents(0, 1, 1, short_count));
    } else {
      std::vector<int32_t> got(short_count);
      EXPECT_EQ(distributed::recv(view(got), 0, {.group = pair}), -1) << "rank 2 is not in it";
      EXPECT_EQ(distributed::isend(view(got), 0, {.group = pair}), nullptr);
    }
  });
}

TEST(Letters, from_several_threads_all_arrive) {
  for_each_way(ranks(2), [](TestWorld& world) {
    constexpr int threads = 4, each = 50;
    auto& shared = world.shared_world();
    std::vector<std::thread> workers;
    for (int tag = 0; tag < threads; ++tag)
      workers.emplace_back([&, tag] {
        GroupHandle group(shared->world_group());
        const int peer = 1 - world.rank();
        for (int number = 0; number < each; ++number) {
          const int64_t count = number % 5 ? short_count : long_count;
          auto given = contents(world.rank(), peer, number, count);
          std::vector<int32_t> got(static_cast<size_t>(count));
          WorkPtr send = distributed::isend(view(given), peer, {.group = group, .tag = tag});
          distributed::recv(view(got), peer, {.group = group, .tag = tag});
          EXPECT_EQ(got, contents(peer, world.rank(), number, count));
          send->wait();
        }
      });
    for (std::thread& worker : workers) worker.join();
  });
}

TEST(Letters, whose_handles_were_dropped_arrive) {
  for_each_way(ranks(2), [](TestWorld& world) {
    std::vector<int32_t> given = contents(0, 1, 5, long_count), got(static_cast<size_t>(long_count));
    if (world.rank() == 0) static_cast<void>(distributed::isend(view(given), 1));
    if (world.rank() == 1) distributed::recv(view(got), 0);
    distributed::barrier();  // `given` lives until it was taken
    if (world.rank() == 1) {
      EXPECT_EQ(got, contents(0, 1, 5, long_count));
    }
  });
}

TEST(CommFuncLetters, leave_their_input_alone_and_return_new_tensors) {
  for_each_way(ranks(2), [](TestWorld& world) {
    for (int64_t count : {short_count, long_count}) {
      const auto given = contents(0, 1, 8, count);
      const std::vector<int32_t> like(static_cast<size_t>(count), 7);
      if (world.rank() == 0) {
        comm_func::send(view(given), 1);
        comm_func::isend(view(given), 1, comm_func::world, 4)->wait();
      } else {
        EXPECT_EQ(comm_func::recv(view(like)).to_vector<int32_t>(), given);
        auto [tensor, handle] = comm_func::irecv(view(like), 0, comm_func::world, 4);
        handle->wait();
        EXPECT_EQ(tensor.to_vector<int32_t>(), given);
        EXPECT_EQ(like, std::vector<int32_t>(static_cast<size_t>(count), 7));
      }
    }
  });
}

TEST(CommFuncLetters, of_a_batch_are_returned_in_its_order) {
  for_each_way(ranks(2), [](TestWorld& world) {
    const int peer = 1 - world.rank();
    const auto given = contents(world.rank(), peer, 0, long_count);
    using Op = comm_func::P2POp;
    const TensorView only_shape{nullptr, DType::float64, Shape{long_count}};
    const Op batch[] = {{Op::Kind::irecv, only_shape, peer, comm_func::world, 2, DType::int32},
                        {Op::Kind::isend, view(given), peer, comm_func::world, 2}};
    const std::vector<Tensor> outputs = comm_func::batch_isend_irecv(batch);
    ASSERT_EQ(outputs.size(), 2u);
    EXPECT_EQ(outputs[0].to_vector<int32_t>(), contents(peer, world.rank(), 0, long_count));
    EXPECT_EQ(outputs[1].shape(), (Shape{1}));
  });
}

}  // namespace
}  // namespace unisono
