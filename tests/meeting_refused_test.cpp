// A rank that cannot join, and one on another machine that comes when the others have heard of it already. It hears why, where somebody lives who can tell it; and nobody
// who tries again, nor a later run, hears of an attempt that is over.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/losses.hpp"
#include "tests/support/meeting_watch.hpp"
#include "tests/support/outcomes.hpp"

namespace unisono::testing {
namespace {

class MeetingRefused : public OnMachines {};

const std::string reason = "UNISONO_PLAN";

void expect_refused(const Outcome& outcome, double within_s) {
  EXPECT_NE(outcome.code, ErrorCode::ok);
  EXPECT_NE(outcome.text().find(reason), std::string::npos) << outcome.text();
  EXPECT_LT(outcome.took_s(), within_s) << outcome.text();
}

void expect_joined(const Outcome& outcome) { EXPECT_TRUE(outcome.was_made() && outcome.code == ErrorCode::ok) << outcome.text(); }

// Three ranks on three machines; rank 1 is given a plan that cannot be, the first time.
struct Attempt {
  bool by_given_store = false;
  bool refuses = false;
  double join_timeout_s = 20;
};

void join_once(const TestMachines& machines, int rank, const Attempt& attempt) {
  MachineJob job{.machine_of_rank = {0, 1, 2}, .variables = {{"UNISONO_JOIN_TIMEOUT", std::to_string(attempt.join_timeout_s)}}};
  if (attempt.refuses && rank == 1) job.variables["UNISONO_PLAN"] = "nonsense";
  unsetenv("UNISONO_PLAN");
  become_rank(machines, job, rank);
  if (attempt.by_given_store) distributed::init_process_group({.rank = rank, .world_size = 3, .store = given_store(false)});
  else distributed::init_process_group({});
  expect_sum(rank, 3, 100);
  distributed::destroy_process_group();
}

bool listens(const std::string& host, int port) {
  const auto address = Address::parse(fmt::format("{}:{}", host, port));
  const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return address && connect(socket.number(), address->get(), address->bytes()) == 0;
}

void let_pass(double seconds) {
  const Deadline deadline = Deadline::in_seconds(seconds);
  EXPECT_TRUE(await([&] { return deadline.passed(); }));
}

// Rank 0's process lives on, and so can tell. Rank 2 comes three seconds after all others have given up. Then all try again: rank 2 first, which waits for rank 0.
TEST_F(MeetingRefused, is_heard_by_a_machine_that_comes_later_and_not_twice) {
  const TestMachines machines(3);
  Outcomes outcomes(3, 2);
  SharedArray<Signs> signs(1);
  expect_all_succeeded(Children(3, [&](int rank) {
    become_rank(machines, {.machine_of_rank = {0, 1, 2}}, rank);
    if (rank == 1) { ASSERT_TRUE(await([&] { return listens(TestMachines::address(0), 29500); })); }
    if (rank == 2) { ASSERT_TRUE(await([&] { return signs[0].ready == 2; })); }
    if (rank == 2) let_pass(3);  // for which those who give up tell it in any case
    outcomes.note(rank, 0, [&] { join_once(machines, rank, {.refuses = true}); });
    signs[0].ready += 1;
    const int comes_at = rank == 2 ? 3 : 4;
    ASSERT_TRUE(await([&] { return signs[0].ready >= comes_at; }));
    if (rank == 2) signs[0].ready += 1;
    if (rank != 2) let_pass(1);  // in which rank 2 may hear of the attempt before
    outcomes.note(rank, 1, [&] { join_once(machines, rank, {}); });
  }, 60).wait());
  for (int rank : {0, 1, 2}) expect_refused(outcomes.of(rank, 0), 4);
  for (int rank : {0, 1, 2}) expect_joined(outcomes.of(rank, 1));
}

// While the store of the failed attempt is still served by its rank 0, another process becomes rank 0.
TEST_F(MeetingRefused, does_not_keep_another_process_from_serving_the_next_attempt) {
  const TestMachines machines(3);
  Outcomes outcomes(5);
  SharedArray<Signs> signs(1);
  expect_all_succeeded(Children(5, [&](int process) {  // ranks 0 and 1, then 0, 1 and 2
    const bool is_first = process < 2;
    const int rank = is_first ? process : process - 2;
    become_rank(machines, {.machine_of_rank = {0, 1, 2}}, rank);
    if (process == 1) { ASSERT_TRUE(await([&] { return listens(TestMachines::address(0), 29500); })); }
    if (!is_first) { ASSERT_TRUE(await([&] { return signs[0].ready == 2; })); }
    if (rank == 2) { ASSERT_TRUE(await([&] { return signs[0].go == 1; })); }  // it has not heard of the first attempt, and is not to
    if (process == 2) { EXPECT_TRUE(listens(TestMachines::address(0), 29500)) << "nobody holds it"; }
    if (process == 2) let_pass(0.5);
    if (process == 3) let_pass(1.5);
    if (process == 3) signs[0].go = 1;
    outcomes.note(process, [&] { join_once(machines, rank, {.refuses = is_first}); });
    signs[0].ready += 1;
    if (is_first) { ASSERT_TRUE(await([&] { return signs[0].ready == 5; })); }
  }, 60).wait());
  for (int process : {0, 1}) expect_refused(outcomes.of(process), 4);
  for (int process : {2, 3, 4}) expect_joined(outcomes.of(process));
}

// Where nobody lives who could tell, or where what lies in a store outlives everybody: a fresh process of rank 2 comes before the others of the next run, and waits.
void try_a_later_run(bool by_given_store) {
  const TestMachines machines(3);
  Outcomes outcomes(5);
  SharedArray<Signs> signs(1);
  Children children(6, [&](int process) {
    const bool is_first = process < 2;
    const int rank = process == 5 ? 0 : is_first ? process : process - 2;
    become_rank(machines, {.machine_of_rank = {0, 1, 2}}, rank);
    if (process == 5) {
      if (!by_given_store) return;
      const auto store = given_store(true);
      for (;;) pause();
    }
    if (process == 1 && !by_given_store) { ASSERT_TRUE(await([&] { return listens(TestMachines::address(0), 29500); })); }
    if (!is_first) { ASSERT_TRUE(await([&] { return signs[0].ready == 2; })); }
    if (!is_first && rank == 2) signs[0].go = 1;
    if (!is_first && rank != 2) { ASSERT_TRUE(await([&] { return signs[0].go == 1; })); }
    if (!is_first && rank != 2) let_pass(2);  // in which rank 2 may hear of the run before
    outcomes.note(process, [&] { join_once(machines, rank, {.by_given_store = by_given_store, .refuses = is_first}); });
    signs[0].ready += 1;
  }, 60);
  EXPECT_TRUE(await([&] { return signs[0].ready == 5; }));
  if (by_given_store) children.kill(5);
  children.wait();
  for (int process : {0, 1}) expect_refused(outcomes.of(process), 4);
  for (int process : {2, 3, 4}) expect_joined(outcomes.of(process));
}

TEST_F(MeetingRefused, is_not_heard_by_a_later_run) { try_a_later_run(false); }
TEST_F(MeetingRefused, is_not_heard_by_a_later_run_with_the_same_store) { try_a_later_run(true); }

// Rank 0 of the run before was killed when somebody had given up, and could not take back the name under which that stands; the test leaves what it would have left.
TEST_F(MeetingRefused, is_not_heard_by_a_later_run_though_rank_0_of_the_one_before_was_killed) {
  const TestMachines machines(3);
  Outcomes outcomes(3);
  SharedArray<Signs> signs(1);
  Children children(4, [&](int process) {
    become_rank(machines, {.machine_of_rank = {0, 1, 2}}, process % 3);
    if (process == 3) {
      const auto store = given_store(true);
      store->set("unisono/world/1/name", "store " + std::string(32, 'a'));
      store->set(prefix_in(*store) + "/gave_up/0", "8 rank 1 (pid 4711) cannot join: UNISONO_PLAN");
      signs[0].go = 1;
      for (;;) pause();
    }
    ASSERT_TRUE(await([&] { return signs[0].go >= 1; }));
    if (process == 2) signs[0].go = 2;
    if (process != 2) { ASSERT_TRUE(await([&] { return signs[0].go == 2; })); }
    if (process != 2) let_pass(1);  // in which rank 2 may hear of the run before
    outcomes.note(process, [&] { join_once(machines, process, {.by_given_store = true}); });
    signs[0].ready += 1;
  }, 60);
  EXPECT_TRUE(await([&] { return signs[0].ready == 3; }));
  children.kill(3);
  children.wait();
  for (int rank : {0, 1, 2}) expect_joined(outcomes.of(rank));
}

// A store outlives the attempt. Whoever comes late cannot know that it is late: it waits, and then says what became of the others.
TEST_F(MeetingRefused, is_told_at_the_deadline_of_who_comes_later_by_a_given_store) {
  const TestMachines machines(3);
  Outcomes outcomes(3);
  SharedArray<Signs> signs(1);
  Children children(4, [&](int process) {
    become_rank(machines, {.machine_of_rank = {0, 1, 2}}, process % 3);
    if (process == 3) {
      const auto store = given_store(true);
      for (;;) pause();
    }
    if (process == 2) { ASSERT_TRUE(await([&] { return signs[0].ready == 2; })); }
    outcomes.note(process, [&] { join_once(machines, process, {.by_given_store = true, .refuses = true, .join_timeout_s = process == 2 ? 3.0 : 20.0}); });
    signs[0].ready += 1;
  }, 60);
  EXPECT_TRUE(await([&] { return signs[0].ready == 3; }));
  children.kill(3);
  children.wait();
  for (int rank : {0, 1, 2}) expect_refused(outcomes.of(rank), 4);
  EXPECT_NE(outcomes.of(2).text().find("The last attempt failed: rank 1"), std::string::npos) << outcomes.of(2).text();
}

}  // namespace
}  // namespace unisono::testing
