// Sums of 8- and 16-bit floats that travel in float32: the bits of one pass, whatever the way, and schedules that carry them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "kernels/kernels.hpp"
#include "schedule/text.hpp"
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
        EXPECT_EQ(of_partials(reduction).dtype, DType::float32);
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

TEST(Partials, are_carried_by_all_ranks_and_never_staged) {
  Set set = schedules_of(Collective::all_reduce, "doubling", 3);
  set[1].partials = false;
  expect_rejected(set, {"rank 1 of 3", "not all ranks carry partials"});
  set = schedules_of(Collective::all_reduce, "two_shot", 3);
  for (Schedule& schedule : set) schedule.partials = true;
  expect_rejected(set, {"partials are sums that travel in messages: nothing is staged or gathered"});
}

}  // namespace
}  // namespace unisono::testing
