// Schedules as values: their text, what verify accepts and rejects, and what cost says. Broken schedules are made from
// good ones by one change, so that the change is what is rejected.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "algorithms/catalogue.hpp"
#include "schedule/builder.hpp"
#include "schedule/cost.hpp"
#include "schedule/fingerprint.hpp"
#include "schedule/text.hpp"
#include "schedule/verify.hpp"
#include "tests/support/hosts.hpp"
#include "tests/support/schedules.hpp"

namespace unisono {
namespace {

using testing::expect_rejected;
using testing::schedules_of;
using testing::Set;
using testing::written;

void erase_step(Schedule& schedule, int step) { schedule.steps.erase(schedule.steps.begin() + step); }
void insert_step(Schedule& schedule, int at, const Step& step) {
  schedule.steps.insert(schedule.steps.begin() + at, step);
}

// The first step of this kind.
int find_step(const Schedule& schedule, StepKind kind) {
  for (size_t step = 0; step < schedule.steps.size(); ++step)
    if (schedule.steps[step].kind == kind) return static_cast<int>(step);
  ADD_FAILURE() << "no such step";
  return 0;
}

TEST(Builder, a_rank_that_is_alone_stages_nothing_and_waits_for_nobody) {
  const Schedule alone = find_algorithm(Collective::all_reduce, "two_shot")->generate({0, 1, 0});
  ASSERT_EQ(alone.steps.size(), 1u);
  EXPECT_EQ(alone.steps[0].kind, StepKind::reduce_peers);
  EXPECT_EQ(alone.stage_slots, 0);
}

TEST(Text, a_schedule_reads_as_written) {
  EXPECT_EQ(text_of(find_algorithm(Collective::all_reduce, "one_shot")->generate({0, 2, 0})),
            "schedule all_reduce one_shot rank 0 of 2 root 0 chunks 1 stage_slots 1 scratch_chunks 0 gathered_chunks 0\n"
            "    0  copy input[0] -> stage[0]\n"
            "    1  publish flag 0\n"
            "    2  await flag 0 of everyone\n"
            "    3  reduce_peers input[0] + stage[0] of everyone -> output[0] scaling completing\n");
}

TEST(Text, every_kind_of_step_survives_a_round_trip) {
  Builder plan(Collective::all_reduce, "everything", {1, 3, 2}, 4);
  plan.send(0, scratch(1));
  plan.send(0, nothing);
  plan.receive(2, nothing);
  plan.receive(2, output(3));
  plan.receive_reduce(0, output(0));
  plan.copy(input(2), stage(1));
  plan.reduce(scratch(1), output(1));
  plan.publish(3);
  plan.await(2, 1);
  plan.await(everyone, 2);
  plan.read_peer(0, stage(0), scratch(0));
  plan.reduce_peers(input(0), input(1), output(2));
  const int both = plan.team({1, 2}), others = plan.team({0, 2});
  plan.await_team(others, 0);
  plan.reduce_peers(input(0), stage(1), output(2), {.team = both, .sum = Sum::partial});
  plan.reduce_peers(nothing, stage(1), output(2), {.team = others, .scales = false});
  Schedule schedule = plan.finish(2);
  schedule.place.hosts = Hosts(std::vector{0, 1, 0});
  const Result<Schedule> again = schedule_from(text_of(schedule));
  ASSERT_TRUE(again.ok()) << again.status().text();
  EXPECT_EQ(again.value(), schedule);
}

TEST(Text, numbers_comments_and_blank_lines_may_be_left_out_or_put_in) {
  const Result<Schedule> schedule = schedule_from(
      "# a barrier\n\nschedule barrier direct rank 0 of 2 root 0 chunks 1 stage_slots 0 scratch_chunks 0 gathered_chunks 0\n"
      "publish flag 0\n   # then\nawait flag 0 of everyone");
  ASSERT_TRUE(schedule.ok()) << schedule.status().text();
  EXPECT_EQ(schedule.value(), find_algorithm(Collective::barrier, "direct")->generate({0, 2, 0}));
}

TEST(Text, errors_name_the_line_and_what_was_expected_there) {
  const std::string header = "schedule all_reduce ring rank 0 of 2 root 0 chunks 2 stage_slots 0 scratch_chunks 0 gathered_chunks 0\n";
  const auto error = [](const std::string& text) { return schedule_from(text).status().text(); };
  EXPECT_EQ(error(""), "ArgumentError: line 1: expected \"schedule\", found the end of the line");
  EXPECT_EQ(error("schedule some_reduce"),
            "ArgumentError: line 1: expected a collective such as all_reduce, found \"some_reduce\"");
  EXPECT_EQ(error("schedule all_reduce ring rank x"), "ArgumentError: line 1: expected a number for rank, found \"x\"");
  EXPECT_EQ(error(header + "sends output[0] to 1"),
            "ArgumentError: line 2: expected a step such as copy or await, found \"sends\"");
  EXPECT_EQ(error(header + "\nsend output[0] from 1"), "ArgumentError: line 3: expected \"to\", found \"from\"");
  EXPECT_EQ(error(header + "copy input[0] -> output"),
            "ArgumentError: line 2: expected a chunk such as input[0], found \"output\"");
  EXPECT_EQ(error(header + "send output[0] to"),
            "ArgumentError: line 2: expected a rank or everyone, found the end of the line");
  EXPECT_EQ(error(header + "send output[0] to team[0]"), "ArgumentError: line 2: expected a rank or everyone, found \"team[0]\"");
  EXPECT_EQ(error(header + "await flag 0 of team"), "ArgumentError: line 2: expected a rank, a team or everyone, found \"team\"");
  EXPECT_EQ(error(header + "reduce_peers input[0] + stage[0] of 1 -> output[0]"),
            "ArgumentError: line 2: expected a team such as team[0] or everyone, found \"1\"");
  EXPECT_EQ(error(header + "team[1] 0 1"), "ArgumentError: line 2: expected team[0], found \"team[1]\"");
  EXPECT_EQ(error(header + "team[0] 0 one"), "ArgumentError: line 2: expected a rank, found \"one\"");
  EXPECT_EQ(error(header + "hosts"), "ArgumentError: line 2: expected a layout such as 2,3, found the end of the line");
  EXPECT_EQ(error(header + "hosts 2,1"), "ArgumentError: line 2: hosts: \"2,1\" makes 3 ranks, and there are 2");
  EXPECT_EQ(error(header + "publish flag 0 now"), "ArgumentError: line 2: expected the end of the line, found \"now\"");
  EXPECT_EQ(error(header + "1 publish flag 0"), "ArgumentError: line 2: expected step 0, found \"1\"");
}

TEST(Fingerprint, the_canonical_tree_pairs_neighbours_and_carries_the_odd_one_up) {
  std::vector<Fingerprint> parts;
  for (uint64_t rank = 0; rank < 5; ++rank) parts.push_back(leaf(1, rank, 0));
  const Fingerprint expected = combine(combine(combine(parts[0], parts[1]), combine(parts[2], parts[3])), parts[4]);
  EXPECT_EQ(combine_canonically(parts).tree, expected.tree);
}

TEST(Fingerprint, the_tree_tells_orders_apart_and_the_sum_does_not) {
  const Fingerprint one = leaf(1, 1, 0), two = leaf(1, 2, 0);
  EXPECT_NE(combine(one, two).tree, combine(two, one).tree);
  EXPECT_EQ(combine(one, two).sum, combine(two, one).sum);
}

TEST(Verify, a_missing_send_is_rejected) {
  Set set = schedules_of(Collective::all_reduce, "ring", 3);
  erase_step(set[1], find_step(set[1], StepKind::send));
  expect_rejected(set, {"all_reduce ring, rank 2 of 3", "receive from 1", "rank 1 has no send for this receive"});
}

TEST(Verify, a_missing_receive_is_rejected) {
  Set set = schedules_of(Collective::all_gather, "ring", 3);
  erase_step(set[2], find_step(set[2], StepKind::receive));
  expect_rejected(set, {"rank 1 of 3", "to 2): rank 2 has no receive for this send"});
}

TEST(Verify, a_chunk_that_lands_in_one_of_another_length_is_rejected) {
  Set set = schedules_of(Collective::all_gather, "ring", 3);
  std::swap(set[0].steps[2].target, set[0].steps[4].target);
  expect_rejected(set, {"rank 0 of 3, step 2", "output[1] is not as long as the chunk that is written there"});
}

TEST(Verify, operands_of_different_length_are_rejected) {
  Set set = schedules_of(Collective::all_reduce, "two_shot", 3);
  const int step = find_step(set[1], StepKind::reduce_peers);
  set[1].steps[step].source = stage(2);
  expect_rejected(set, {fmt::format("rank 1 of 3, step {}", step), "what rank 0 gives is a chunk of different length"});
}

TEST(Verify, a_doubled_contribution_is_rejected) {
  const Set set = written(Collective::all_reduce, 2, [](Builder& plan, int rank) {
    plan.contribute(input(0), scratch(0));
    plan.copy(scratch(0), output(0));
    plan.send(1 - rank, scratch(0));
    plan.receive_reduce(1 - rank, output(0), rank == 0 ? Sum::complete : Sum::partial);
    if (rank == 1) plan.reduce(scratch(0), output(0), Sum::complete);
  });
  expect_rejected(set, {"rank 1 of 2, at the end", "output[0] has the contribution of rank 1 twice"});
}

TEST(Verify, a_missing_contribution_is_rejected) {
  Set set = schedules_of(Collective::all_reduce, "ring", 3);
  for (Schedule& schedule : set)
    for (Step& step : schedule.steps)
      if (schedule.place.rank == 1 && step.kind == StepKind::receive_reduce) step.kind = StepKind::receive, step.completes = false;
  expect_rejected(set, {"at the end", "lacks the contribution of rank 1"});
}

TEST(Verify, an_output_that_was_never_written_is_rejected) {
  Set set = schedules_of(Collective::all_gather, "direct", 3);
  erase_step(set[2], 2);
  expect_rejected(set, {"rank 2 of 3, at the end", "output[2] was never written"});
}

TEST(Verify, a_piece_of_another_rank_is_rejected) {
  const Set set = written(Collective::broadcast, 3, [](Builder& plan, int rank) {
    if (rank == 0) plan.send(1, input(0)), plan.send(2, input(0));
    if (rank != 0) plan.receive(0, output(0));
  });
  EXPECT_TRUE(verify(set).ok()) << verify(set).text();
  Set scattered = schedules_of(Collective::scatter, "direct", 3);
  scattered[0].steps[0].source = input(2);  // for rank 1, whose piece may be shorter
  expect_rejected(scattered, {"rank 1 of 3, step 2", "output[0] is not as long as the chunk"});
}

TEST(Verify, a_piece_that_was_added_to_is_rejected) {
  const Set set = written(Collective::broadcast, 2, [](Builder& plan, int rank) {
    if (rank == 0) plan.send(1, input(0)), plan.send(1, input(0));
    if (rank == 1) plan.receive(0, output(0)), plan.receive_reduce(0, output(0));
  });
  expect_rejected(set, {"rank 1 of 2, step 1", "a contribution is combined that was not scaled"});
}

TEST(Verify, two_ranks_that_wait_for_each_other_are_rejected) {
  const Set set = written(Collective::all_gather, 2, [](Builder& plan, int rank) {
    plan.copy(input(0), output(rank));
    plan.receive(1 - rank, output(1 - rank));
    plan.send(1 - rank, input(0));
  });
  expect_rejected(set, {"deadlock", "rank 0 waits in step 1 (receive from 1 -> output[1])", "rank 1 waits in step 1"});
}

TEST(Verify, a_send_holds_its_source_until_it_is_taken) {
  // Each adds into the chunk that is on its way to the other: right if sends were buffered, a deadlock if not.
  const Set set = written(Collective::all_reduce, 2, [](Builder& plan, int rank) {
    plan.contribute(input(0), output(0));
    plan.send(1 - rank, output(0));
    plan.receive_reduce(1 - rank, output(0));
  });
  expect_rejected(set, {"deadlock", "rank 0 waits in step 2 (receive_reduce from 1 -> output[0])"});
}

TEST(Verify, a_flag_that_nobody_publishes_is_rejected) {
  Set set = schedules_of(Collective::broadcast, "direct", 3, /*root=*/1);
  erase_step(set[0], find_step(set[0], StepKind::publish));
  expect_rejected(set, {"rank 1 of 3, step 2 (await flag 1 of everyone)", "rank 0 never publishes flag 1"});
}

TEST(Verify, a_missing_await_is_a_race) {
  Set set = schedules_of(Collective::all_gather, "direct", 2);
  erase_step(set[0], find_step(set[0], StepKind::await));
  expect_rejected(set, {"rank 0 of 2", "rank 1 may not have written its stage[0] yet"});
}

TEST(Verify, a_slot_that_is_reused_too_early_is_rejected) {
  // Without the root's flag, the others run ahead of it and write the slots of a tile that it has not read.
  Set set = schedules_of(Collective::gather, "direct", 3);
  erase_step(set[2], find_step(set[2], StepKind::await));
  expect_rejected(
      set, {"rank 0 of 3", "stage[0] of 2", "rank 2 may have overwritten its stage[0] already, for a later tile"});
}

TEST(Verify, a_race_is_found_in_every_interleaving_from_one_side_or_the_other) {
  Set set = schedules_of(Collective::gather, "direct", 3);
  erase_step(set[2], find_step(set[2], StepKind::await));
  int found_by_reader = 0, found_by_writer = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    const std::string message = verify(set, {.seed = seed}).message();
    found_by_reader += message.find("rank 2 may have overwritten its stage[0] already") != std::string::npos;
    found_by_writer += message.find("stage[0] is overwritten while rank 0 may still read it") != std::string::npos;
  }
  EXPECT_EQ(found_by_reader + found_by_writer, 100);
  EXPECT_GT(found_by_reader, 0);
  EXPECT_GT(found_by_writer, 0);
}

TEST(Verify, a_slot_that_is_written_twice_in_a_tile_is_rejected) {
  Set set = schedules_of(Collective::all_reduce, "one_shot", 2);
  insert_step(set[1], 3, {.kind = StepKind::copy, .source = input(0), .target = stage(0)});
  expect_rejected(set,
                  {"rank 0 of 2, step 3", "nothing orders this read and the last write of rank 1 to its stage[0]"});
}

TEST(Verify, a_slot_of_another_tile_does_not_count_as_written) {
  Set set = schedules_of(Collective::all_reduce, "two_shot", 2);
  erase_step(set[0], 0);
  expect_rejected(set, {"rank 1 of 2", "rank 0 may not have written its stage[1] yet"});
}

TEST(Verify, a_call_that_returns_while_its_memory_is_read_is_rejected) {
  Set set = schedules_of(Collective::all_reduce, "two_shot_direct", 3);
  set[0].steps.pop_back();
  expect_rejected(set,
                  {"rank 0 of 3, at the end", "the call may return while rank 2 still reads output[0] in its step 5"});
}

TEST(Verify, memory_that_is_read_after_its_call_returned_is_rejected) {
  Set set = schedules_of(Collective::broadcast, "direct_read", 3);
  erase_step(set[0], find_step(set[0], StepKind::await));
  expect_rejected(
      set, {"rank 1 of 3, step 1", "rank 0 may have returned from its call, so its input[0] is no longer there"});
}

TEST(Verify, memory_that_is_overwritten_while_a_peer_reads_it_in_place_is_rejected) {
  // Everybody adds up everybody's input where it lies: right with separate buffers, and a race when the sum goes there.
  const Set set = written(Collective::all_reduce, 2, [](Builder& plan, int) {
    plan.publish(0);
    plan.await(everyone, 0);
    plan.reduce_peers(input(0), input(0), output(0));
    plan.publish(1);
    plan.await(everyone, 1);
  });
  expect_rejected(set, {"step 2", "nothing orders this read and the last write of rank 1 to its input[0]", "in place"});
}

TEST(Verify, an_output_on_a_rank_that_has_none_is_rejected) {
  Set set = schedules_of(Collective::reduce, "direct", 3, /*root=*/1);
  insert_step(set[2], 0, {.kind = StepKind::copy, .source = input(0), .target = output(0)});
  expect_rejected(set, {"reduce direct, rank 2 of 3, step 0", "rank 2 has no output in a reduce with root 1"});
}

TEST(Verify, an_input_that_is_written_is_rejected) {
  Set set = schedules_of(Collective::all_reduce, "one_shot", 2);
  set[0].steps[3].target = input(0);
  expect_rejected(set, {"rank 0 of 2, step 3", "the input is never written"});
}

TEST(Verify, an_order_that_is_not_the_canonical_one_is_rejected_where_that_is_declared) {
  EXPECT_TRUE(verify(schedules_of(Collective::all_reduce, "ring", 4)).ok());
  expect_rejected(schedules_of(Collective::all_reduce, "ring", 4), {"was not added up in the canonical order"},
                  {.canonical_order = true});
}

TEST(Verify, ranks_that_add_in_different_orders_are_rejected) {
  // Everybody sends to everybody, and adds the others in the order of their distance.
  const Set set = written(Collective::all_reduce, 3, [](Builder& plan, int rank) {
    plan.contribute(input(0), scratch(0));
    plan.copy(scratch(0), output(0));
    for (int distance : {1, 2}) plan.send((rank + distance) % 3, scratch(0));
    for (int distance : {1, 2}) plan.receive_reduce((rank + distance) % 3, output(0), distance == 2 ? Sum::complete : Sum::partial);
  });
  expect_rejected(set, {"output[0] was added up in another order than on another rank"});
}

TEST(Verify, a_barrier_that_can_be_left_early_is_rejected) {
  Set set = schedules_of(Collective::barrier, "direct", 3);
  set[0].steps[1].peer = 1;
  expect_rejected(set, {"barrier direct, rank 0 of 3", "it may leave the barrier before rank 2 has entered it"});
}

TEST(Verify, schedules_that_do_not_belong_together_are_rejected) {
  const Set good = schedules_of(Collective::all_reduce, "two_shot", 3);
  EXPECT_FALSE(verify({}).ok());
  expect_rejected({good[0], good[1]}, {"this should be the schedule of rank 0 of 2"});
  Set set = good;
  set[1] = find_algorithm(Collective::all_reduce, "one_shot")->generate({1, 3, 0});
  expect_rejected(set, {"rank 0 plays all_reduce two_shot"});
  set = good;
  set[2].stage_slots = 4;
  expect_rejected(set, {"it has 4 stage slots, and 3 on rank 0"});
  set = good;
  set[2].steps[0].target = stage(3);
  expect_rejected(set, {"rank 2 of 3, step 0", "rank 2 has 3 stage chunks, so there is no stage[3]"});
  set = good;
  insert_step(set[0], 1, {.kind = StepKind::publish, .flag = 1});
  expect_rejected(set, {"step 1 has published this flag already"});
}

TEST(Cost, a_ring_costs_what_the_formula_says) {
  const int ranks = 4;
  const CostModel model{.copy_ns_per_byte = 0, .reduce_ns_per_byte = 0.25, .link_ns = 1000, .link_ns_per_byte = 2};
  const double bytes = 4096, part = bytes / ranks;
  const Cost ring = cost(testing::on_hosts(schedules_of(Collective::all_reduce, "ring", ranks), testing::apart(ranks)), 4096, model);
  EXPECT_DOUBLE_EQ(ring.time_ns, 6 * (1000 + part * 2) + 3 * part * 0.25);
  EXPECT_EQ(ring.rounds, 6);
  EXPECT_EQ(ring.sent_bytes, 6 * 1024);
  EXPECT_EQ(ring.read_bytes, 0);
}

TEST(Cost, a_two_shot_costs_what_the_formula_says) {
  const CostModel model;
  const double part = 8192.0 / 4;
  const Cost two_shot = cost(schedules_of(Collective::all_reduce, "two_shot", 4), 8192, model);
  EXPECT_DOUBLE_EQ(two_shot.time_ns, 4 * part * 0.05 + 3 * part * (0.11 + 0.02) + 3 * part * 0.11 + 2 * 100);
  EXPECT_EQ(two_shot.rounds, 2);
  EXPECT_EQ(two_shot.read_bytes, 6 * 2048);
  EXPECT_EQ(two_shot.sent_bytes, 0);
}

}  // namespace
}  // namespace unisono
