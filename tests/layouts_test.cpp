// Schedules of ranks on several hosts: what verify rejects of them, made from good ones by one change, and every algorithm that can work
// there on every layout of a few ranks and some of many.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "schedule/chunks.hpp"
#include "schedule/cost.hpp"
#include "schedule/text.hpp"
#include "tests/support/hosts.hpp"
#include "tests/support/scale.hpp"
#include "tests/support/schedules.hpp"

namespace unisono::testing {
namespace {

// Ranks 0 and 1 on one host, rank 2 on another. Rank 0 adds up its host's data in shared memory and exchanges sums with rank 2, then
// shows the result to rank 1.
Set two_and_one() {
  const Set set = written(Collective::all_reduce, 3, [](Builder& plan, int rank) {
    const int together = plan.team({0, 1});
    if (rank == 0) {
      plan.await_team(together, 0);
      plan.reduce_peers(input(0), stage(0), scratch(0), {.team = together, .sum = Sum::partial});
      plan.send(2, scratch(0));
      plan.copy(scratch(0), output(0));
      plan.receive_reduce(2, output(0), Sum::complete);
      plan.copy(output(0), stage(0));
      plan.publish(1);
    } else if (rank == 1) {
      plan.copy(input(0), stage(0));
      plan.publish(0);
      plan.await(0, 1);
      plan.read_peer(0, stage(0), output(0));
    } else {
      plan.contribute(input(0), scratch(0));
      plan.send(0, scratch(0));
      plan.copy(scratch(0), output(0));
      plan.receive_reduce(0, output(0), Sum::complete);
    }
  }, /*stage_slots=*/1);
  return on_hosts(set, in_a_row({2, 1}));
}

TEST(Layouts, of_two_and_one_are_right) {
  for (bool announced : {false, true}) EXPECT_EQ(verify(two_and_one(), {.announced = announced, .max_window = 4}).text(), "OK");
}

TEST(Layouts, in_which_a_step_looks_into_another_host_are_rejected) {
  const Hosts hosts = in_a_row({2, 1});
  constexpr auto reason = "is on another host, and neither its memory nor its flags can be seen from here";
  expect_rejected(on_hosts(schedules_of(Collective::barrier, "direct", 3), hosts), {"rank 0 of 3, step 1 (await flag 0 of everyone)", "rank 2", reason});
  Set set = two_and_one();
  set[0].teams[0] = {0, 2};
  expect_rejected(set, {"rank 0 of 3, step 0 (await flag 0 of team[0])", "rank 2", reason});
  set = two_and_one();
  set[0].teams.push_back({0, 2});
  set[0].steps[1].team = 1;
  expect_rejected(set, {"rank 0 of 3, step 1 (reduce_peers", "rank 2", reason});
  set = two_and_one();
  set[1].steps[3].peer = 2;
  expect_rejected(set, {"rank 1 of 3, step 3 (read_peer", "rank 2", reason});
  for (const char* name : {"ring", "doubling", "halving", "collecting"})
    EXPECT_TRUE(verify(on_hosts(schedules_of(Collective::all_reduce, name, 3), hosts), {.announced = true}).ok()) << name;
}

TEST(Layouts, that_are_not_the_same_on_all_ranks_or_not_of_so_many_are_rejected) {
  Set set = schedules_of(Collective::all_reduce, "ring", 3);
  set[1].place.hosts = in_a_row({2, 1});
  expect_rejected(set, {"rank 1 of 3", "the hosts are 2,1, and 1 host on rank 0"});
  expect_rejected(on_hosts(schedules_of(Collective::all_reduce, "ring", 3), in_a_row({2, 2})), {"the hosts 2,2 have 4 ranks"});
  const std::vector<Set> calls{two_and_one(), on_hosts(schedules_of(Collective::all_reduce, "ring", 3), in_a_row({1, 2}))};
  EXPECT_NE(verify_sequence(calls).message().find("the calls of a sequence are made by one group"), std::string::npos);
}

// The root shows its data to rank 1 and sends it to rank 2. If it does not wait for rank 1 to come, it returns while rank 1 still reads,
// and that rank 2 has its message says nothing about it.
TEST(Layouts, in_which_a_rank_returns_while_another_of_its_host_reads_its_slot_are_rejected) {
  Set set = on_hosts(written(Collective::broadcast, 3, [](Builder& plan, int rank) {
    if (rank == 0) plan.copy(input(0), stage(0)), plan.publish(0), plan.send(2, input(0)), plan.await(1, 1);
    if (rank == 1) plan.publish(1), plan.await(0, 0), plan.read_peer(0, stage(0), output(0));
    if (rank == 2) plan.receive(0, output(0));
  }, /*stage_slots=*/1), in_a_row({2, 1}));
  EXPECT_EQ(verify(set, {.announced = true, .max_window = 4}).text(), "OK");
  set[0].steps.pop_back();
  expect_rejected(set, {"rank 0 of 3, step 0", "stage[0] is overwritten while rank 1 may still read it in its step 2"}, {.announced = true});
}

// What a rank knows of its own host when it enters a call is what keeps its slots; of another host it knows nothing by that.
TEST(Layouts, need_announcements_within_each_host_where_calls_differ) {
  const Set all_reduce = two_and_one();
  const Set broadcast = on_hosts(written(Collective::broadcast, 3, [](Builder& plan, int rank) {
    if (rank == 0) plan.copy(input(0), stage(0)), plan.send(1, stage(0)), plan.send(2, stage(0));
    if (rank != 0) plan.receive(0, output(0));
  }, /*stage_slots=*/1), in_a_row({2, 1}));
  const std::vector<Set> calls{all_reduce, broadcast, broadcast, broadcast, broadcast};
  EXPECT_EQ(verify_sequence(calls, {.announced = true}).text(), "OK");
  EXPECT_NE(verify_sequence(calls).message().find("overwritten"), std::string::npos) << verify_sequence(calls).text();
}

TEST(Layouts, in_which_a_contribution_is_scaled_twice_are_rejected) {
  Set set = two_and_one();
  set[0].steps[3].scales = true;
  expect_rejected(set, {"rank 0 of 3, step 3 (copy scratch[0] -> output[0] scaling)", "scratch[0] was scaled before"});
}

TEST(Layouts, in_which_a_sum_is_completed_within_a_host_and_again_are_rejected) {
  Set set = two_and_one();
  set[0].steps[1].completes = true;
  expect_rejected(set, {"a sum is combined that was completed before"});
}

// Rank 2 puts its own part first, and rank 0 puts that of its host first.
TEST(Layouts, in_which_another_host_adds_in_another_order_are_rejected) {
  Set set = two_and_one();
  std::vector<Step>& steps = set[2].steps;
  steps[2] = {.kind = StepKind::receive, .peer = 0, .target = output(0)};
  steps[3] = {.kind = StepKind::reduce, .source = scratch(0), .target = output(0), .completes = true};
  EXPECT_TRUE(verify(set).ok()) << verify(set).text();
  steps[2] = {.kind = StepKind::copy, .source = scratch(0), .target = output(0)};
  steps[3] = {.kind = StepKind::receive, .peer = 0, .target = {Buffer::gathered, 0}};
  steps.push_back({.kind = StepKind::reduce, .source = {Buffer::gathered, 0}, .target = output(0), .completes = true});
  set[2].gathered_chunks = 3;
  expect_rejected(set, {"output[0] was added up in another order than on another rank"});
}

TEST(Layouts, in_which_a_frame_is_missing_are_rejected) {
  Set set = two_and_one();
  set[0].steps.erase(set[0].steps.begin() + 2);
  expect_rejected(set, {"rank 2 of 3, step 3", "rank 0 has no send for this receive"});
}

// Rank 1 does not wait for rank 0, which is the only one to know that rank 2 has come.
TEST(Layouts, of_a_barrier_that_hears_of_its_own_host_only_are_rejected) {
  Set set = written(Collective::barrier, 3, [](Builder& plan, int rank) {
    if (rank < 2) plan.publish(0), plan.await_team(plan.team({0, 1}), 0);
    if (rank == 0) plan.send(2, nothing), plan.receive(2, nothing), plan.publish(1);
    if (rank == 1) plan.await(0, 1);
    if (rank == 2) plan.send(0, nothing), plan.receive(0, nothing);
  });
  set = on_hosts(set, in_a_row({2, 1}));
  EXPECT_TRUE(verify(set).ok()) << verify(set).text();
  set[1].steps.pop_back();
  expect_rejected(set, {"rank 1 of 3", "it may leave the barrier before rank 2 has entered it"}, {.announced = true});
}

// Two hosts of two. Each rank sends its half to the other host, and what the first of a host sends the second waits for.
TEST(Layouts, cost_what_the_shared_link_takes) {
  const CostModel model{.copy_ns_per_byte = 0, .reduce_ns_per_byte = 0, .peer_read_ns_per_byte = 0, .ring_ns = 10, .ring_ns_per_byte = 1, .link_ns = 1000, .link_ns_per_byte = 2};
  const Hosts hosts = in_a_row({2, 2});
  const Set pairs = on_hosts(written(Collective::barrier, 4, [](Builder& plan, int rank) {
    if (rank < 2) plan.send(rank + 2, input(0));
    else plan.receive(rank - 2, output(0));
  }), hosts);
  const Cost both = cost(pairs, 100, model);
  EXPECT_DOUBLE_EQ(both.time_ns, 2 * 100 * 2 + 1000);
  EXPECT_EQ(both.sent_bytes, 100);
  EXPECT_EQ(both.link_bytes, 200);
  EXPECT_DOUBLE_EQ(cost(on_hosts(pairs, apart(4)), 100, model).time_ns, 100 * 2 + 1000) << "each has a link of its own";
  EXPECT_DOUBLE_EQ(cost(on_hosts(pairs, Hosts()), 100, model).time_ns, 100 * 1 + 10) << "nothing leaves the host";
  const Set into_one = on_hosts(written(Collective::barrier, 4, [](Builder& plan, int rank) {
    if (rank == 0) for (int peer : {1, 2, 3}) plan.receive(peer, output(0));
    else plan.send(0, input(0));
  }), apart(4));
  EXPECT_DOUBLE_EQ(cost(into_one, 100, model).time_ns, 3 * 100 * 2 + 1000) << "what comes in shares a link, too";
}

// Hosts of several ranks gain by it, since a ring sends every byte out of each host as often as it has ranks.
TEST(Layouts, are_cheaper_by_hierarchy_than_by_a_flat_ring) {
  for (const Hosts& hosts : {in_a_row({4, 4}), Hosts(std::vector{0, 1, 0, 1, 0, 1, 0, 1})}) {
    const auto time_of = [&](const char* name) {
      return cost(schedules_of(*find_algorithm(Collective::all_reduce, name), 8, hosts), 1 << 20, CostModel{}).time_ns;
    };
    EXPECT_LT(time_of("hierarchy"), time_of("ring")) << hosts.text();
    EXPECT_LT(time_of("hierarchy"), time_of("doubling")) << hosts.text();
  }
}

std::vector<const Algorithm*> algorithms_between_hosts() {
  std::vector<const Algorithm*> algorithms;
  for (const Algorithm& algorithm : catalogue())
    if (algorithm.generate && includes(Need::links | Need::host_memory, algorithm.need)) algorithms.push_back(&algorithm);
  return algorithms;
}

std::vector<const Algorithm*> hierarchies() {
  std::vector<const Algorithm*> algorithms = algorithms_between_hosts();
  std::erase_if(algorithms, [](const Algorithm* algorithm) { return !includes(algorithm->need, Need::host_memory); });
  return algorithms;
}

// Every way in which ranks can share hosts: each rank is on the host of a lower one or on the next new one.
std::vector<Hosts> all_layouts(int ranks) {
  std::vector<std::vector<int>> lists{{}};
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<std::vector<int>> longer;
    for (const std::vector<int>& list : lists) {
      const int hosts = list.empty() ? 0 : *std::ranges::max_element(list) + 1;
      for (int host = 0; host <= hosts; ++host) longer.push_back(list), longer.back().push_back(host);
    }
    lists = std::move(longer);
  }
  std::vector<Hosts> layouts;
  for (const std::vector<int>& list : lists) layouts.emplace_back(list);
  return layouts;
}

// Two halves; all but one; one, two and the rest; every second; three that are as equal as can be.
std::vector<Hosts> named_layouts(int ranks) {
  std::vector<std::vector<int>> lists(5);
  for (int rank = 0; rank < ranks; ++rank) {
    lists[0].push_back(rank >= (ranks + 1) / 2);
    lists[1].push_back(rank == ranks - 1);
    lists[2].push_back(rank == 0 ? 0 : rank < 3 ? 1 : 2);
    lists[3].push_back(rank % 2);
    lists[4].push_back(rank * 3 / ranks);
  }
  std::vector<Hosts> layouts;
  for (const std::vector<int>& list : lists) layouts.emplace_back(list);
  return layouts;
}

std::vector<int> roots_of(const Algorithm& algorithm, int ranks) {
  if (!has_root(algorithm.collective)) return {0};
  if (ranks > 8) return {0, 1, ranks / 2, ranks - 1};
  std::vector<int> roots;
  for (int root = 0; root < ranks; ++root) roots.push_back(root);
  return roots;
}

std::string title(const Algorithm& algorithm, int ranks, const Hosts& hosts, int root) {
  return fmt::format("{} {}, {} ranks on {}, root {}", name_of(algorithm.collective), algorithm.name, ranks, hosts.text(), root);
}

void expect_right(const Algorithm& algorithm, int ranks, const Hosts& hosts, VerifyOptions options) {
  options.canonical_order = algorithm.keeps_rank_order();
  for (int root : roots_of(algorithm, ranks))
    for (bool announced : {false, true}) {
      options.announced = announced;
      const Status status = verify(schedules_of(algorithm, ranks, hosts, root), options);
      ASSERT_TRUE(status.ok()) << title(algorithm, ranks, hosts, root) << ": " << status.text();
    }
}

TEST(EveryLayout, of_a_few_ranks_is_right_by_every_algorithm) {
  size_t layouts = 0;
  for (int ranks = 1; ranks <= (scale() == Scale::full ? 6 : 5); ++ranks)
    for (const Hosts& hosts : all_layouts(ranks)) {
      ++layouts;
      for (const Algorithm* algorithm : algorithms_between_hosts())
        ASSERT_NO_FATAL_FAILURE(expect_right(*algorithm, ranks, hosts, {.max_window = ranks <= 4 ? 4 : 2}));
    }
  EXPECT_EQ(layouts, 1u + 2 + 5 + 15 + 52 + (scale() == Scale::full ? 203 : 0));
}

TEST(EveryLayout, that_has_a_name_is_right_for_every_number_of_ranks) {
  for (int ranks = 7; ranks <= (scale() == Scale::small ? 12 : 33); ranks += scale() == Scale::full || ranks < 12 ? 1 : 7)
    for (const Hosts& hosts : named_layouts(ranks))
      for (const Algorithm* algorithm : hierarchies()) ASSERT_NO_FATAL_FAILURE(expect_right(*algorithm, ranks, hosts, {}));
}

TEST(EveryLayout, is_right_whatever_the_interleaving) {
  for (const Hosts& hosts : all_layouts(4))
    for (const Algorithm* algorithm : hierarchies())
      for (uint64_t seed = 1; seed <= 5; ++seed) ASSERT_NO_FATAL_FAILURE(expect_right(*algorithm, 4, hosts, {.seed = seed}));
}

// In a scan everybody waits for everybody on its host; some who then wait for the leaders would hear of it from them.
bool may_be_spared(const Schedule& schedule, const Step& step) {
  const bool scans = schedule.collective == Collective::scan || schedule.collective == Collective::exscan;
  return scans && step.kind == StepKind::await && step.flag == 0;
}

TEST(EveryLayout, needs_each_step_of_a_hierarchy) {
  for (const Hosts& hosts : all_layouts(5))
    for (const Algorithm* algorithm : hierarchies())
      for (int root : roots_of(*algorithm, 5)) {
        const Set set = schedules_of(*algorithm, 5, hosts, root);
        for (size_t rank = 0; rank < set.size(); ++rank)
          for (size_t step = 0; step < set[rank].steps.size(); ++step) {
            if (may_be_spared(set[rank], set[rank].steps[step])) continue;
            Set shorter = set;
            shorter[rank].steps.erase(shorter[rank].steps.begin() + static_cast<ptrdiff_t>(step));
            ASSERT_FALSE(verify(shorter).ok()) << title(*algorithm, 5, hosts, root) << ": rank " << rank << " can do without step " << step
                                               << ": " << text_of(set[rank].steps[step]);
          }
      }
}

TEST(EveryLayout, survives_being_written_and_read) {
  for (const Hosts& hosts : all_layouts(5))
    for (const Algorithm* algorithm : hierarchies())
      for (const Schedule& schedule : schedules_of(*algorithm, 5, hosts)) {
        const Result<Schedule> again = schedule_from(text_of(schedule));
        ASSERT_TRUE(again.ok()) << again.status().text();
        EXPECT_EQ(again.value(), schedule);
      }
}

// Every pair of algorithms meets on some layout, with roots that differ from call to call.
TEST(EveryLayout, is_right_for_calls_in_any_order) {
  const std::vector<const Algorithm*> algorithms = algorithms_between_hosts();
  std::minstd_rand random(1);
  for (const Algorithm* first : algorithms)
    for (const Algorithm* second : algorithms) {
      const Algorithm* third = algorithms[random() % algorithms.size()];
      const int ranks = 2 + static_cast<int>(random() % 4);
      const std::vector<Hosts> layouts = all_layouts(ranks);
      const Hosts& hosts = layouts[random() % layouts.size()];
      std::vector<Set> calls;
      for (const Algorithm* algorithm : {first, second, third, first})
        calls.push_back(schedules_of(*algorithm, ranks, hosts, static_cast<int>(random() % ranks)));
      const Status status = verify_sequence(calls, {.announced = true});
      ASSERT_TRUE(status.ok()) << title(*first, ranks, hosts, -1) << ", then " << title(*second, ranks, hosts, -1) << ": " << status.text();
    }
}

}  // namespace
}  // namespace unisono::testing
