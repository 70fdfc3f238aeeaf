// The 8- and 16-bit float formats: widened exactly to float32, narrowed with one rounding to nearest, ties to even.
// Compiled once per instruction set, hence the toggling guard.
//
// Integer arithmetic throughout, except for float16 where the instruction set converts it: what Highway offers else
// truncates. No step of float16 and of the 8-bit floats needs a denormal float32, so their own denormals also survive
// in a thread that flushes denormals to zero.
//
// NaN: whatever is stored is the one positive quiet NaN of its format. Which of two NaNs an addition hands on differs
// between instruction sets, and compilers swap operands; ranks on unlike machines must still get the same bits.
#if defined(UNISONO_KERNELS_FORMATS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef UNISONO_KERNELS_FORMATS_INL
#undef UNISONO_KERNELS_FORMATS_INL
#else
#define UNISONO_KERNELS_FORMATS_INL
#endif

#include <cstdint>
#include <limits>

#include "kernels/memory-inl.hpp"
#include "kernels/targets.hpp"

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace unisono::HWY_NAMESPACE {

constexpr int32_t float32_infinity = 0x7F800000;
constexpr int32_t float32_nan = 0x7FC00000;
constexpr int32_t float32_magnitude = 0x7FFFFFFF;

template <class Tag>
HWY_INLINE hn::Vec<Tag> with_one_nan(Tag tag, hn::Vec<Tag> value) {
  return hn::IfThenElse(hn::IsNaN(value), hn::Set(tag, std::numeric_limits<hn::TFromD<Tag>>::quiet_NaN()), value);
}

// The upper half of a float32. A quick format is one that takes few instructions to load.
struct Bfloat16 {
  using Stored = uint16_t;
  static constexpr bool is_quick = true;

  template <class Tag, class V>
  static HWY_INLINE hn::Vec<Tag> widen(Tag tag, V code) {
    const hn::RebindToUnsigned<Tag> bits;
    return hn::BitCast(tag, hn::ShiftLeft<16>(hn::PromoteTo(bits, code)));
  }
  template <class StoredTag, class V>
  static HWY_INLINE hn::Vec<StoredTag> narrow(StoredTag stored, V value) {
    return hn::TruncateTo(stored, hn::ShiftRight<16>(rounded(value)));
  }
  // The bits of the float32 whose upper half is the nearest bfloat16; the lower half is left over.
  template <class V>
  static HWY_INLINE auto rounded(V value) {
    const hn::RebindToUnsigned<hn::DFromV<V>> tag;
    const auto bits = hn::BitCast(tag, value);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(tag, 1));
    const auto sum = hn::Add(hn::Add(bits, hn::Set(tag, 0x7FFF)), odd);
    return hn::IfThenElse(hn::RebindMask(tag, hn::IsNaN(value)), hn::Set(tag, float32_nan), sum);
  }
};

// A format with fewer bits of exponent and of mantissa than float32. `max_finite` is the code of its largest number;
// the code after it is infinity, or the only NaN where the format has no infinity.
template <typename StoredType, int mantissa_bits, int bias, int max_finite, bool has_infinity>
struct SmallFloat {
  using Stored = StoredType;
  static constexpr bool is_quick = false;
  static constexpr int bit_count = 8 * sizeof(Stored);
  static constexpr int magnitude_mask = (1 << (bit_count - 1)) - 1;
  static constexpr int drop = 23 - mantissa_bits;  // how many mantissa bits float32 has more
  static constexpr int rebias = (127 - bias) << 23;
  static constexpr int one_exponent = 1 << 23;
  static constexpr int nan_code = max_finite + 1 + (has_infinity ? 1 << (mantissa_bits - 1) : 0);
  // The float32 whose last bit is worth as much as the format's smallest number.
  static constexpr int unit_of_denormals = (127 + 1 - bias - mantissa_bits + 23) << 23;

