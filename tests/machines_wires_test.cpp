// Ranks on two machines with a bad wire between them: slow, lossy, one that cuts everything into single bytes, alters bits, resets connections, swallows
// long packets; and a peer that does not read. What comes out is right, or an error in time, and nobody is called dead who is not.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/support/losses.hpp"
#include "tests/support/machine_job.hpp"
#include "tests/support/relay.hpp"
#include "tests/support/scale.hpp"
#include "tests/support/trial_lists.hpp"

namespace unisono::testing {
namespace {

const std::map<std::string, std::string> sealed = {{"UNISONO_ENCRYPT", "on"}};

class Wires : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = cannot_relay(); !why.empty()) GTEST_SKIP() << why;
    if (under_thread_sanitizer()) GTEST_SKIP() << "starts processes";
  }
};

// Every collective in both dialects, dtypes, ops and roots in turns, synchronous and not; of all of that each n-th.
void perform_every(int n, int ranks) {
  std::vector<int> everybody;
  for (int rank = 0; rank < ranks; ++rank) everybody.push_back(rank);
  const GroupHandle group = distributed::new_group(everybody);
  int number = 0;
  for (Trial trial : trials_of_numbers({.ranks = ranks, .every = n}, 29)) {
    trial.async_op = trial.form->has_async && ++number % 2 == 0;
    perform(trial, group.group());
  }
}

// Ranks that have joined, wait for the test to do something to the wire, and say how the call after it ended.
Outcomes outcomes_after(const TestMachines& machines, const MachineJob& job, const std::function<void()>& happens, size_t count) {
  Outcomes outcomes(job.ranks());
  SharedArray<Signs> signs(1);
  Children children(job.ranks(), [&](int rank) {
    become_rank(machines, job, rank);
    distributed::init_process_group({});
    expect_sum(rank, job.ranks(), 10);
    signs[0].ready += 1;
    EXPECT_TRUE(await([&] { return signs[0].go == 1; }));
    outcomes.note(rank, [&] { expect_sum(rank, job.ranks(), count); });
  }, 60);
  EXPECT_TRUE(await([&] { return signs[0].ready == job.ranks(); }));
  happens();
  signs[0].go = 1;
  expect_all_succeeded(children.wait());
  return outcomes;
}

TEST_F(Wires, of_ten_megabits_are_slow_and_nothing_else) {
  const TwoMachines machines;
  for (int machine : {0, 1}) machines.run_in(machine, "tc qdisc add dev wire root tbf rate 10mbit burst 16k latency 50ms");
  const size_t count = full_run() ? 3'000'000 : 300'000;
  const int64_t began_ns = now_ns();
  run_job(machines, {.machine_of_rank = {0, 1, 0, 1}}, [&](int rank) {
    expect_sum(rank, 4, count);
    perform_every(full_run() ? 1 : 20, 4);
  });
  EXPECT_GT(seconds_between(began_ns, now_ns()), static_cast<double>(count) * 4 * 8 / 10e6 / 2) << "the wire was not slow";
}

// TCP alone notices. Joining goes over it as well in the full run, where a lost SYN costs a second.
TEST_F(Wires, that_lose_a_fifth_of_all_packets_deliver_the_rest) {
  const RelayedMachines machines;
  WireFaults& faults = machines.faults();
  if (full_run()) faults.lost_percent = 20;
  run_job(machines, {.machine_of_rank = {0, 1}, .variables = {{"UNISONO_TIMEOUT", "60"}}}, [&](int rank) {
    expect_sum(rank, 2, 10);
    faults.lost_percent = 20;
    expect_sum(rank, 2, full_run() ? 100'000 : 10'000);
    for (int round = 0; round < 40; ++round) expect_sum(rank, 2, 10);  // whose last packet is lost at times: only a timer of TCP's brings it again
    perform_every(full_run() ? 5 : 200, 2);
    faults.lost_percent = 0;
  });
  EXPECT_GT(faults.lost, 20);
}

