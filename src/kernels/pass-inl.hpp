// One pass over memory: load a vector from every source, combine them by the canonical tree, store the result.
// Compiled once per instruction set, hence the toggling guard.
//
// What to do with a vector is a recipe: load(pointer, extent) gives a Register, combine(left, right) makes one of two,
// pack(register) turns the result into what save(packed, pointer, extent) stores. Its numbers: lane_count of a
// Register, stored_per_lane in memory, and group_size, how many sources are worth combining in straight-line code.
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

constexpr size_t large_group_size = 8;  // of the few recipes that get straight-line code for each usual number

// The canonical tree over a number of sources known here: the left half is the largest power of two below it.
template <size_t source_count, class Recipe, class Extent>
HWY_INLINE typename Recipe::Register tree(const Recipe& recipe, const void* const* sources, size_t at, Extent extent) {
  if constexpr (source_count == 1) {
    return recipe.load(static_cast<const typename Recipe::Stored*>(sources[0]) + at * Recipe::stored_per_lane, extent);
  } else {
    constexpr size_t left_count = std::bit_ceil(source_count) / 2;
    const auto left = tree<left_count>(recipe, sources, at, extent);
    const auto right = tree<source_count - left_count>(recipe, sources + left_count, at, extent);
    return recipe.combine(left, right);
  }
}

// The tree over one source or more, but fewer than `limit`.
template <size_t limit, class Recipe, class Extent>
HWY_INLINE typename Recipe::Register tree_below(const Recipe& recipe, std::span<const void* const> sources, size_t at,
                                                Extent extent) {
  if constexpr (limit > 2) {
    if (sources.size() < limit - 1) return tree_below<limit - 1>(recipe, sources, at, extent);
  }
  return tree<limit - 1>(recipe, sources.data(), at, extent);
}

constexpr size_t most_digits = 31;  // counts to 2^31 groups of sources: more than there can be ranks

// The tree over any number of sources: a binary counter whose digit `level` holds the combination of 2^level groups.
// Adding a group carries like adding one. What is left at the end is folded from the right.
template <class Recipe, class Extent>
HWY_NOINLINE typename Recipe::Register tree_of_any(const Recipe& recipe, std::span<const void* const> sources,
                                                   size_t at, Extent extent) {
  using Register = typename Recipe::Register;
  constexpr size_t group_size = Recipe::group_size;
  Register digits[most_digits];
  const size_t groups = sources.size() / group_size;
  for (size_t group = 0; group < groups; ++group, sources = sources.subspan(group_size)) {
    Register sum = tree<group_size>(recipe, sources.data(), at, extent);
    size_t level = 0;
    for (; (group >> level) & 1; ++level) sum = recipe.combine(digits[level], sum);
    digits[level] = sum;
  }
  size_t left = groups;  // the digits that are still to be folded in
  Register sum;
  if (sources.empty()) {
    sum = digits[std::countr_zero(left)];
    left &= left - 1;
  } else {
    sum = tree_below<group_size>(recipe, sources, at, extent);
  }
  for (; left != 0; left &= left - 1) sum = recipe.combine(digits[std::countr_zero(left)], sum);
  return sum;
}

constexpr size_t any = 0;

// The pointers of one pass, copied here so that the compiler knows that the stores do not change them.
template <class Recipe, size_t source_count>
class Pass {
 public:
  explicit Pass(const Job& job)
      : recipe_(job),
        target_(static_cast<Stored*>(job.target)),
        second_target_(static_cast<Stored*>(job.second_target)),
        all_sources_(job.sources) {
    for (size_t index = 0; index < source_count; ++index) sources_[index] = job.sources[index];
  }

  HWY_INLINE void run(size_t count) const {
    constexpr size_t step = Recipe::lane_count;
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
  using Stored = typename Recipe::Stored;
  using Register = typename Recipe::Register;

  template <class Extent>
  HWY_INLINE Register combined(size_t at, Extent extent) const {
    if constexpr (source_count == any) {
      return tree_of_any(recipe_, all_sources_, at, extent);
    } else {
      return tree<source_count>(recipe_, sources_, at, extent);
    }
  }

  template <class Extent>
  HWY_INLINE void store(Register result, size_t at, Extent extent) const {
    const auto packed = recipe_.pack(result);
    recipe_.save(packed, target_ + at * Recipe::stored_per_lane, extent);
    if (second_target_ != nullptr) recipe_.save(packed, second_target_ + at * Recipe::stored_per_lane, extent);
  }

  const Recipe recipe_;
  Stored* const target_;
  Stored* const second_target_;
  const std::span<const void* const> all_sources_;
  const void* sources_[source_count == any ? 1 : source_count] = {};
};

template <class Recipe>
void run(const Job& job) {
  const size_t source_count = job.sources.size();
  if (source_count == 2) return Pass<Recipe, 2>(job).run(job.count);
  if constexpr (Recipe::group_size == large_group_size) {
    if (source_count == 1) return Pass<Recipe, 1>(job).run(job.count);
    if (source_count == 3) return Pass<Recipe, 3>(job).run(job.count);
    if (source_count == 4) return Pass<Recipe, 4>(job).run(job.count);
    if (source_count == 5) return Pass<Recipe, 5>(job).run(job.count);
    if (source_count == 6) return Pass<Recipe, 6>(job).run(job.count);
    if (source_count == 7) return Pass<Recipe, 7>(job).run(job.count);
    if (source_count == 8) return Pass<Recipe, 8>(job).run(job.count);
  }
  Pass<Recipe, any>(job).run(job.count);
}

}  // namespace unisono::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
