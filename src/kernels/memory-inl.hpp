// Vectors from memory and back, whole or in part. Compiled once per instruction set, hence the toggling guard.
//
// Only a count smaller than one vector is loaded in part (see pass-inl.hpp). Lanes past the count are zero, are
// computed on like the others and are not stored, so an element's bits do not depend on where in a vector it lay.
#if defined(UNISONO_KERNELS_MEMORY_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef UNISONO_KERNELS_MEMORY_INL
#undef UNISONO_KERNELS_MEMORY_INL
#else
#define UNISONO_KERNELS_MEMORY_INL
#endif

#include <cstddef>
#include <cstring>

#include "kernels/targets.hpp"

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace unisono::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// How much of a vector a load or a store covers.
struct Whole {};
struct Part {
  size_t count;
};

template <class Tag>
HWY_INLINE hn::Vec<Tag> fetch(Tag tag, const hn::TFromD<Tag>* from, Whole) {
  return hn::LoadU(tag, from);
}

template <class Tag>
HWY_INLINE void put(hn::Vec<Tag> value, Tag tag, hn::TFromD<Tag>* to, Whole) {
  hn::StoreU(value, tag, to);
}

// Whether loads and stores can leave lanes out without touching their memory. AVX2 can where a lane has four bytes.
template <class Tag>
constexpr bool can_leave_out = !HWY_MEM_OPS_MIGHT_FAULT ||
                               (HWY_TARGET == HWY_AVX2 && sizeof(hn::TFromD<Tag>) >= 4 && !HWY_IS_ASAN);

// Where they cannot, the part goes through a vector's worth of stack. Not inlined: there are many callers.
template <class Tag>
HWY_NOINLINE hn::Vec<Tag> fetch_by_stack(Tag tag, const hn::TFromD<Tag>* from, size_t count) {
  HWY_ALIGN hn::TFromD<Tag> lanes[hn::MaxLanes(tag)] = {};
  std::memcpy(lanes, from, count * sizeof(lanes[0]));
  return hn::Load(tag, lanes);
}

template <class Tag>
HWY_NOINLINE void put_by_stack(hn::Vec<Tag> value, Tag tag, hn::TFromD<Tag>* to, size_t count) {
  HWY_ALIGN hn::TFromD<Tag> lanes[hn::MaxLanes(tag)];
  hn::Store(value, tag, lanes);
  std::memcpy(to, lanes, count * sizeof(lanes[0]));
}

template <class Tag>
HWY_INLINE hn::Vec<Tag> fetch(Tag tag, const hn::TFromD<Tag>* from, Part part) {
  if constexpr (can_leave_out<Tag>) {
    return hn::MaskedLoad(hn::FirstN(tag, part.count), tag, from);
  } else {
    return fetch_by_stack(tag, from, part.count);
  }
}

template <class Tag>
HWY_INLINE void put(hn::Vec<Tag> value, Tag tag, hn::TFromD<Tag>* to, Part part) {
  if constexpr (can_leave_out<Tag>) {
    hn::BlendedStore(value, hn::FirstN(tag, part.count), tag, to);
  } else {
    put_by_stack(value, tag, to, part.count);
  }
}

}  // namespace unisono::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
