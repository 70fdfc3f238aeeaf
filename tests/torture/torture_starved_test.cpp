// Ranks that hardly ever run: eight processes beside them compute without end. Slow is not dead: no rank is declared lost, no
// deadline passes, every number is right.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/losses.hpp"
#include "tests/torture/rounds.hpp"

namespace unisono::testing {
namespace {

constexpr int busy_processes = 8, ranks_beside = 4;

void call_on_every_path(TestWorld& world) {
  for (int64_t count : {1, 3000, 20'000, 300'000}) {
    std::vector<int32_t> data(static_cast<size_t>(count), 1 + world.rank());
    distributed::all_reduce(view(data), {.group = world.group()});
    if (data != std::vector<int32_t>(data.size(), ranks_beside * (ranks_beside + 1) / 2)) ADD_FAILURE() << count << " are wrong";
  }
}

TEST(Torture, of_starved_ranks) {
  const double patience_s = Progress("starved").patience_s();
  SharedArray<std::atomic<int>> over(1);
  SharedArray<std::atomic<int64_t>> turns(busy_processes);
  Children busy(busy_processes, [&](int index) {
    while (over[0] == 0) turns[index] += 1;
  }, patience_s);
  EXPECT_TRUE(await([&] {
    int64_t started = 0;
    for (int index = 0; index < busy_processes; ++index) started += turns[index] > 0;
    return started == busy_processes;
  }));
  WorldChoice choice{.size = ranks_beside};
  choice.settings.timeout_s = 30;
  Children children(ranks_beside, [&](int rank) {
    Progress progress("starved");
    as_rank(rank, choice, [&](TestWorld& world) {
      for (int64_t rounds = 1;; ++rounds) {
        call_on_every_path(world);
        std::vector<int32_t> goes_on = {rank == 0 && !progress.is_over() && !::testing::Test::HasFailure()};
        distributed::broadcast(view(goes_on), {.group = world.group()});
        if (goes_on[0] == 0) break;
        if (rank == 0) progress.tell(fmt::format("{} rounds", rounds));
      }
    });
  }, patience_s);
  expect_all_succeeded(children.wait());
  over[0] = 1;
  expect_all_succeeded(busy.wait());
}

}  // namespace
}  // namespace unisono::testing
