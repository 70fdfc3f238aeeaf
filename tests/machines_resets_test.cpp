// Between two machines somebody on the way resets connections by which ranks tell each other of groups, faults and deaths; refuses the next ones, or tells one end only. Nobody
// counts as lost for that, and nothing that was told is.
#include <gtest/gtest.h>
#include <signal.h>

#include <numeric>

#include "tests/support/losses.hpp"
#include "tests/support/machine_job.hpp"
#include "tests/support/relay.hpp"

namespace unisono::testing {
namespace {

class Resets : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = cannot_relay(); !why.empty()) GTEST_SKIP() << why;
    if (under_thread_sanitizer()) GTEST_SKIP() << "starts processes";
  }
};

// What a group needs to be made is told by notices: what was lost with their connection is told again.
void make_groups_through_resets(const MachineJob& job) {
  const RelayedMachines machines;
  for (int machine : {0, 1}) machines.run_in(machine, "ip -6 address flush dev wire");  // or they would go that way
  std::vector<int> everybody(static_cast<size_t>(job.ranks()));
  std::iota(everybody.begin(), everybody.end(), 0);
  SharedArray<Signs> signs(1);
  Children children(job.ranks(), [&](int rank) {
    become_rank(machines, job, rank);
    distributed::init_process_group({});
    for (int round = 1; round <= 4; ++round) {
      expect_sum(rank, job.ranks(), 10);
      signs[0].ready += 1;
      EXPECT_TRUE(await([&] { return signs[0].go >= round; }));
      const GroupHandle made = distributed::new_group(everybody, {.timeout_s = 10});
      signs[0].rounds += 1;
      EXPECT_TRUE(await([&] { return signs[0].rounds == round * job.ranks(); }));  // until all have heard of each other: a refusal is not for connections of data
      std::vector<float> data(3, 1);
      distributed::all_reduce(view(data), {.group = made});
      EXPECT_EQ(data[0], static_cast<float>(job.ranks()));
      EXPECT_TRUE(distributed::failed_ranks().empty());
      distributed::barrier();  // nobody leaves before all have looked
    }
    distributed::destroy_process_group();
  }, 60);
  for (int round = 1; round <= 4; ++round) {
    ASSERT_TRUE(await([&] { return signs[0].ready == round * job.ranks(); })) << "round " << round;
    const int64_t reset = machines.faults().reset;
    const int resets = job.ranks() == 2 ? 1 : round;
    machines.faults().refusals = round - 1;
    machines.faults().tells_senders_only = round == 3;
    machines.faults().sealed_resets = resets;  // the first connections, and some of those that take their place
    signs[0].go = round;
    EXPECT_TRUE(await([&] { return machines.faults().reset >= reset + resets; })) << "no notices were sent";
  }
  expect_all_succeeded(children.wait());
  EXPECT_GT(machines.faults().refused, 0);
}

TEST_F(Resets, of_notices_lose_nothing) { make_groups_through_resets({.machine_of_rank = {0, 0, 1, 1}}); }
TEST_F(Resets, of_notices_lose_nobody_who_is_alone_on_a_machine) { make_groups_through_resets({.machine_of_rank = {0, 1}}); }

// Whoever tries to open a new connection gets no further than its kernel, for longer than any attempt lasts.
TEST_F(Resets, of_notices_of_a_stopped_process_leave_it_late) {
  if (!full_run()) GTEST_SKIP() << "UNISONO_TEST_FULL=1 takes these three minutes";
  const RelayedMachines machines;
  constexpr double stopped_s = 170;
  const MachineJob job{.machine_of_rank = {0, 1}};
  SharedArray<Signs> signs(1);
  Children children(2, [&](int rank) {
    become_rank(machines, job, rank);
    distributed::init_process_group({});
    expect_sum(rank, 2, 10);
    signs[0].ready += 1;
    EXPECT_TRUE(await([&] { return signs[0].go == 1; }));
    const GroupHandle made = distributed::new_group({0, 1}, {.timeout_s = 2 * stopped_s});
    distributed::barrier({.group = made});
    EXPECT_TRUE(distributed::failed_ranks().empty());
    distributed::destroy_process_group();
  }, 3 * stopped_s);
  ASSERT_TRUE(await([&] { return signs[0].ready == 2; }));
  children.signal(1, SIGSTOP);
  children.await_stopped(1);
  machines.faults().sealed_resets = 1;
  signs[0].go = 1;
  EXPECT_TRUE(await([&] { return machines.faults().reset == 1; }));
  const Deadline stays = Deadline::in_seconds(stopped_s);
  EXPECT_TRUE(await([&] { return stays.passed(); }, 2 * stopped_s));
  children.signal(1, SIGCONT);
  expect_all_succeeded(children.wait());
}

// A rank that dies just when its connection has been reset is told as soon as any other.
TEST_F(Resets, just_before_a_death_do_not_hide_it) {
  constexpr double dead_within_s = 2;
  const RelayedMachines machines;
  for (const std::vector<int>& layout : {std::vector{0, 1}, {0, 1, 1}}) {
    const MachineJob job{.machine_of_rank = layout};
    const Outcomes outcomes(job.ranks());
    SharedArray<Signs> signs(1);
    Children children(job.ranks(), [&](int rank) {
      become_rank(machines, job, rank);
      distributed::init_process_group({});
      expect_sum(rank, job.ranks(), 10);
      signs[0].ready += 1;
      if (rank == 1) { EXPECT_TRUE(await([&] { return signs[0].go == 1; })); }  // until it is killed
      outcomes.note(rank, [&] { distributed::barrier(); });
      distributed::destroy_process_group();
    }, 60);
    ASSERT_TRUE(await([&] { return signs[0].ready == job.ranks(); }));
    const int64_t reset = machines.faults().reset;
    machines.faults().sealed_resets = 1;  // of rank 0, which asks whom it waits for
    ASSERT_TRUE(await([&] { return machines.faults().reset > reset; }));
    const int64_t killed_ns = now_ns();
    children.signal(1, SIGKILL);
    ASSERT_TRUE(await([&] { return outcomes.of(0).was_made(); }));
    expect_lost(outcomes.of(0), {1});
    EXPECT_LT(seconds_between(killed_ns, outcomes.of(0).ended_ns), dead_within_s) << outcomes.of(0).text();
    children.wait();
  }
}

}  // namespace
}  // namespace unisono::testing
