// One pass over memory: load a vector from every source, combine them by the canonical tree, store the result.
// Compiled once per instruction set, hence the toggling guard.
//
// A kernel type offers: Stored (the type in memory), Register (what is combined); lane_count (of a register),
// stored_per_lane, group_size (how many sources it combines in straight-line code); load(pointer, extent),
// combine(left, right), pack(register) and save(packed, pointer, extent).
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

// The tree over fewer sources than `limit`, a number known only now.
template <size_t limit, class Type, class Extent>
HWY_INLINE typename Type::Register tree_below(const Type& kernel, std::span<const void* const> sources, size_t at,
                                              Extent extent) {
  if constexpr (limit > 2) {
    if (sources.size() < limit - 1) return tree_below<limit - 1>(kernel, sources, at, extent);
  }
  return tree<limit - 1>(kernel, sources.data(), at, extent);
}

constexpr size_t most_digits = 31;  // counts to 2^31 groups of sources: more than there can be ranks

// The tree over any number of sources: a binary counter whose digit `level` holds the combination of 2^level groups.
// Adding a group carries like adding one. What is left at the end is folded from the right.
template <class Type, class Extent>
HWY_NOINLINE typename Type::Register tree_of_any(const Type& kernel, std::span<const void* const> sources, size_t at,
                                                 Extent extent) {
  using Register = typename Type::Register;
  constexpr size_t group_size = Type::group_size;
  Register digits[most_digits];
  const size_t groups = sources.size() / group_size;
  for (size_t group = 0; group < groups; ++group, sources = sources.subspan(group_size)) {
    Register sum = tree<group_size>(kernel, sources.data(), at, extent);
    size_t level = 0;
    for (; (group >> level) & 1; ++level) sum = kernel.combine(digits[level], sum);
    digits[level] = sum;
  }
  size_t left = groups;  // the digits that are still to be folded in
  Register sum;
  if (sources.empty()) {
    sum = digits[std::countr_zero(left)];
    left &= left - 1;
  } else {
    sum = tree_below<group_size>(kernel, sources, at, extent);
  }
  for (; left != 0; left &= left - 1) sum = kernel.combine(digits[std::countr_zero(left)], sum);
  return sum;
}

constexpr size_t any = 0;

// The pointers of one pass, copied here so that the compiler knows that the stores do not change them.
template <class Type, size_t source_count>
class Pass {
 public:
  explicit Pass(const Job& job)
      : kernel_(job),
        target_(static_cast<Stored*>(job.target)),
        second_target_(static_cast<Stored*>(job.second_target)),
        all_sources_(job.sources) {
    for (size_t index = 0; index < source_count; ++index) sources_[index] = job.sources[index];
  }

  HWY_INLINE void run(size_t count) const {
    constexpr size_t step = Type::lane_count;
    if (count < step) {
      if (count != 0) store(combined(0, Part{count}), 0, Part{count});
      return;
    }
    const size_t last_at = count - step;
    const Register last = combined(last_at, Whole{});
    for (size_t at = 0; at < last_at; at += step) store(combined(at, Whole{}), at, Whole{});
    store(last, last_at, Whole{});
  }

 private:
  using Stored = typename Type::Stored;
  using Register = typename Type::Register;

  template <class Extent>
  HWY_INLINE Register combined(size_t at, Extent extent) const {
    if constexpr (source_count == any) {
      return tree_of_any(kernel_, all_sources_, at, extent);
    } else {
      return tree<source_count>(kernel_, sources_, at, extent);
    }
  }

  template <class Extent>
  HWY_INLINE void store(Register result, size_t at, Extent extent) const {
    const auto packed = kernel_.pack(result);
    kernel_.save(packed, target_ + at * Type::stored_per_lane, extent);
    if (second_target_ != nullptr) kernel_.save(packed, second_target_ + at * Type::stored_per_lane, extent);
  }

  const Type kernel_;
  Stored* const target_;
  Stored* const second_target_;
  const std::span<const void* const> all_sources_;
  const void* sources_[source_count == any ? 1 : source_count] = {};
};

template <class Type>
void run(const Job& job) {
  const size_t source_count = job.sources.size();
  if (source_count == 2) return Pass<Type, 2>(job).run(job.count);
  if constexpr (Type::group_size == 8) {
    if (source_count == 1) return Pass<Type, 1>(job).run(job.count);
    if (source_count == 3) return Pass<Type, 3>(job).run(job.count);
    if (source_count == 4) return Pass<Type, 4>(job).run(job.count);
    if (source_count == 8) return Pass<Type, 8>(job).run(job.count);
  }
  Pass<Type, any>(job).run(job.count);
}

}  // namespace unisono::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
