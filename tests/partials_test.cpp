// Sums of 8- and 16-bit floats that travel in float32: the bits of one pass, whatever the way, and schedules that carry them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "kernels/kernels.hpp"
#include "schedule/cost.hpp"
#include "schedule/text.hpp"
#include "tests/support/hosts.hpp"
#include "tests/support/schedules.hpp"

namespace unisono::testing {
namespace {

using Bytes = std::vector<std::byte>;
constexpr int sources = 5;
constexpr size_t guard_bytes = 64;

constexpr DType small_floats[] = {DType::float16, DType::bfloat16, DType::float8_e4m3fn, DType::float8_e5m2};
const ReduceOp ops[] = {ReduceOp::sum, ReduceOp::avg, ReduceOp::premul_sum(0.3), ReduceOp::product, ReduceOp::min, ReduceOp::max};

// Any bits there are, NaNs and all.
std::vector<Bytes> random_sources(size_t bytes, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Bytes> all(sources, Bytes(bytes + guard_bytes));
  for (Bytes& source : all)
    for (std::byte& byte : source) byte = static_cast<std::byte>(random());
  return all;
}

Bytes in_one_pass(const Reduction& reduction, const std::vector<Bytes>& given, int64_t count) {
  Bytes result(static_cast<size_t>(count * element_bytes(reduction.dtype)) + guard_bytes, std::byte{0xAB});
  std::vector<const void*> pointers;
  for (const Bytes& source : given) pointers.push_back(source.data());
  reduce(reduction, {.target = result.data(), .sources = pointers, .count = count});
  return result;
}

// As doubling does among five: pairs, then pairs of pairs, then the last.
Bytes step_by_step(const Reduction& reduction, const Reduction& wide, const std::vector<Bytes>& given, int64_t count) {
  std::vector<Bytes> partials(sources, Bytes(static_cast<size_t>(count * element_bytes(wide.dtype)) + guard_bytes, std::byte{0xCD}));
  for (size_t index = 0; index < sources; ++index) {
    if (wide == reduction) {
      const void* source = given[index].data();
      reduce(reduction, {.target = partials[index].data(), .sources = {&source, 1}, .count = count, .complete = false});
    } else {
      widen(reduction, partials[index].data(), given[index].data(), count);
    }
    for (size_t byte = partials[index].size() - guard_bytes; byte < partials[index].size(); ++byte) EXPECT_EQ(partials[index][byte], std::byte{0xCD});
  }
  const auto add = [&](size_t left, size_t right, bool complete) {
    const void* both[] = {partials[left].data(), partials[right].data()};
    reduce(wide, {.target = partials[left].data(), .sources = both, .count = count, .contributions = false, .complete = complete});
  };
  add(0, 1, false);
  add(2, 3, false);
  add(0, 2, false);
  add(0, 4, true);
  Bytes result(static_cast<size_t>(count * element_bytes(reduction.dtype)) + guard_bytes, std::byte{0xAB});
  if (wide == reduction) std::memcpy(result.data(), partials[0].data(), result.size() - guard_bytes);
  else narrow(reduction, result.data(), partials[0].data(), count);
  return result;
}

TEST(Partials, of_every_small_float_give_the_bits_of_one_pass_at_every_length) {
  for (DType dtype : small_floats)
    for (const ReduceOp& op : ops)
      for (int64_t count : {0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64, 100, 1001}) {
        const Reduction reduction{dtype, op, sources};
        const bool rounds = op.kind != ReduceKind::min && op.kind != ReduceKind::max;
        EXPECT_EQ(of_partials(reduction).dtype, rounds ? DType::float32 : dtype);
        const std::vector<Bytes> given = random_sources(static_cast<size_t>(count * element_bytes(dtype)), static_cast<unsigned>(count));
        EXPECT_EQ(step_by_step(reduction, of_partials(reduction), given, count), in_one_pass(reduction, given, count))
            << name_of(dtype) << " " << name_of(op.kind) << " of " << count;
      }
}

TEST(Partials, matter_where_sums_would_be_rounded_on_the_way) {
  for (DType dtype : small_floats) {
    const Reduction reduction{dtype, ReduceOp::sum, sources};
    const std::vector<Bytes> given = random_sources(static_cast<size_t>(1001 * element_bytes(dtype)), 1);
    EXPECT_NE(step_by_step(reduction, reduction, given, 1001), in_one_pass(reduction, given, 1001)) << name_of(dtype);
  }
}

TEST(Partials, of_what_is_not_rounded_are_of_the_dtype_itself) {
  for (DType dtype : {DType::float32, DType::float64, DType::int8, DType::complex64})
    EXPECT_EQ(of_partials({dtype, ReduceOp::sum, 2}).dtype, dtype);
}

// Two ranks that send each other what they have.
Set exchange() {
  return written(Collective::all_reduce, 2, [](Builder& plan, int rank) {
    plan.carry_partials();
    plan.contribute(input(0), scratch(0));
    plan.send(1 - rank, scratch(0));
    plan.copy(scratch(0), partial(0));
    plan.receive_reduce(1 - rank, partial(0), Sum::complete);
    plan.copy(partial(0), output(0));
  });
}

void insert_step(Schedule& schedule, int at, const Step& step) { schedule.steps.insert(schedule.steps.begin() + at, step); }

TEST(Partials, survive_being_written_and_read) {
  const Schedule schedule = schedules_of(Collective::all_reduce, "doubling", 3)[1];
  ASSERT_TRUE(schedule.partials);
  EXPECT_NE(text_of(schedule).find("\npartials\n"), std::string::npos);
  EXPECT_EQ(schedule_from(text_of(schedule)).value(), schedule);
}

TEST(Partials, that_are_taken_for_something_else_are_rejected) {
  Set set = schedules_of(Collective::all_reduce, "doubling", 2);
  EXPECT_EQ(verify(set).text(), "OK");
  for (Schedule& schedule : set) schedule.steps.back() = {.kind = StepKind::copy, .source = input(0), .target = output(0), .scales = true};
  for (Schedule& schedule : set) schedule.steps.push_back({.kind = StepKind::reduce, .source = scratch(0), .target = output(0)});
  expect_rejected(set, {"one of the two operands is a partial"});
  set = schedules_of(Collective::reduce, "binomial", 2, /*root=*/1);
  set[1].steps.pop_back();
  set[1].steps.back().target = output(0);
  expect_rejected(set, {"rank 1 of 2", "output[0] takes no chunk that is a partial"});
  set = schedules_of(Collective::reduce, "binomial", 2, /*root=*/1);
  for (Step& step : set[0].steps)
    if (step.kind == StepKind::send) step.source = input(0);
  expect_rejected(set, {"rank 1 of 2", "scratch[0] takes only a partial"});
}

TEST(Partials, are_carried_by_all_ranks_and_never_gathered) {
  Set set = schedules_of(Collective::all_reduce, "doubling", 3);
  set[1].partials = false;
  expect_rejected(set, {"rank 1 of 3", "not all ranks carry partials"});
  set = schedules_of(Collective::all_reduce, "collecting", 3);
  for (Schedule& schedule : set) schedule.partials = true;
  expect_rejected(set, {"partials are sums that travel in messages: what is gathered was given"});
  set = schedules_of(Collective::all_gather, "ring", 3);
  for (Schedule& schedule : set) schedule.partials = true;
  expect_rejected(set, {"partials are sums that travel in messages"});
  set = exchange();
  for (Schedule& schedule : set) schedule.partials = false;
  expect_rejected(set, {"rank 0 has 0 partial chunks, so there is no partial[0]"});
}

TEST(Partials, that_are_not_rounded_in_the_end_are_rejected) {
  for (const char* name : {"ring", "halving", "doubling"}) {
    Set set = schedules_of(Collective::all_reduce, name, 4);
    EXPECT_EQ(verify(set).text(), "OK");
    std::erase_if(set[2].steps, [](const Step& step) { return step.kind == StepKind::copy && step.target.buffer == Buffer::output; });
    EXPECT_FALSE(verify(set).ok()) << name;
  }
  Set set = exchange();
  set[1].steps.pop_back();
  expect_rejected(set, {"rank 1 of 2", "output[0] was never written"});
}

TEST(Partials, that_are_rounded_on_the_way_are_rejected) {
  Set set = schedules_of(Collective::all_reduce, "ring", 3);
  for (Schedule& schedule : set)
    for (Step& step : schedule.steps)
      for (ChunkRef* chunk : {&step.source, &step.target})
        if (chunk->buffer == Buffer::partial) chunk->buffer = Buffer::output;
  expect_rejected(set, {"two operands are combined that were rounded"});
  for (Schedule& schedule : set) schedule.partials = false;
  EXPECT_EQ(verify(set).text(), "OK") << "nobody says that it does not round";

  set = exchange();  // what is added is rounded, and widened again
  set[0].steps.insert(set[0].steps.begin() + 1, {{.kind = StepKind::copy, .source = scratch(0), .target = output(0)},
                                                 {.kind = StepKind::copy, .source = output(0), .target = scratch(0)}});
  expect_rejected(set, {"rank 0 of 2, step 2", "scratch[0] takes output[0] only as it was given"});
  set[0].steps[2].scales = true;
  expect_rejected(set, {"rank 0 of 2, step 2", "output[0] was scaled before"});
}

TEST(Partials, are_added_to_partials_only) {
  Set set = exchange();
  set[1].steps[2].target = output(0);
  set[1].steps[3].target = output(0);
  set[1].steps.pop_back();
  expect_rejected(set, {"rank 1 of 2, step 3", "one of the two operands is a partial"});
  set = exchange();
  set[0].steps[0].target = output(0);
  set[0].steps[1].source = output(0);
  set[0].steps[2].source = input(0);
  set[0].steps[2].scales = true;
  expect_rejected(set, {"rank 1 of 2, step 3", "one of the two operands is a partial"});
}

// Where nothing is rounded a partial lies in the output: what is put there meanwhile would be lost.
TEST(Partials, whose_output_is_used_meanwhile_are_rejected) {
  Set set = exchange();
  set[0].steps.insert(set[0].steps.begin() + 3, {.kind = StepKind::copy, .source = input(0), .target = output(0)});
  expect_rejected(set, {"rank 0 of 2, step 4", "a contribution is combined that was not scaled"});
}

// Ranks 0 and 1 on one host, rank 2 on another.
Set two_and_one() {
  return on_hosts(written(Collective::all_reduce, 3, [](Builder& plan, int rank) {
    plan.carry_partials();
    const int together = plan.team({0, 1});
    if (rank == 0) {
      plan.await_team(together, 0);
      plan.reduce_peers(input(0), stage(0), scratch(0), {.team = together, .sum = Sum::partial});
    } else if (rank == 1) {
      plan.copy(input(0), stage(0));
      plan.publish(0);
      plan.await(0, 1);
      plan.read_peer(0, stage(0), output(0));
    } else {
      plan.contribute(input(0), scratch(0));
    }
    if (rank == 1) return;
    plan.send(2 - rank, scratch(0));
    plan.copy(scratch(0), partial(0));
    plan.receive_reduce(2 - rank, partial(0), Sum::complete);
    plan.copy(partial(0), output(0));
    if (rank == 0) plan.copy(output(0), stage(0)), plan.publish(1);
  }, /*stage_slots=*/1), in_a_row({2, 1}));
}

TEST(Partials, are_made_of_what_a_host_stages_as_it_was_given) {
  EXPECT_EQ(verify(two_and_one(), {.max_window = 4}).text(), "OK");
  Set set = two_and_one();
  set[0].steps[1].target = output(0);  // rounded in the middle
  set[0].steps[2].source = output(0);
  set[0].steps[3].source = output(0);
  expect_rejected(set, {"rank 0 of 3, step 3", "partial[0] takes output[0] only as it was given"});
  set = two_and_one();
  set[1].steps[0].scales = true;  // premul_sum would round it
  set[0].steps[1].scales = false;
  expect_rejected(set, {"rank 0 of 3, step 1", "operands are combined that were rounded"});
  set = two_and_one();
  insert_step(set[0], 1, {.kind = StepKind::copy, .source = input(0), .target = partial(0), .scales = true});
  set[0].steps[2].own = partial(0);
  set[0].steps[2].scales = false;
  expect_rejected(set, {"rank 0 of 3, step 2", "some of the operands are partials"});
  set = two_and_one();
  set[0].steps[1].source = input(0);
  expect_rejected(set, {"rank 0 of 3, step 1", "a partial of several ranks is made of what they stage"});
  set = two_and_one();
  set[1].steps[3].source = partial(0);
  expect_rejected(set, {"rank 1 of 3, step 3", "the scratch of a peer is private"});
  set = two_and_one();
  set[1].steps[3].target = partial(0);
  expect_rejected(set, {"rank 1 of 3, step 3", "partial[0] takes only a partial"});
}

// Leaders of a scan stage the sums of other hosts for their own.
TEST(Partials, may_be_staged_in_slots_for_them) {
  const Set scan = schedules_of(*find_algorithm(Collective::scan, "hierarchy"), 4, in_a_row({2, 2}));
  ASSERT_EQ(scan[0].partial_slots, 1);
  EXPECT_NE(text_of(scan[3]).find("\npartials 1\n"), std::string::npos);
  EXPECT_EQ(schedule_from(text_of(scan[3])).value(), scan[3]);
  EXPECT_NE(schedule_from("schedule scan x rank 0 of 1 root 0 chunks 1 stage_slots 1 scratch_chunks 0 gathered_chunks 0\npartials many").status().message().find(
                "line 2: expected how many stage slots hold partials, found \"many\""), std::string::npos);
  Set set = scan;
  set[2].partial_slots = 2;
  expect_rejected(set, {"rank 2 of 4", "of 3 stage slots 2 hold partials, and 1 on rank 0"});
  set = scan;
  for (Schedule& schedule : set) schedule.partial_slots = 4;
  expect_rejected(set, {"of 3 stage slots 4 hold partials"});
  set = scan;
  for (Schedule& schedule : set) schedule.partial_slots = 0;  // what is staged would be rounded
  expect_rejected(set, {"one of the two operands is a partial"});
  set = scan;
  for (Schedule& schedule : set) schedule.partial_slots = 3;  // what is given is no partial
  expect_rejected(set, {"rank 0 of 4, step 0", "stage[0] takes input[0] only as it was given"});
  set = scan;
  for (Step& step : set[3].steps)
    if (step.kind == StepKind::reduce_peers && !step.scales) step.target = output(step.target.chunk);
  expect_rejected(set, {"rank 3 of 4", "output[0] takes no chunk that is a partial"});
}

// Twice the bytes while a ring adds, and as many as ever while it hands round. What is not rounded costs what it did.
TEST(Partials, cost_what_they_send) {
  const CostModel model{.copy_ns_per_byte = 0.5, .reduce_ns_per_byte = 0.25, .link_ns = 1000, .link_ns_per_byte = 2};
  const Set ring = on_hosts(schedules_of(Collective::all_reduce, "ring", 4), apart(4));
  const double part = 4096.0 / 4;
  EXPECT_EQ(cost(ring, 4096, model, 1).sent_bytes, 6 * 1024);
  EXPECT_EQ(cost(ring, 4096, model, 2).sent_bytes, 3 * 2048 + 3 * 1024);
  EXPECT_EQ(cost(ring, 4096, model, 4).sent_bytes, 3 * 4096 + 3 * 1024);
  EXPECT_DOUBLE_EQ(cost(ring, 4096, model, 1).time_ns, 4 * part * 0.5 + 6 * (1000 + part * 2) + 3 * part * 0.25 - 3 * part * 0.5);
  EXPECT_EQ(cost(on_hosts(schedules_of(Collective::all_reduce, "doubling", 4), apart(4)), 4096, model, 2).sent_bytes, 2 * 2 * 4096);
  EXPECT_EQ(cost(on_hosts(schedules_of(Collective::all_reduce, "collecting", 4), apart(4)), 4096, model, 2).sent_bytes, 6 * 1024);
}

}  // namespace
}  // namespace unisono::testing
