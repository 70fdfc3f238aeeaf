// What the numbers of a lane look like in memory and in a register: plain numbers, complex numbers, 8- and 16-bit floats.
// Compiled once per instruction set, hence the toggling guard. Lanes that only min and max need are in orders.cpp.
//
// NaN: whatever is stored is the one positive quiet NaN of its format. Which of two NaNs an addition hands on differs
// between instruction sets, and compilers swap operands; ranks on unlike machines must still get the same bits.
#if defined(UNISONO_KERNELS_LANES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef UNISONO_KERNELS_LANES_INL
#undef UNISONO_KERNELS_LANES_INL
#else
#define UNISONO_KERNELS_LANES_INL
#endif

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/memory-inl.hpp"
#include "kernels/targets.hpp"

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace unisono::HWY_NAMESPACE {

template <class Tag>
HWY_INLINE hn::Vec<Tag> with_one_nan(Tag tag, hn::Vec<Tag> value) {
  return hn::IfThenElse(hn::IsNaN(value), hn::Set(tag, std::numeric_limits<hn::TFromD<Tag>>::quiet_NaN()), value);
}

// Integers, float32 and float64: computed as they are stored.
template <typename Number>
struct PlainLanes {
  using Stored = Number;
  using Tag = hn::ScalableTag<Number>;
  using Register = hn::Vec<Tag>;
  static constexpr size_t lane_count = hn::MaxLanes(Tag());
  static constexpr size_t stored_per_lane = 1;

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

// Real and imaginary parts in a register each.
template <typename Number>
struct ComplexLanes {
  using Stored = Number;
  using Tag = hn::ScalableTag<Number>;
  struct Register {
    hn::Vec<Tag> real, imaginary;
  };
  static constexpr size_t lane_count = hn::MaxLanes(Tag());
  static constexpr size_t stored_per_lane = 2;

  HWY_INLINE Register load(const Stored* from, Whole) const {
    Register value;
    hn::LoadInterleaved2(Tag(), from, value.real, value.imaginary);
    return value;
  }
  HWY_INLINE Register load(const Stored* from, Part part) const {
    Stored numbers[2 * lane_count] = {};
    std::memcpy(numbers, from, part.count * 2 * sizeof(Stored));
    return load(numbers, Whole{});
  }
  HWY_INLINE Register pack(Register value) const {
    return {with_one_nan(Tag(), value.real), with_one_nan(Tag(), value.imaginary)};
  }
  HWY_INLINE void save(Register packed, Stored* to, Whole) const {
    hn::StoreInterleaved2(packed.real, packed.imaginary, Tag(), to);
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

}  // namespace unisono::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
