// Ranks on machines that are killed while they wait to join; on one machine: join_test. The others wait for them until their deadline, since they may be started again, and say then who came and is gone.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "rendezvous/roster.hpp"
#include "tests/support/losses.hpp"
#include "tests/support/meeting_watch.hpp"
#include "tests/support/outcomes.hpp"

namespace unisono::testing {
namespace {

class MeetingKilled : public OnMachines {};

void expect_says(const Outcome& outcome, const std::vector<std::string>& words) {
  EXPECT_EQ(outcome.code, ErrorCode::init) << outcome.text();
  for (const std::string& word : words) EXPECT_NE(outcome.text().find(word), std::string::npos) << outcome.text() << "\nshould say " << word;
}

// Ranks 0 and 1 are on the first machine, 2 and 3 on the second, where 2 comes first and is the agent. Rank 4 does not come.
struct Scene {
  bool by_given_store = false;
  std::vector<int> victims;
  double join_timeout_s = 6;
  std::vector<std::string> words;  // that all others hear; {2} and {3} stand for the processes of these ranks
};

void kill_while_joining(const Scene& scene) {
  constexpr int ranks = 5, watch = 4;
  const TwoMachines machines;
  Outcomes outcomes(ranks);
  SharedArray<Signs> signs(1);
  const MachineJob job{.machine_of_rank = {0, 0, 1, 1, 1}, .variables = {{"UNISONO_JOIN_TIMEOUT", std::to_string(scene.join_timeout_s)}}};
  Children children(ranks, [&](int index) {
    become_rank(machines, job, index == watch ? 0 : index);
    if (index == watch) {
      const auto store = scene.by_given_store ? given_store(true) : served_store();
      const std::string prefix = scene.by_given_store ? prefix_in(*store) : served_prefix;
      store->wait({prefix + "/seats/2"});
      signs[0].go = 1;
      store->wait({prefix + "/seats/0", prefix + "/seats/1", prefix + "/seats/3"});
      signs[0].ready = 1;
      if (scene.by_given_store)
        for (;;) pause();
      return;
    }
    if (index == 3) { ASSERT_TRUE(await([&] { return signs[0].go == 1; })); }
    outcomes.note(index, [&] {
      if (!scene.by_given_store) return distributed::init_process_group({});
      distributed::init_process_group({.rank = index, .world_size = ranks, .store = given_store(false)});
    });
  });
  EXPECT_TRUE(await([&] { return signs[0].ready == 1; }));
  children.kill_together(scene.victims);
  EXPECT_TRUE(await([&] { return outcomes.of(0).was_made() && outcomes.of(1).was_made(); }));
  if (scene.by_given_store) children.kill(watch);
  children.wait();
  for (int rank : {0, 1, 2, 3}) {
    if (std::ranges::find(scene.victims, rank) != scene.victims.end()) continue;
    std::vector<std::string> words;
    for (const std::string& word : scene.words) words.push_back(fmt::format(fmt::runtime(word), "", "", children.pid(2), children.pid(3)));
    expect_says(outcomes.of(rank), words);
    EXPECT_LT(outcomes.of(rank).took_s(), scene.join_timeout_s + 1) << outcomes.of(rank).text();
  }
}

TEST_F(MeetingKilled, a_rank_is_missing_whose_agent_saw_it_end) {
  kill_while_joining({.victims = {3}, .words = {"3 of 5 ranks joined", "missing: 3, 4;", "rank 3 (pid {3} on two) came and has ended"}});
}

TEST_F(MeetingKilled, an_agent_is_missing_whose_connection_to_the_store_has_ended) {
  kill_while_joining({.victims = {2}, .words = {"3 of 5 ranks joined", "missing: 2, 4;", "rank 2 (pid {2} on two) came, and its connection to the store has ended"}});
}

TEST_F(MeetingKilled, all_ranks_of_a_machine_are_missing) {
  kill_while_joining({.victims = {2, 3}, .words = {"2 of 5 ranks joined", "missing: 2, 3, 4;", "rank 2 (pid {2} on two) came, and", "rank 3 (pid {3} on two) came with rank 2"}});
}

TEST_F(MeetingKilled, a_rank_is_missing_whose_agent_saw_it_end_by_a_given_store) {
  kill_while_joining({.by_given_store = true, .victims = {3}, .words = {"3 of 5 ranks joined", "missing: 3, 4;", "rank 3 (pid {3} on two) came and has ended"}});
}

TEST_F(MeetingKilled, an_agent_is_missing_that_gives_no_sign_in_a_given_store) {
  kill_while_joining({.by_given_store = true, .victims = {2, 3}, .words = {"2 of 5 ranks joined", "missing: 2, 3, 4;", "rank 2 (pid {2} on two) came, and has not been heard of for "}});
}

// Rank 2 is killed when rank 3 has not come yet. When that comes all seats were taken, and one of them by nobody.
TEST_F(MeetingKilled, a_rank_that_is_started_again_is_waited_for_though_all_seats_were_taken) {
  constexpr int again = 4, watch = 5;
  const TwoMachines machines;
  Outcomes outcomes(5);
  SharedArray<Signs> signs(1);
  const MachineJob job{.machine_of_rank = {0, 1, 1, 0}};
  Children children(6, [&](int index) {
    const int rank = index == again ? 2 : index == watch ? 0 : index;
    become_rank(machines, job, rank);
    if (index == watch) {
      const auto store = served_store();
      store->wait({served_prefix + "/seats/1"});
      signs[0].go = 1;
      store->wait({served_prefix + "/seats/2"});
      signs[0].ready = 1;
      EXPECT_TRUE(await([&] { return Seat::parse_ended(store->get(served_prefix + "/seats/2")).has_value(); }));
      signs[0].go = 2;
      store->wait({served_prefix + "/seats/3"});
      signs[0].go = 3;
      return;
    }
    const int comes_at = index == 2 ? 1 : index == 3 ? 2 : index == again ? 3 : 0;
    ASSERT_TRUE(await([&] { return signs[0].go >= comes_at; }));
    outcomes.note(index, [&] {
      distributed::init_process_group({});
      expect_sum(rank, 4, 100);
      distributed::destroy_process_group();
    });
  }, 60);
  EXPECT_TRUE(await([&] { return signs[0].ready == 1; }));
  children.kill(2);
  children.wait();
  for (int index : {0, 1, 3, again}) EXPECT_TRUE(outcomes.of(index).was_made() && outcomes.of(index).code == ErrorCode::ok) << outcomes.of(index).text();
}

// Another agent has read all seats just before rank 2 ended: it is played by the test. Then the world is decided, and nobody can take the place of rank 2.
TEST_F(MeetingKilled, a_rank_that_the_others_had_counted_on_is_told_at_once) {
  constexpr int watch = 3;
  const TwoMachines machines;
  Outcomes outcomes(3);
  SharedArray<Signs> signs(1);
  const MachineJob job{.machine_of_rank = {0, 1, 1, 0}};
  Children children(4, [&](int index) {
    become_rank(machines, job, index == watch ? 0 : index);
    if (index == watch) {
      const auto store = served_store();
      store->wait({served_prefix + "/seats/1"});
      signs[0].go = 1;
      store->wait({served_prefix + "/seats/0", served_prefix + "/seats/2"});
      signs[0].ready = 1;
      EXPECT_TRUE(await([&] { return Seat::parse_ended(store->get(served_prefix + "/seats/2")).has_value(); }));
      store->multi_set({served_prefix + "/complete/0", served_prefix + "/seats/3"}, {std::string(32, '7'), Seat{.size = 4, .rank = 3, .pid = 1, .machine = 77, .host = "three", .agent = 3}.text()});
      signs[0].killed_ns = now_ns();
      return;
    }
    if (index == 2) { ASSERT_TRUE(await([&] { return signs[0].go == 1; })); }
    outcomes.note(index, [&] { distributed::init_process_group({}); });
  });
  EXPECT_TRUE(await([&] { return signs[0].ready == 1; }));
  children.kill(2);
  children.wait();
  for (int rank : {0, 1}) {
    expect_says(outcomes.of(rank), {fmt::format("rank 2 (pid {} on two) came and has ended", children.pid(2)), "had counted on it"});
    EXPECT_LT(seconds_between(signs[0].killed_ns, outcomes.of(rank).ended_ns), 3) << outcomes.of(rank).text();
  }
}

}  // namespace
}  // namespace unisono::testing