TEST_F(Wires, that_carry_one_byte_at_a_time_carry_all) {
  for (const auto& variables : {std::map<std::string, std::string>(), sealed}) {
    const RelayedMachines machines;
    machines.faults().one_byte_each = true;
    run_job(machines, {.machine_of_rank = {0, 1}, .variables = variables}, [](int rank) {
      for (size_t count : {1, 100, 5'000}) expect_sum(rank, 2, count);
      perform_every(full_run() ? 1 : 20, 2);
    });
    EXPECT_GT(machines.faults().cut_up, 50);
  }
}

// The reads and writes of the ranks themselves move a byte, or none, or some part.
TEST_F(Wires, that_stutter_at_both_ends_carry_all) {
  const TwoMachines machines;
  for (auto variables : {std::map<std::string, std::string>(), sealed}) {
    variables["UNISONO_TEST_STREAMS"] = "rough:7";
    run_job(machines, {.machine_of_rank = {0, 1, 1, 0}, .variables = variables}, [](int rank) {
      for (size_t count : {1, 1000, 100'000}) expect_sum(rank, 4, count);
      perform_every(full_run() ? 1 : 10, 4);
    });
  }
}

TEST_F(Wires, that_turn_a_bit_over_are_found_out_where_bytes_are_sealed) {
  const RelayedMachines machines;
  const Outcomes outcomes = outcomes_after(machines, {.machine_of_rank = {0, 1}, .variables = sealed}, [&] { machines.faults().flips = 1; }, 100'000);
  EXPECT_EQ(machines.faults().flipped, 1);
  for (int rank : {0, 1}) {
    EXPECT_EQ(outcomes.of(rank).code, ErrorCode::peer_lost) << outcomes.of(rank).text();
    EXPECT_LT(outcomes.of(rank).took_s(), 2) << outcomes.of(rank).text();
  }
}

// The way is lost, and with it the group; the ranks are not, and go on in a new one.
TEST_F(Wires, that_reset_a_connection_lose_no_rank) {
  const RelayedMachines machines;
  const MachineJob job{.machine_of_rank = {0, 1}};
  SharedArray<Signs> signs(1);
  const Outcomes outcomes(2);
  Children children(2, [&](int rank) {
    become_rank(machines, job, rank);
    distributed::init_process_group({});
    expect_sum(rank, 2, 10);
    signs[0].ready += 1;
    EXPECT_TRUE(await([&] { return signs[0].go == 1; }));
    outcomes.note(rank, [&] { expect_sum(rank, 2, 100'000); });
    EXPECT_EQ(distributed::failed_ranks(), std::vector<int>());
    const GroupHandle rest = distributed::shrink_group();
    EXPECT_EQ(distributed::get_world_size(rest), 2);
    std::vector<float> data(3, 1);
    distributed::all_reduce(view(data), {.group = rest});
    EXPECT_EQ(data[0], 2);
    distributed::destroy_process_group();
  }, 60);
  ASSERT_TRUE(await([&] { return signs[0].ready == 2; }));
  machines.faults().resets = 1;
  signs[0].go = 1;
  expect_all_succeeded(children.wait());
  for (int rank : {0, 1}) expect_lost(outcomes.of(rank), {0, 1});
}

TEST_F(Wires, that_reset_a_connection_in_the_middle_of_a_message_lose_the_peer) {
  for (const auto& variables : {std::map<std::string, std::string>(), sealed}) {
    const RelayedMachines machines;
    const Outcomes outcomes = outcomes_after(machines, {.machine_of_rank = {0, 1}, .variables = variables}, [&] { machines.faults().resets = 1; }, 100'000);
    EXPECT_EQ(machines.faults().reset, 1);
    for (int rank : {0, 1}) {
      expect_lost(outcomes.of(rank), {0, 1});  // whichever saw it first says that the other is lost, and both hear that
      EXPECT_LT(outcomes.of(rank).took_s(), 2) << outcomes.of(rank).text();
    }
  }
}

// The number before these words; -1: there are none.
int64_t number_before(const std::string& words, const std::string& text) {
  const size_t at = text.find(words);
  if (at == text.npos) return -1;
  const size_t before = text.find_last_not_of("0123456789", at - 1) + 1;
  return before < at ? std::stoll(text.substr(before, at - before)) : -1;
}

TEST_F(Wires, that_swallow_long_packets_end_in_a_timeout_that_says_how_far_it_came) {
  const RelayedMachines machines;
  const MachineJob job{.machine_of_rank = {0, 1}, .variables = {{"UNISONO_TIMEOUT", "3"}}};
  constexpr int pass = 20;  // of the packets of a message, which has a hundred and more
  const Outcomes outcomes = outcomes_after(machines, job, [&] {
    for (auto& left : machines.faults().long_ones_pass) left = pass;
    machines.faults().longest_bytes = 1000;
  }, 100'000);
  EXPECT_GT(machines.faults().too_long, 0);
  for (int rank : {0, 1}) {
    const Outcome& outcome = outcomes.of(rank);
    EXPECT_EQ(outcome.code, ErrorCode::timeout) << outcome.text();
    const int64_t came = number_before(" of 200000 bytes from rank ", outcome.text());  // as the first to give up has told both
    EXPECT_TRUE(came > 0 && came <= pass * 1500) << outcome.text();
    EXPECT_GT(outcome.took_s(), 2.9);
    EXPECT_LT(outcome.took_s(), 4.5) << outcome.text();
  }
}

// It computes, or is stopped, and what is sent to it stays where it is: not a reason to give it up.
TEST_F(Wires, to_a_peer_that_does_not_read_for_long_stay_open) {
  const TwoMachines machines;
  const double pause_s = full_run() ? 30 : 3;
  SharedArray<Signs> signs(1);
  Children children(2, [&](int rank) {
    become_rank(machines, {.machine_of_rank = {0, 1}, .variables = {{"UNISONO_TIMEOUT", "60"}}}, rank);
    distributed::init_process_group({});
    expect_sum(rank, 2, 10);
    signs[0].ready += 1;
    if (rank == 1) { EXPECT_TRUE(await([&] { return signs[0].go == 1; }, 60)); }
    std::vector<float> data(20'000'000, rank == 0 ? 7.0f : 0.0f);
    distributed::broadcast(view(data), {.src = 0});
    EXPECT_TRUE(std::ranges::all_of(data, [](float value) { return value == 7; }));
    if (rank == 0) signs[0].rounds = 1;
    expect_sum(rank, 2, 1000);
    distributed::destroy_process_group();
  }, 90);
  ASSERT_TRUE(await([&] { return signs[0].ready == 2; }));
  children.signal(1, SIGSTOP);
  children.await_stopped(1);
  EXPECT_FALSE(await([&] { return signs[0].rounds == 1; }, pause_s)) << "all of it went into buffers: give more";
  children.signal(1, SIGCONT);
  signs[0].go = 1;
  expect_all_succeeded(children.wait());
}

}  // namespace
}  // namespace unisono::testing
