// Shared tensors: every collective takes them, whole or mixed with private memory, in place and not, by every plan; they are
// freed while others go on, outlive the world, and are refused with numbers when there is no room. Lists: shared_lists_test.cpp.
#include <gtest/gtest.h>

#include <numeric>

#include "tests/support/calls.hpp"
#include "tests/support/losses.hpp"
#include "tests/support/numbered.hpp"
#include "tests/support/outcomes.hpp"
#include "tests/support/scale.hpp"
#include "tests/support/test_world.hpp"
#include "unisono/comm_func.hpp"

namespace unisono {
namespace {

using testing::expect_from;
using testing::expect_sum;
using testing::fill;
using testing::for_each_world;
using testing::Maker;
using testing::numbers;
using testing::private_tensor;
using testing::ranks;
using testing::TestWorld;

constexpr int64_t sizes[] = {0, 1, 1'000, 20'000, 300'001};

// Which ranks use shared memory: none, all, or every second one.
enum class Sharing { all, even, odd };
bool shares(Sharing sharing, int rank) { return sharing == Sharing::all || (rank % 2 == 0) == (sharing == Sharing::even); }

void try_all(TestWorld& world, Sharing sharing, int64_t count, int round) {
  const int me = world.rank(), size = world.ranks(), root = round % size;
  const Maker make{shares(sharing, me)};
  Tensor one = make(count), many = make(count * size), other = make(count), others = make(count * size);

  fill(one, me);
  distributed::all_reduce(one);
  expect_sum(one, size, 0, "all_reduce");

  fill(one, me);
  auto [sum, handle] = comm_func::all_reduce(one);  // not in place, from shared to private memory
  expect_sum(sum, size, 0, "comm_func all_reduce");
  expect_from(one, {0, count, me, 0}, "its input");

  distributed::all_gather_into_tensor(many, one);
  for (int rank = 0; rank < size; ++rank) expect_from(many, {rank * count, count, rank, 0}, "all_gather");

  fill(many, me);
  distributed::reduce_scatter_tensor(other, many);
  expect_sum(other, size, me * count, "reduce_scatter");
  distributed::all_to_all_single(others, many);
  for (int rank = 0; rank < size; ++rank) expect_from(others, {rank * count, count, rank, me * count}, "all_to_all");

  fill(one, me);
  distributed::reduce(one, root);
  if (me == root)
    expect_sum(one, size, 0, "reduce");
  else
    expect_from(one, {0, count, me, 0}, "reduce");

  fill(one, me);
  distributed::broadcast(one, {.src = root});
  expect_from(one, {0, count, root, 0}, "broadcast");

  fill(one, me);
  distributed::scan(one);
  for (int64_t index = 0; index < count; ++index)
    ASSERT_EQ(numbers(one)[index], me * (me + 1) / 2 * 1'000'000 + (me + 1) * index) << "scan at " << index;

  fill(many, me);
  std::vector<TensorView> parts;
  for (int rank = 0; rank < size && me == root; ++rank) parts.push_back({numbers(many) + rank * count, DType::int64, Shape{count}});
  distributed::scatter(other, parts, {.src = root});
  expect_from(other, {0, count, root, me * count}, "scatter");
}

void for_each_sharing(TestWorld& world, int64_t largest) {
  int round = 0;
  for (Sharing sharing : {Sharing::all, Sharing::even, Sharing::odd})
    for (int64_t count : sizes) {
      if (count > largest || (testing::scale() == testing::Scale::small && count > 100'000)) continue;
      SCOPED_TRACE(count);
      try_all(world, sharing, count, round++);
      if (::testing::Test::HasFatalFailure()) return;
    }
}

TEST(SharedTensors, are_taken_by_every_collective) {
  const auto worlds = testing::scale() == testing::Scale::small ? ranks({1, 3}) : ranks({1, 2, 5});
  for_each_world(worlds, [](TestWorld& world) { for_each_sharing(world, 1 << 20); });
}

TEST(SharedTensors, are_taken_by_every_plan) {
  for (const char* reads : {"auto", "off"})
    for (const char* plan : {"all_reduce:0-1G=one_shot,reduce:0-1G=direct", "all_reduce:0-1G=two_shot,reduce:0-1G=two_shot",
                             "all_reduce:0-1G=ring,all_gather:0-1G=ring,reduce_scatter:0-1G=ring"})
      for_each_world(ranks({2, 4}).with([&](Settings& settings) {
        settings.plan = plan;
        settings.peer_reads = reads;
        settings.tile_bytes = 4096;
      }), [](TestWorld& world) { for_each_sharing(world, 20'000); });
}

TEST(SharedTensors, work_where_every_rank_has_a_core) {
  for_each_world(ranks({2, 3}).with([](Settings& settings) { settings.cores = 64; }),
                 [](TestWorld& world) { for_each_sharing(world, 1 << 20); });
}

// A rank that shows its memory may write to it as soon as the call is over; whoever is slow must have read it by then.
TEST(SharedTensors, are_not_read_after_the_call) {
  for_each_world(ranks({2, 3}), [](TestWorld& world) {
    Tensor mine = alloc_shared(Shape{50'000}, DType::int64), all = private_tensor(Shape{50'000 * world.ranks()}, DType::int64);
    const int rounds = testing::scale() == testing::Scale::small ? 20 : 200;
    for (int round = 0; round < rounds; ++round) {
      fill(mine, world.rank(), round);
      distributed::all_gather_into_tensor(all, mine);
      fill(mine, 99);
      for (int rank = 0; rank < world.ranks(); ++rank) expect_from(all, {rank * 50'000, 50'000, rank, round}, "all_gather");
      if (::testing::Test::HasFatalFailure()) return;
    }
  });
}

TEST(SharedTensors, work_in_groups_and_asynchronously) {
  for_each_world(ranks(4), [](TestWorld& world) {
    GroupHandle pair = distributed::new_group(world.rank() % 2 ? std::vector<int>{1, 3} : std::vector<int>{0, 2});
    Tensor one = alloc_shared(Shape{100'000}, DType::int32), two = alloc_shared(Shape{100'000}, DType::int32);
    std::fill_n(static_cast<int32_t*>(one.data()), one.count(), 1);
    std::fill_n(static_cast<int32_t*>(two.data()), two.count(), 2);
    WorkPtr first = distributed::all_reduce(one, {.async_op = true});
    WorkPtr second = distributed::all_reduce(two, {.group = pair, .async_op = true});
    second->wait();
    first->wait();
    EXPECT_EQ(one.to_vector<int32_t>(), std::vector<int32_t>(100'000, 4));
    EXPECT_EQ(two.to_vector<int32_t>(), std::vector<int32_t>(100'000, 4));
  });
}

// Whoever leaves in the middle of a call has its memory back; a peer that comes later must not take what is in it then.
TEST(SharedTensors, of_a_rank_that_left_are_not_believed) {
  for (const char* reads : {"auto", "off"})
    for_each_world(ranks(2).with([&](Settings& settings) { settings.peer_reads = reads; }), [](TestWorld& world) {
      GroupHandle pair = distributed::new_group({0, 1});
      for (bool shared : {true, false}) {
        const bool shows = shared && world.rank() == 0;  // the other one waits for nobody
        Tensor given = shows ? alloc_shared(Shape{8192}, DType::int64) : private_tensor(Shape{8192}, DType::int64);
        Tensor got = private_tensor(Shape{8192}, DType::int64);
        GroupHandle doomed = distributed::new_group({0, 1});
        fill(given, world.rank());
        if (world.rank() == 0) {
          WorkPtr work = distributed::all_to_all_single(got, given, {.group = doomed, .async_op = true});
          EXPECT_THROW(work->wait(0.02), TimeoutError);
          distributed::destroy_process_group(doomed);
          EXPECT_THROW(work->wait(), StateError);
          fill(given, 77);
          distributed::barrier({.group = pair});
        } else {
          distributed::barrier({.group = pair});
          try {  // what was staged before it left is as good as ever
            distributed::all_to_all_single(got, given, {.group = doomed});
            EXPECT_FALSE(shared);
            expect_from(got, {0, 4096, 0, 4096}, "what it gave");
          } catch (const PeerLostError&) {
          }
        }
      }
    });
}

TEST(SharedTensors, are_sent_from_rank_to_rank) {
  for_each_world(ranks(2), [](TestWorld& world) {
    Tensor tensor = alloc_shared(Shape{100'000}, DType::int64);
    if (world.rank() == 0) {
      fill(tensor, 7);
      distributed::send(tensor, 1);
    } else {
      distributed::recv(tensor, 0);
      expect_from(tensor, {0, tensor.count(), 7, 0}, "letter");
    }
  });
}

TEST(SharedTensors, give_their_memory_back) {
  for_each_world(ranks(2), [](TestWorld& world) {
    distributed::barrier();
    const int64_t before = world.world().arena_taken_bytes();
    for (int round = 0; round < 50; ++round) {
      Tensor tensor = alloc_shared(Shape{1 << 20}, DType::float32);
      EXPECT_EQ(static_cast<float*>(tensor.data())[tensor.count() - 1], 0) << "memory that was used before is zero again";
      static_cast<float*>(tensor.data())[tensor.count() - 1] = 1;
      distributed::all_reduce(tensor);
      EXPECT_EQ(static_cast<float*>(tensor.data())[tensor.count() - 1], 2);
    }
    distributed::barrier();
    EXPECT_LT(world.world().arena_taken_bytes(), before + (32 << 20)) << "tiles at most";
  });
}

TEST(SharedTensors, outlive_the_world) {
  auto world = testing::join_as(0, 1, testing::unique_job(), testing::Worlds::test_settings());
  ASSERT_TRUE(world.ok());
  auto memory = (*world)->share_memory(1 << 20);
  ASSERT_TRUE(memory.ok());
  world->reset();
  memory->get()[(1 << 20) - 1] = std::byte{1};
  EXPECT_EQ(memory->get()[0], std::byte{0});
}

TEST(SharedTensors, that_do_not_fit_are_refused_with_the_numbers) {
  for_each_world(ranks(2).with([](Settings& settings) { settings.arena_bytes = 64 << 20; }), [](TestWorld&) {
    try {
      alloc_shared(Shape{100 << 20}, DType::uint8);
      FAIL() << "it does not fit";
    } catch (const MemoryError& error) {
      EXPECT_NE(std::string(error.what()).find("UNISONO_ARENA"), std::string::npos) << error.what();
    }
    EXPECT_THROW(alloc_shared(Shape{-1}, DType::uint8), ArgumentError);
    distributed::barrier();
  });
}

// While ranks add up each other's shared tensors, one of them dies: the others are told, and nothing false is returned.
TEST(SharedTensorDeath, is_told_and_nobody_returns_false_sums) {
  if (testing::under_thread_sanitizer()) GTEST_SKIP() << "reads what processes write";
  for (int round = 0; round < 5; ++round) {
    testing::Outcomes outcomes(3);
    auto endings = testing::run_processes(3, testing::Worlds::test_settings(), [&](TestWorld& world) {
      Tensor tensor = alloc_shared(Shape{500'000}, DType::int64);
      outcomes.note(world.rank(), [&] {
        for (int call = 0; call < 1000; ++call) {
          fill(tensor, world.rank(), call);
          if (world.rank() == 1 && call == 3 + round) raise(SIGKILL);
          distributed::all_reduce(tensor);
          expect_sum(tensor, 3, call, "all_reduce");
          ASSERT_FALSE(::testing::Test::HasFatalFailure());
        }
      });
    });
    EXPECT_TRUE(endings[0].succeeded() && endings[2].succeeded()) << endings[0].output << endings[2].output;
    testing::expect_lost(outcomes.of(0), {1});
    testing::expect_lost(outcomes.of(2), {1});
  }
}

}  // namespace
}  // namespace unisono
