// What the numbers of a lane look like in memory and in a register: plain numbers, complex numbers, small floats.
// Compiled once per instruction set, hence the toggling guard. Lanes that only min and max need are in orders.cpp.
//
// These are the parts of a recipe (see pass-inl.hpp) that do not depend on the operation.
#if defined(UNISONO_KERNELS_LANES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef UNISONO_KERNELS_LANES_INL
#undef UNISONO_KERNELS_LANES_INL
#else
#define UNISONO_KERNELS_LANES_INL
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/formats-inl.hpp"
#include "kernels/memory-inl.hpp"
#include "kernels/targets.hpp"

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace unisono::HWY_NAMESPACE {

// A compromise between speed and code. Where a single load is already long, two must do.
constexpr size_t usual_group_size = 4;
constexpr size_t small_group_size = 2;

// Integers, float32 and float64: computed as they are stored.
template <typename Number>
struct PlainLanes {
  using Stored = Number;
  using Tag = hn::ScalableTag<Number>;
  using Register = hn::Vec<Tag>;
  static constexpr size_t lane_count = hn::MaxLanes(Tag());
  static constexpr size_t stored_per_lane = 1;
  static constexpr size_t group_size = usual_group_size;

  template <class Extent>
  HWY_INLINE Register load(const Stored* from, Extent extent) const {
    return fetch(Tag(), from, extent);
  }
  HWY_INLINE Register pack(Register value) const {
    if constexpr (hwy::IsFloat<Number>()) return with_one_nan(Tag(), value);
    return value;
  }
  template <class Extent>
  HWY_INLINE void save(Register packed, Stored* to, Extent extent) const {
    put(packed, Tag(), to, extent);
  }
};

// Any nonzero byte is true; what is stored is 0 or 1.
struct BooleanLanes : PlainLanes<uint8_t> {
  template <class Extent>
  HWY_INLINE Register load(const Stored* from, Extent extent) const {
    return hn::Min(fetch(Tag(), from, extent), hn::Set(Tag(), 1));
  }
};

// What lies at even and at odd places in memory. The constructors are written out because those that the compiler makes
// would not be compiled for the instruction set at hand.
template <class V>
struct Pair {
  HWY_INLINE Pair() {}
  HWY_INLINE Pair(V at_even, V at_odd) : even(at_even), odd(at_odd) {}

  V even, odd;
};

// Real parts are at even places, imaginary parts at odd ones.
template <typename Number>
struct ComplexLanes {
  using Stored = Number;
  using Tag = hn::ScalableTag<Number>;
  using Register = Pair<hn::Vec<Tag>>;
  static constexpr size_t lane_count = hn::MaxLanes(Tag());
  static constexpr size_t stored_per_lane = 2;
  static constexpr size_t group_size = usual_group_size;

  HWY_INLINE Register load(const Stored* from, Whole) const {
    Register value;
    hn::LoadInterleaved2(Tag(), from, value.even, value.odd);
    return value;
  }
  HWY_INLINE Register load(const Stored* from, Part part) const {
    Stored numbers[2 * lane_count] = {};
    std::memcpy(numbers, from, part.count * 2 * sizeof(Stored));
    return load(numbers, Whole{});
  }
  HWY_INLINE Register pack(Register value) const {
    return {with_one_nan(Tag(), value.even), with_one_nan(Tag(), value.odd)};
  }
  HWY_INLINE void save(Register packed, Stored* to, Whole) const {
    hn::StoreInterleaved2(packed.even, packed.odd, Tag(), to);
  }
  HWY_INLINE void save(Register packed, Stored* to, Part part) const {
    Stored numbers[2 * lane_count];
    save(packed, numbers, Whole{});
    std::memcpy(to, numbers, part.count * 2 * sizeof(Stored));
  }
};

// Floats too small to compute in: widened to float32 by the format, rounded once when packed.
template <class Format>
struct WidenedLanes {
  using Stored = typename Format::Stored;
  using Tag = hn::ScalableTag<float>;
  using StoredTag = hn::Rebind<Stored, Tag>;
  using Register = hn::Vec<Tag>;
  static constexpr size_t lane_count = hn::MaxLanes(Tag());
  static constexpr size_t stored_per_lane = 1;
  static constexpr size_t group_size = Format::is_quick ? usual_group_size : small_group_size;

  template <class Extent>
  HWY_INLINE Register load(const Stored* from, Extent extent) const {
    return Format::widen(Tag(), fetch(StoredTag(), from, extent));
  }
  HWY_INLINE hn::Vec<StoredTag> pack(Register value) const { return Format::narrow(StoredTag(), value); }
  template <class Extent>
  HWY_INLINE void save(hn::Vec<StoredTag> packed, Stored* to, Extent extent) const {
    put(packed, StoredTag(), to, extent);
  }
};

#if HWY_TARGET == HWY_SCALAR
using Bfloat16Lanes = WidenedLanes<Bfloat16>;
#else
// As bfloat16 is the upper half of a float32, a vector of them becomes two registers without moving between lanes: odd
// ones lie where they should, even ones are shifted up.
struct Bfloat16Lanes {
  using Stored = uint16_t;
  using Tag = hn::ScalableTag<float>;
  using StoredTag = hn::ScalableTag<uint16_t>;
  using BitsTag = hn::RebindToUnsigned<Tag>;
  using Register = Pair<hn::Vec<Tag>>;
  static constexpr size_t lane_count = hn::MaxLanes(StoredTag());
  static constexpr size_t stored_per_lane = 1;
  static constexpr size_t group_size = usual_group_size;

  template <class Extent>
  HWY_INLINE Register load(const Stored* from, Extent extent) const {
    const auto both = hn::BitCast(BitsTag(), fetch(StoredTag(), from, extent));
    return {hn::BitCast(Tag(), hn::ShiftLeft<16>(both)),
            hn::BitCast(Tag(), hn::And(both, hn::Set(BitsTag(), 0xFFFF0000u)))};
  }
  HWY_INLINE hn::Vec<StoredTag> pack(Register value) const {
    const auto even = hn::ShiftRight<16>(Bfloat16::rounded(value.even));
    const auto odd = hn::And(Bfloat16::rounded(value.odd), hn::Set(BitsTag(), 0xFFFF0000u));
    return hn::BitCast(StoredTag(), hn::Or(even, odd));
  }
  template <class Extent>
  HWY_INLINE void save(hn::Vec<StoredTag> packed, Stored* to, Extent extent) const {
    put(packed, StoredTag(), to, extent);
  }
};
#endif

}  // namespace unisono::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
