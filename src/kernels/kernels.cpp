// The one table of what each dtype can be reduced by, and how; check_reduction and reduce only look things up in it.
// Next: sums.cpp for a family of kernels, pass-inl.hpp for the walk through memory that all of them share.
#include "kernels/kernels.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <iterator>
#include <type_traits>
#include <utility>

#include "base/check.hpp"
#include "kernels/job.hpp"
#include "unisono/reduction.hpp"

namespace unisono {
namespace {

// Which kernel, and how many lanes an element makes: complex numbers add as two floats, integers xor as bytes.
struct Choice {
  Kernel (*family)(Lane lane) = nullptr;
  Lane lane = Lane::none;
  uint8_t lanes_per_element = 1;
};

struct Row {
  DType dtype;
  Choice sum = {}, scaled_sum = {}, product = {}, min = {}, max = {}, band = {}, bor = {}, bxor = {};
  void (*divide)(void* data, size_t count, int divisor) = nullptr;  // integers: avg divides after the sum, toward zero
};

template <typename Integer>
void divide(void* data, size_t count, int divisor) {
  using Wide = std::conditional_t<std::is_signed_v<Integer>, int64_t, uint64_t>;
  auto* bytes = static_cast<std::byte*>(data);
  for (size_t index = 0; index < count; ++index, bytes += sizeof(Integer)) {
    Integer value;
    std::memcpy(&value, bytes, sizeof(value));
    value = static_cast<Integer>(static_cast<Wide>(value) / static_cast<Wide>(divisor));
    std::memcpy(bytes, &value, sizeof(value));
  }
}

// Signed integers wrap as unsigned ones do; only their order differs.
template <typename Integer>
constexpr Row integers(DType dtype, Lane wrapping, Lane ordered) {
  constexpr uint8_t bytes = sizeof(Integer);
  return {.dtype = dtype,
          .sum = {sum_kernel, wrapping},
          .scaled_sum = {scaled_sum_kernel, wrapping},
          .product = {product_kernel, wrapping},
          .min = {min_kernel, ordered},
          .max = {max_kernel, ordered},
          .band = {and_kernel, Lane::u8, bytes},
          .bor = {or_kernel, Lane::u8, bytes},
          .bxor = {xor_kernel, Lane::u8, bytes},
          .divide = divide<Integer>};
}

constexpr Row floats(DType dtype, Lane lane) {
  return {.dtype = dtype,
          .sum = {sum_kernel, lane},
          .scaled_sum = {scaled_sum_kernel, lane},
          .product = {product_kernel, lane},
          .min = {min_kernel, lane},
          .max = {max_kernel, lane}};
}

constexpr Row complex_numbers(DType dtype, Lane part, Lane whole) {
  return {.dtype = dtype,
          .sum = {sum_kernel, part, 2},
          .scaled_sum = {scaled_sum_kernel, part, 2},
          .product = {product_kernel, whole}};
}

constexpr Row booleans(DType dtype) {
  constexpr Choice any_of = {or_kernel, Lane::boolean};
  constexpr Choice all_of = {and_kernel, Lane::boolean};
  return {.dtype = dtype,
          .sum = any_of,
          .product = all_of,
          .min = all_of,
          .max = any_of,
          .band = all_of,
          .bor = any_of,
          .bxor = {xor_kernel, Lane::boolean}};
}

constexpr Row only_moved(DType dtype) { return {.dtype = dtype}; }

constexpr Row rows[] = {
    booleans(DType::boolean),
    integers<int8_t>(DType::int8, Lane::u8, Lane::i8),
    integers<int16_t>(DType::int16, Lane::u16, Lane::i16),
    integers<int32_t>(DType::int32, Lane::u32, Lane::i32),
    integers<int64_t>(DType::int64, Lane::u64, Lane::i64),
    integers<uint8_t>(DType::uint8, Lane::u8, Lane::u8),
    integers<uint16_t>(DType::uint16, Lane::u16, Lane::u16),
    integers<uint32_t>(DType::uint32, Lane::u32, Lane::u32),
    integers<uint64_t>(DType::uint64, Lane::u64, Lane::u64),
    floats(DType::float16, Lane::f16),
    floats(DType::bfloat16, Lane::bf16),
    floats(DType::float32, Lane::f32),
    floats(DType::float64, Lane::f64),
    complex_numbers(DType::complex64, Lane::f32, Lane::c64),
    complex_numbers(DType::complex128, Lane::f64, Lane::c128),
    floats(DType::float8_e4m3fn, Lane::e4m3),
    floats(DType::float8_e5m2, Lane::e5m2),
    only_moved(DType::float8_e4m3fnuz),
    only_moved(DType::float8_e5m2fnuz),
    only_moved(DType::float8_e8m0fnu),
};

constexpr bool in_order_of_dtypes() {
  for (size_t index = 0; index < std::size(rows); ++index)
    if (rows[index].dtype != static_cast<DType>(index)) return false;
  return true;
}
static_assert(in_order_of_dtypes());

const Row& row_of(DType dtype) { return rows[static_cast<size_t>(dtype)]; }

// The column of each ReduceKind, in its order. Where avg divides or premul_sum multiplies, it is scaled_sum instead.
constexpr Choice Row::*columns[] = {&Row::sum,  &Row::sum, &Row::product, &Row::min, &Row::max,
                                    &Row::band, &Row::bor, &Row::bxor,    &Row::sum};
static_assert(std::size(columns) == static_cast<size_t>(ReduceKind::user));

const Choice& choice_of(const Row& row, ReduceKind kind) { return row.*columns[static_cast<size_t>(kind)]; }

bool is_scaled(ReduceKind kind) { return kind == ReduceKind::avg || kind == ReduceKind::premul_sum; }

uint64_t modulo_two_to_64(double whole) {
  const double remainder = std::fmod(whole, 0x1p64);
  return remainder < 0 ? uint64_t{0} - static_cast<uint64_t>(-remainder) : static_cast<uint64_t>(remainder);
}

template <typename... Values>
Status refused(fmt::format_string<Values...> text, Values&&... values) {
  return Status(ErrorCode::argument, fmt::format(text, std::forward<Values>(values)...));
}

Job job_of(const Choice& choice, const Operands& operands) {
  return {.target = operands.target,
          .second_target = operands.second_target,
          .sources = operands.sources,
          .count = static_cast<size_t>(operands.count) * choice.lanes_per_element};
}

void run(const Choice& choice, const Job& job) { choice.family(choice.lane)(job); }

// avg of a complete integer total: the wrapped sum first, then one more pass that divides it where it lies.
void average_integers(const Row& row, const Operands& operands, int ranks) {
  Job job = job_of(row.sum, operands);
  job.second_target = nullptr;
  run(row.sum, job);
  row.divide(job.target, job.count, ranks);
  if (operands.second_target != nullptr)
    std::memcpy(operands.second_target, job.target, job.count * static_cast<size_t>(element_bytes(row.dtype)));
}

// avg and premul_sum, where there is something to multiply or divide by.
void reduce_scaled(const Row& row, const Reduction& reduction, const Operands& operands) {
  const bool is_average = reduction.op.kind == ReduceKind::avg;
  const bool is_integer = row.divide != nullptr;
  if (is_average && is_integer) return average_integers(row, operands, reduction.ranks);
  CHECK(row.scaled_sum.family != nullptr);
  Job job = job_of(row.scaled_sum, operands);
  if (is_average) {
    job.divisor = reduction.ranks;
  } else {
    job.factor = reduction.op.factor;
    if (is_integer) job.whole_factor = modulo_two_to_64(job.factor);
  }
  run(row.scaled_sum, job);
}

Status check_user_reduction(const Reduction& reduction) {
  const UserReduction* user = reduction.op.user_defined;
  if (user == nullptr) return refused("a user-defined reduction has no function; make it with make_reduction()");
  if (user->dtype && *user->dtype != reduction.dtype)
    return refused("\"{}\" of {}: this reduction was made for {}", user->name, name_of(reduction.dtype), name_of(*user->dtype));
  return Status::success();
}

}  // namespace

bool depends_on_order(const Reduction& reduction) {
  const ReduceKind kind = reduction.op.kind;
  if (kind == ReduceKind::user) return true;
  const bool is_exact = row_of(reduction.dtype).divide != nullptr || reduction.dtype == DType::boolean;  // integers wrap
  return !is_exact && (kind == ReduceKind::product || &choice_of(row_of(reduction.dtype), kind) == &row_of(reduction.dtype).sum);
}

bool rounds_partials(DType dtype) {
  const Lane lane = row_of(dtype).sum.lane;
  return lane == Lane::e4m3 || lane == Lane::e5m2 || lane == Lane::f16 || lane == Lane::bf16;
}

Reduction of_partials(const Reduction& reduction) {
  Reduction wide = reduction;
  if (reduction.op.kind != ReduceKind::user && depends_on_order(reduction) && rounds_partials(reduction.dtype)) wide.dtype = DType::float32;
  return wide;
}

void widen(const Reduction& reduction, void* target, const void* source, int64_t count) {
  if (of_partials(reduction) == reduction)
    return reduce(reduction, {.target = target, .sources = {&source, 1}, .count = count, .complete = false});
  const double factor = reduction.op.kind == ReduceKind::premul_sum ? reduction.op.factor : 1.0;
  widening_kernel(row_of(reduction.dtype).sum.lane)(
      {.target = target, .sources = {&source, 1}, .count = static_cast<size_t>(count), .factor = factor});
}

void narrow(const Reduction& reduction, void* target, const void* source, int64_t count) {
  if (of_partials(reduction) == reduction) {
    std::memcpy(target, source, static_cast<size_t>(count * element_bytes(reduction.dtype)));
    return;
  }
  narrowing_kernel(row_of(reduction.dtype).sum.lane)({.target = target, .sources = {&source, 1}, .count = static_cast<size_t>(count)});
}

Status check_reduction(const Reduction& reduction) {
  const ReduceKind kind = reduction.op.kind;
  if (static_cast<size_t>(kind) >= all_reduce_kinds().size() || element_bytes(reduction.dtype) == 0)
    return {ErrorCode::argument, fmt::format("reduction number {} of dtype number {} is none that there is", static_cast<int>(kind),
                                             static_cast<int>(reduction.dtype))};
  if (kind == ReduceKind::user) return check_user_reduction(reduction);
  const Row& row = row_of(reduction.dtype);
  const std::string_view op = name_of(kind);
  const std::string_view dtype = name_of(reduction.dtype);
  if (row.sum.family == nullptr) return refused("{} of {}: numbers of this dtype can be moved, not reduced", op, dtype);
  if (choice_of(row, kind).family == nullptr) {
    if (kind == ReduceKind::min || kind == ReduceKind::max)
      return refused("{} of {}: complex numbers have no order", op, dtype);
    return refused("{} of {}: bitwise operations need integers or bool", op, dtype);
  }
  if (is_scaled(kind) && row.scaled_sum.family == nullptr)
    return refused("{} of {}: use max for 'any' or min for 'all', or convert to a number first", op, dtype);
  if (kind == ReduceKind::avg && reduction.ranks < 1)
    return refused("{} of {}: cannot divide by {} ranks", op, dtype, reduction.ranks);
  const double factor = reduction.op.factor;
  const bool is_whole = std::isfinite(factor) && factor == std::trunc(factor);
  if (kind == ReduceKind::premul_sum && row.divide != nullptr && !is_whole)
    return refused("{} of {}: integers need a whole factor, not {}", op, dtype, factor);
  return Status::success();
}

void reduce(const Reduction& reduction, const Operands& operands) {
  CHECK(!operands.sources.empty());
  if (operands.count == 0) return;  // pointers may be null then
  const ReduceKind kind = reduction.op.kind;
  if (kind == ReduceKind::user) return reduce_by_user(reduction, operands);
  const Row& row = row_of(reduction.dtype);
  const bool divides = kind == ReduceKind::avg && operands.complete && reduction.ranks != 1;
  const bool multiplies = kind == ReduceKind::premul_sum && operands.contributions && reduction.op.factor != 1.0;
  if (divides || multiplies) return reduce_scaled(row, reduction, operands);
  const Choice& choice = choice_of(row, kind);
  CHECK(choice.family != nullptr);
  run(choice, job_of(choice, operands));
}

}  // namespace unisono
