// One pass over memory: load a vector from every source, combine them by the canonical tree, store the result.
// Compiled once per instruction set, hence the toggling guard.
//
// A kernel type offers: Stored (the type in memory), Register (what is combined), lane_count; load(pointer, extent),
// combine(left, right), pack(register) and save(packed, pointer, extent); and `common`, whether it is worth straight-
// line code for the usual numbers of sources.
//
// The end: the last vector is aligned to the end of the data and so may overlap the one before. It is read and combined
// before anything is stored, because in place its sources are about to be overwritten. So there is no scalar tail whose
// bits could differ.
#if defined(UNISONO_KERNELS_PASS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef UNISONO_KERNELS_PASS_INL
#undef UNISONO_KERNELS_PASS_INL
#else
#define UNISONO_KERNELS_PASS_INL
#endif

#include <algorithm>
#include <bit>
#include <cstddef>
#include <span>

#include "kernels/job.hpp"
#include "kernels/memory-inl.hpp"
#include "kernels/targets.hpp"

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace unisono::HWY_NAMESPACE {

// The canonical tree over a number of sources known here: the left half is the largest power of two below it.
template <size_t source_count, class Type, class Extent>
HWY_INLINE typename Type::Register tree(const Type& kernel, const void* const* sources, size_t at, Extent extent) {
  if constexpr (source_count == 1) {
    return kernel.load(static_cast<const typename Type::Stored*>(sources[0]) + at * Type::stored_per_lane, extent);
  } else {
    constexpr size_t left_count = std::bit_ceil(source_count) / 2;
    const auto left = tree<left_count>(kernel, sources, at, extent);
    const auto right = tree<source_count - left_count>(kernel, sources + left_count, at, extent);
    return kernel.combine(left, right);
  }
}

// The same tree over any number of sources: a binary counter whose digit `level` holds the combination of 2^level whole
// groups of four sources. Adding a group carries like adding one; what is left at the end is folded from the right. Each
// digit is a row of neighbouring vectors, so that the counting is paid for once a row.
template <class Type>
class Counter {
 public:
  using Register = typename Type::Register;
  static constexpr size_t row_length = 8;

  Counter(const Type& kernel, std::span<const void* const> sources) : kernel_(kernel), sources_(sources) {}

  // Returns `length` combined vectors, which stay valid until the next call.
  template <class Extent>
  HWY_NOINLINE const Register* combine(size_t at, size_t length, Extent extent) {
    const size_t groups = sources_.size() / group_size;
    for (size_t group = 0; group < groups; ++group) {
      const size_t level = static_cast<size_t>(std::countr_one(group));
      Register* row = digits_[level];
      load<group_size>(row, group * group_size, at, length, extent);
      for (size_t lower = 0; lower < level; ++lower) add(digits_[lower], row, length);
    }
    size_t left = groups;  // the digits that are still to be folded in
    Register* row = rest_;
    switch (sources_.size() % group_size) {
      case 0:
        row = digits_[std::countr_zero(left)];
        left &= left - 1;
        break;
      case 1: load<1>(row, groups * group_size, at, length, extent); break;
      case 2: load<2>(row, groups * group_size, at, length, extent); break;
      default: load<3>(row, groups * group_size, at, length, extent); break;
    }
    for (; left != 0; left &= left - 1) add(digits_[std::countr_zero(left)], row, length);
    return row;
  }

 private:
  static constexpr size_t group_size = 4;
  static constexpr size_t most_digits = 30;  // for four times 2^30 sources: more than there can be ranks

  template <size_t source_count, class Extent>
  HWY_INLINE void load(Register* row, size_t first_source, size_t at, size_t length, Extent extent) const {
    const void* sources[source_count];  // a copy, which the compiler knows the stores below do not change
    for (size_t index = 0; index < source_count; ++index) sources[index] = sources_[first_source + index];
    for (size_t index = 0; index < length; ++index)
      row[index] = tree<source_count>(kernel_, sources, at + index * Type::lane_count, extent);
  }

  HWY_INLINE void add(const Register* left, Register* right, size_t length) const {
    for (size_t index = 0; index < length; ++index) right[index] = kernel_.combine(left[index], right[index]);
  }

  const Type& kernel_;
  const std::span<const void* const> sources_;
  Register rest_[row_length];
  Register digits_[most_digits][row_length];
};

// Where results go.
template <class Type>
struct Targets {
  explicit Targets(const Job& job)
      : first(static_cast<Stored*>(job.target)), second(static_cast<Stored*>(job.second_target)) {}

  template <class Extent>
  HWY_INLINE void store(const Type& kernel, typename Type::Register result, size_t at, Extent extent) const {
    const auto packed = kernel.pack(result);
    kernel.save(packed, first + at * Type::stored_per_lane, extent);
    if (second != nullptr) kernel.save(packed, second + at * Type::stored_per_lane, extent);
  }

  using Stored = typename Type::Stored;
  Stored* const first;
  Stored* const second;
};

template <size_t source_count, class Type>
HWY_INLINE void pass_over_few(const Job& job) {
  const Type kernel(job);
  const Targets<Type> targets(job);
  const void* sources[source_count];  // a copy, which the compiler knows the stores below do not change
  for (size_t index = 0; index < source_count; ++index) sources[index] = job.sources[index];

  constexpr size_t step = Type::lane_count;
  const size_t count = job.count;
  if (count < step) {
    if (count != 0) targets.store(kernel, tree<source_count>(kernel, sources, 0, Part{count}), 0, Part{count});
    return;
  }
  const size_t last_at = count - step;
  const auto last = tree<source_count>(kernel, sources, last_at, Whole{});
  for (size_t at = 0; at < last_at; at += step)
    targets.store(kernel, tree<source_count>(kernel, sources, at, Whole{}), at, Whole{});
  targets.store(kernel, last, last_at, Whole{});
}

template <class Type>
HWY_NOINLINE void pass_over_many(const Job& job) {
  const Type kernel(job);
  const Targets<Type> targets(job);
  Counter<Type> counter(kernel, job.sources);

  constexpr size_t step = Type::lane_count;
  const size_t count = job.count;
  if (count < step) {
    if (count != 0) targets.store(kernel, *counter.combine(0, 1, Part{count}), 0, Part{count});
    return;
  }
  const size_t last_at = count - step;
  const auto last = *counter.combine(last_at, 1, Whole{});
  for (size_t at = 0; at < last_at;) {
    const size_t length = std::min(Counter<Type>::row_length, (last_at - at + step - 1) / step);
    const auto* row = counter.combine(at, length, Whole{});
    for (size_t index = 0; index < length; ++index, at += step) targets.store(kernel, row[index], at, Whole{});
  }
  targets.store(kernel, last, last_at, Whole{});
}

template <class Type>
void run(const Job& job) {
  const size_t source_count = job.sources.size();
  if (source_count == 2) return pass_over_few<2, Type>(job);
  if constexpr (Type::common) {
    if (source_count == 1) return pass_over_few<1, Type>(job);
    if (source_count == 3) return pass_over_few<3, Type>(job);
    if (source_count == 4) return pass_over_few<4, Type>(job);
    if (source_count == 8) return pass_over_few<8, Type>(job);
  }
  pass_over_many<Type>(job);
}

}  // namespace unisono::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
