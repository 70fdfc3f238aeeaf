// A rank that does not run for a while: stopped by a signal, or frozen with its control group, as schedulers and snapshots do.
// Continued before the deadline it has only been late: the others say whom they wait for, and the call gives what it should.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/support/calls.hpp"
#include "tests/support/cgroup.hpp"
#include "tests/support/children.hpp"
#include "tests/support/outcomes.hpp"
#include "tests/support/rank_process.hpp"

namespace unisono::testing {
namespace {

struct Signs {
  std::atomic<int> ready, go;
};

struct Pause {
  std::function<void(Children&, int)> begin, end;
};

void sum_many(const TestWorld& world) {
  std::vector<int32_t> data(300'000, world.rank() + 1);
  distributed::all_reduce(view(data), {.group = world.group()});
  EXPECT_EQ(data, std::vector<int32_t>(data.size(), 6));
}

void expect_only_late(int paused, const Pause& pause) {
  SharedArray<Signs> signs(1);
  WorldChoice choice{.size = 3};
  choice.settings.timeout_s = 30;
  choice.settings.warn_after_s = 0.2;
  Children children(3, [&](int rank) {
    as_rank(rank, choice, [&](TestWorld& world) {
      sum_many(world);
      signs[0].ready += 1;
      if (rank == paused) { EXPECT_TRUE(await([&] { return signs[0].go == 1; })); }
      sum_many(world);
      expect_works(world);
    });
  });
  ASSERT_TRUE(await([&] { return signs[0].ready == 3; }));
  pause.begin(children, paused);
  signs[0].go = 1;
  for (int rank = 0; rank < 3; ++rank)
    if (rank != paused) children.await_output(rank, fmt::format("rank {} has not entered call", paused));
  pause.end(children, paused);
  expect_all_succeeded(children.wait());
}

TEST(Frozen, by_a_signal_a_rank_is_named_as_late_and_the_call_completes) {
  if (in_rough_mode('d')) GTEST_SKIP() << "reads the warning from standard error, which is closed";
  const Pause by_signal = {[](Children& children, int rank) {
                             children.signal(rank, SIGSTOP);
                             children.await_stopped(rank);
                           },
                           [](Children& children, int rank) { children.signal(rank, SIGCONT); }};
  for (int paused : {0, 2}) expect_only_late(paused, by_signal);
}

TEST(Frozen, by_its_control_group_a_rank_is_named_as_late_and_the_call_completes) {
  if (in_rough_mode('d')) GTEST_SKIP() << "reads the warning from standard error, which is closed";
  Cgroup freezer("freezer");
  if (!freezer.thaw()) GTEST_SKIP() << freezer.why_not();
  const Pause by_freezer = {[&](Children& children, int rank) {
                              EXPECT_TRUE(freezer.add(children.pid(rank)) && freezer.freeze()) << freezer.why_not();
                            },
                            [&](Children&, int) { EXPECT_TRUE(freezer.thaw()) << freezer.why_not(); }};
  for (int paused : {0, 2}) expect_only_late(paused, by_freezer);
}

}  // namespace
}  // namespace unisono::testing
