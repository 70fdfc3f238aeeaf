// Groups whose givers may run ahead of the others.
#include <gtest/gtest.h>

#include "tests/support/test_world.hpp"
#include "unisono/distributed.hpp"

namespace unisono {
namespace {

using testing::for_each_world;
using testing::ranks;
using testing::TestWorld;

// A core for every rank is assumed, so that calls go through slots however few cores the machine has.
testing::Worlds roomy(int count) {
  return ranks(count).with([](Settings& settings) { settings.timeout_s = 20; });
}

GroupHandle group_that_runs_ahead(TestWorld& world, int run_ahead) {
  std::vector<int> members;
  for (int rank = 0; rank < world.ranks(); ++rank) members.push_back(rank);
  return distributed::new_group(members, {.run_ahead = run_ahead});
}

TEST(RunAhead, the_source_returns_before_the_others_have_come) {
  for_each_world(roomy(2), [](TestWorld& world) {
    if (world.world().crowded()) GTEST_SKIP() << "needs a core for every rank";
    GroupHandle group = group_that_runs_ahead(world, 4);
    // The source makes four broadcasts and only then meets the other on the world group: it cannot have waited for it.
    std::vector<std::vector<int32_t>> data(4, std::vector<int32_t>(2));
    if (world.rank() == 0)
      for (int call = 0; call < 4; ++call) {
        data[static_cast<size_t>(call)] = {call, 10 * call};
        distributed::broadcast(view(data[static_cast<size_t>(call)]), {.src = 0, .group = group});
      }
    distributed::barrier();
    if (world.rank() == 1)
      for (int call = 0; call < 4; ++call) {
        std::vector<int32_t>& tensor = data[static_cast<size_t>(call)];
        distributed::broadcast(view(tensor), {.src = 0, .group = group});
        EXPECT_EQ(tensor, (std::vector<int32_t>{call, 10 * call}));
      }
    distributed::barrier({.group = group});
  });
}

TEST(RunAhead, mixed_calls_stay_right) {
  for_each_world(ranks({2, 3}), [](TestWorld& world) {
    GroupHandle group = group_that_runs_ahead(world, 3);
    for (int call = 0; call < 500; ++call) {
      int root = call % world.ranks();
      std::vector<int64_t> tensor = {call * (world.rank() == root ? 1 : -1), world.rank()};
      distributed::broadcast(view(tensor), {.src = root, .group = group});
      ASSERT_EQ(tensor, (std::vector<int64_t>{call, root}));
      std::vector<int64_t> sum = {1, call};
      distributed::reduce(view(sum), root, {.group = group});
      if (world.rank() == root) {
        ASSERT_EQ(sum, (std::vector<int64_t>{world.ranks(), call * world.ranks()}));
      }
      if (call % 7 == 0) distributed::all_reduce(view(sum), {.group = group});
    }
  });
}

// In call 1 rank 1 differs. It hears of it there; the source is by then up to two calls ahead and hears of it in call 4, which
// has to wait for call 1 to be over and which it then refuses, so that rank 1 hears that. All other calls go well.
TEST(RunAhead, a_difference_reaches_the_source_at_a_later_call_and_the_group_goes_on) {
  for_each_world(ranks(2), [](TestWorld& world) {
    if (world.world().crowded()) GTEST_SKIP() << "needs a core for every rank";
    GroupHandle group = group_that_runs_ahead(world, 2);
    auto attempt = [&](int count, int call) {
      std::vector<float> data(static_cast<size_t>(count), static_cast<float>(world.rank() == 0 ? call : -1));
      try {
        distributed::broadcast(view(data), {.src = 0, .group = group});
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("count: rank 0 = 4, rank 1 = 5"), std::string::npos) << error.what();
        return error.code();
      }
      EXPECT_EQ(data, std::vector<float>(4, static_cast<float>(call)));
      return ErrorCode::ok;
    };
    for (int call = 1; call <= 8; ++call) {
      const ErrorCode at_the_source = call == 4 ? ErrorCode::mismatch : ErrorCode::ok;
      const ErrorCode elsewhere = call == 1 ? ErrorCode::mismatch : call == 4 ? ErrorCode::peer_argument : ErrorCode::ok;
      const int count = world.rank() == 1 && call == 1 ? 5 : 4;
      EXPECT_EQ(attempt(count, call), world.rank() == 0 ? at_the_source : elsewhere) << "rank " << world.rank() << ", call " << call;
    }
    std::vector<float> sum = {1};
    distributed::all_reduce(view(sum), {.group = group});
    EXPECT_EQ(sum[0], 2);
  });
}

TEST(RunAhead, more_than_the_ring_holds_is_refused) {
  for_each_world(ranks(1), [](TestWorld&) { EXPECT_THROW(distributed::new_group({0}, {.run_ahead = 11}), ArgumentError); });
}

}  // namespace
}  // namespace unisono