  template <class Tag, class V>
  static HWY_INLINE hn::Vec<Tag> widen(Tag tag, V code_in) {
    const hn::RebindToSigned<Tag> bits;
    const auto code = hn::BitCast(bits, hn::PromoteTo(hn::RebindToUnsigned<Tag>(), code_in));
    const auto magnitude = hn::And(code, hn::Set(bits, magnitude_mask));
    const auto sign = hn::ShiftLeft<32 - bit_count>(hn::Xor(code, magnitude));
    const auto shifted = hn::ShiftLeft<drop>(magnitude);
    const auto normal = hn::Add(shifted, hn::Set(bits, rebias));
    // Read as if normal, a denormal has a leading one too many; taking it off again is exact.
    const auto too_large = hn::BitCast(tag, hn::Add(normal, hn::Set(bits, one_exponent)));
    const auto denormal = hn::BitCast(bits, hn::Sub(too_large, hn::BitCast(tag, hn::Set(bits, rebias + one_exponent))));
    const auto special = has_infinity ? hn::Or(shifted, hn::Set(bits, float32_infinity)) : hn::Set(bits, float32_nan);
    auto value = hn::IfThenElse(hn::Lt(magnitude, hn::Set(bits, 1 << mantissa_bits)), denormal, normal);
    value = hn::IfThenElse(hn::Gt(magnitude, hn::Set(bits, max_finite)), special, value);
    return hn::BitCast(tag, hn::Or(value, sign));
  }

  template <class StoredTag, class V>
  static HWY_INLINE hn::Vec<StoredTag> narrow(StoredTag stored, V value) {
    const hn::DFromV<V> tag;
    const hn::RebindToSigned<decltype(tag)> bits;
    const hn::RebindToUnsigned<decltype(tag)> unsigned_bits;
    const auto given = hn::BitCast(bits, value);
    const auto magnitude = hn::And(given, hn::Set(bits, float32_magnitude));
    const auto sign_bit = hn::BitCast(unsigned_bits, hn::Xor(given, magnitude));
    const auto sign = hn::BitCast(bits, hn::ShiftRight<32 - bit_count>(sign_bit));
    const auto odd = hn::And(hn::ShiftRight<drop>(magnitude), hn::Set(bits, 1));
    const auto almost_half = hn::Set(bits, (1 << (drop - 1)) - 1 - rebias);
    const auto normal = hn::ShiftRight<drop>(hn::Add(hn::Add(magnitude, almost_half), odd));
    // Adding the unit makes the float adder round to multiples of the format's smallest number.
    const auto unit = hn::Set(bits, unit_of_denormals);
    const auto in_units = hn::Add(hn::BitCast(tag, magnitude), hn::BitCast(tag, unit));
    const auto denormal = hn::Sub(hn::BitCast(bits, in_units), unit);
    auto code = hn::IfThenElse(hn::Lt(magnitude, hn::Set(bits, rebias + one_exponent)), denormal, normal);
    code = hn::Min(code, hn::Set(bits, max_finite + 1));
    const auto is_nan = has_infinity ? hn::Gt(magnitude, hn::Set(bits, float32_infinity))
                                     : hn::Gt(code, hn::Set(bits, max_finite));
    code = hn::IfThenElse(is_nan, hn::Set(bits, nan_code), hn::Or(code, sign));
    return hn::TruncateTo(stored, hn::BitCast(unsigned_bits, code));
  }
};

using Float8E4m3 = SmallFloat<uint8_t, 3, 7, 0x7E, false>;
using Float8E5m2 = SmallFloat<uint8_t, 2, 15, 0x7B, true>;

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_NEON
struct Float16 {
  using Stored = uint16_t;
  static constexpr bool is_quick = true;

  template <class Tag, class V>
  static HWY_INLINE hn::Vec<Tag> widen(Tag tag, V code) {
    return hn::PromoteTo(tag, hn::BitCast(hn::Rebind<hwy::float16_t, Tag>(), code));
  }
  template <class StoredTag, class V>
  static HWY_INLINE hn::Vec<StoredTag> narrow(StoredTag stored, V value) {
    const hn::DFromV<V> tag;
    return hn::BitCast(stored, hn::DemoteTo(hn::Rebind<hwy::float16_t, StoredTag>(), with_one_nan(tag, value)));
  }
};
#else
using Float16 = SmallFloat<uint16_t, 10, 15, 0x7BFF, true>;
#endif

}  // namespace unisono::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
