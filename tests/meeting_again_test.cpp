// Who comes to the place where the ranks of a running world have met: a rank that has left, for the next world; one that was killed and started again; a second
// process of a rank. The first waits, the others are refused in time, and the world goes on.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/support/losses.hpp"
#include "tests/support/meeting_watch.hpp"
#include "tests/support/outcomes.hpp"

namespace unisono::testing {
namespace {

class MeetingAgain : public OnMachines {};

void expect_refused(const Outcome& outcome, const std::vector<std::string>& words) {
  EXPECT_EQ(outcome.code, ErrorCode::init) << outcome.text();
  for (const std::string& word : words) EXPECT_NE(outcome.text().find(word), std::string::npos) << outcome.text() << "\nshould say " << word;
  EXPECT_LT(outcome.took_s(), 3) << outcome.text();
}

// Rank 1 leaves and comes again at once; rank 0 stays for longer than it takes to be refused.
TEST_F(MeetingAgain, a_rank_that_has_left_waits_for_the_next_world_however_long_the_old_one_lasts) {
  const TwoMachines machines;
  expect_all_succeeded(Children(2, [&](int rank) {
    become_rank(machines, {}, rank);
    distributed::init_process_group({});
    expect_sum(rank, 2, 100);
    const Deadline stays = Deadline::in_seconds(2.5);
    if (rank == 0) { EXPECT_TRUE(await([&] { return stays.passed(); })); }
    distributed::destroy_process_group();
    become_rank(machines, {}, rank);
    distributed::init_process_group({});
    expect_sum(rank, 2, 100);
    distributed::destroy_process_group();
  }, 60).wait());
}

// From a machine on which nobody of the job is; the job's ranks are on two machines, or on one.
TEST_F(MeetingAgain, a_second_process_of_a_rank_is_refused_and_the_world_goes_on) {
  for (const int machine_of_rank_1 : {1, 0}) {
    SCOPED_TRACE(fmt::format("rank 1 on machine {}", machine_of_rank_1));
    const TestMachines machines(3);
    Outcomes outcomes(3);
    SharedArray<std::atomic<int>> joined(1), refused(1);
    expect_all_succeeded(Children(3, [&](int process) {
      const int rank = std::min(process, 1);
      become_rank(machines, {.machine_of_rank = {0, process == 2 ? 2 : machine_of_rank_1}}, rank);
      if (process == 2) { ASSERT_TRUE(await([&] { return joined[0] == 2; })); }
      outcomes.note(process, [&] { distributed::init_process_group({}); });
      if (process == 2) refused[0] = 1;
      if (process == 2) return;
      joined[0] += 1;
      ASSERT_TRUE(await([&] { return refused[0] == 1; }));
      expect_sum(rank, 2, 100);
      distributed::destroy_process_group();
    }, 60).wait());
    for (int process : {0, 1}) EXPECT_EQ(outcomes.of(process).code, ErrorCode::ok) << outcomes.of(process).text();
    expect_refused(outcomes.of(2), {"already running with 2 ranks", "its rank 1 is pid ", machine_of_rank_1 == 1 ? " on two" : " on one", "not rank 1 (pid ", " on three"});
  }
}

// Its machine has nobody else of the job.
TEST_F(MeetingAgain, a_rank_that_was_killed_and_started_again_is_refused_by_the_old_world_and_welcome_in_the_next) {
  const TwoMachines machines;
  Outcomes outcomes(3, 2);
  SharedArray<std::atomic<int>> joined(1), killed(1), refused(1);
  const auto endings = Children(3, [&](int process) {
    const int rank = std::min(process, 1);
    become_rank(machines, {}, rank);
    if (process == 2) { ASSERT_TRUE(await([&] { return killed[0] == 1; })); }
    outcomes.note(process, 0, [&] { distributed::init_process_group({}); });
    if (process == 0) joined[0] = 1;
    if (process == 1) {
      ASSERT_TRUE(await([&] { return joined[0] == 1; }));
      killed[0] = 1;
      raise(SIGKILL);
    }
    if (process == 2) refused[0] = 1;
    ASSERT_TRUE(await([&] { return refused[0] == 1; }));
    if (process == 0) distributed::destroy_process_group();
    become_rank(machines, {}, rank);
    outcomes.note(process, 1, [&] {
      distributed::init_process_group({});
      expect_sum(rank, 2, 100);
      distributed::destroy_process_group();
    });
  }, 60).wait();
  for (int process : {0, 2}) EXPECT_TRUE(endings[static_cast<size_t>(process)].succeeded()) << endings[static_cast<size_t>(process)].output;
  expect_refused(outcomes.of(2, 0), {"already running with 2 ranks", "its rank 1 is pid "});
  for (int process : {0, 2}) EXPECT_EQ(outcomes.of(process, 1).code, ErrorCode::ok) << outcomes.of(process, 1).text();
}

// By a store that outlives the world, and of which nobody of the world knows who asks it. The second process is on a machine on which nobody of the job is.
TEST_F(MeetingAgain, a_second_process_of_a_rank_is_refused_by_a_given_store_and_the_world_goes_on) {
  for (const int second : {1, 0}) {
    SCOPED_TRACE(fmt::format("of rank {}", second));
    const TestMachines machines(3);
    Outcomes outcomes(3);
    SharedArray<std::atomic<int>> joined(1), refused(1);
    Children children(4, [&](int process) {
      const int rank = process == 2 ? second : process % 2;
      become_rank(machines, {.machine_of_rank = {process == 2 ? 2 : 0, process == 2 ? 2 : 1}}, rank);
      if (process == 3) {
        machines.enter(0);
        const auto store = given_store(true);
        for (;;) pause();
      }
      const auto store = given_store(false);
      if (process == 2) { ASSERT_TRUE(await([&] { return joined[0] == 2; })); }
      outcomes.note(process, [&] { distributed::init_process_group({.rank = rank, .world_size = 2, .store = store}); });
      if (process == 2) refused[0] = 1;
      if (process == 2) return;
      joined[0] += 1;
      ASSERT_TRUE(await([&] { return refused[0] == 1; }));
      expect_sum(rank, 2, 100);
      distributed::destroy_process_group();
      joined[0] += 1;
    }, 60);
    EXPECT_TRUE(await([&] { return joined[0] == 4; }));
    children.kill(3);
    children.wait();
    for (int process : {0, 1}) EXPECT_EQ(outcomes.of(process).code, ErrorCode::ok) << outcomes.of(process).text();
    expect_refused(outcomes.of(2), {"already running with 2 ranks", fmt::format("its rank {} is pid {} on {}", second, children.pid(second), second == 0 ? "one" : "two"), " on three"});
  }
}

// A process of that rank was killed, and the others have not left yet; or all were killed, and the store lives on. Then who comes waits for the next world, which is made.
TEST_F(MeetingAgain, a_rank_that_was_killed_and_started_again_waits_for_the_next_world_of_a_given_store) {
  for (const bool all_are_killed : {false, true}) {
    SCOPED_TRACE(all_are_killed ? "all are killed" : "one is killed");
    const TwoMachines machines;
    Outcomes outcomes(4);
    SharedArray<std::atomic<int>> joined(1), killed(1);
    Children children(5, [&](int process) {  // 0 and 1, then 0 and 1 again, and the store
      const int rank = process % 2;
      become_rank(machines, {}, rank);
      if (process == 4) {
        const auto store = given_store(true);
        for (;;) pause();
      }
      const auto store = given_store(false);
      auto join = [&](int as) {
        outcomes.note(as, [&] {
          distributed::init_process_group({.rank = rank, .world_size = 2, .store = store});
          expect_sum(rank, 2, 100);
        });
        joined[0] += 1;
      };
      if (process >= 2) { ASSERT_TRUE(await([&] { return killed[0] == 1; })); }
      const Deadline later = Deadline::in_seconds(2.5);  // for longer than who comes asks
      if (process == 2 && !all_are_killed) return;       // the first process of rank 0 lives, and comes itself
      if (process == 2) { ASSERT_TRUE(await([&] { return later.passed(); })); }
      join(process);
      if (process < 2) {
        ASSERT_TRUE(await([&] { return killed[0] == 1; }));
        const Deadline stays = Deadline::in_seconds(2.5);
        ASSERT_TRUE(await([&] { return stays.passed(); }));
        distributed::destroy_process_group();
        join(2);
      }
      distributed::destroy_process_group();
    }, 60);
    EXPECT_TRUE(await([&] { return joined[0] == 2; }));
    children.kill_together(all_are_killed ? std::vector{0, 1} : std::vector{1});
    killed[0] = 1;
    EXPECT_TRUE(await([&] { return joined[0] == 4; }));
    children.kill(4);
    children.wait();
    for (int process : {2, 3}) EXPECT_TRUE(outcomes.of(process).was_made() && outcomes.of(process).code == ErrorCode::ok) << outcomes.of(process).text();
  }
}

}  // namespace
}  // namespace unisono::testing
