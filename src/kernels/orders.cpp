// Minimum and maximum. Next: pass-inl.hpp, which walks the memory.
//
// Floats are compared as integers of their own size: with the bits below the sign flipped where the sign is set, they
// order as the numbers do, -0 before +0. A NaN is made to win whichever side is asked for. So the result is one of the
// inputs, is never rounded, and does not hang on what an instruction set thinks of NaN and of the two zeros.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/orders.cpp"
#include "kernels/targets.hpp"

#include "hwy/foreach_target.h"  // compiles the part below once per instruction set

#include <limits>

#include "kernels/job.hpp"
#include "kernels/lanes-inl.hpp"
#include "kernels/pass-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace unisono::HWY_NAMESPACE {

enum class Side { smallest, largest };

template <class Lanes, Side side>
struct Extreme : Lanes {
  using typename Lanes::Register;

  explicit Extreme(const Job&) {}
  HWY_INLINE Register combine(Register left, Register right) const {
    return side == Side::smallest ? hn::Min(left, right) : hn::Max(left, right);
  }
};

// A float by its bits: `last_number` is the largest magnitude that is not NaN, `nan` the NaN that is stored.
template <typename Bits, Bits last_number, Bits nan, Side side>
struct OrderedLanes : PlainLanes<Bits> {
  using typename PlainLanes<Bits>::Register;
  using typename PlainLanes<Bits>::Tag;
  static constexpr Bits magnitude_mask = std::numeric_limits<Bits>::max();
  static constexpr Bits winner =
      side == Side::smallest ? std::numeric_limits<Bits>::min() : std::numeric_limits<Bits>::max();

  // Turns bits into a number that orders, and such a number back into bits.
  static HWY_INLINE Register turned(Register bits) {
    return hn::Xor(bits, hn::And(hn::BroadcastSignBit(bits), hn::Set(Tag(), magnitude_mask)));
  }
  template <class Extent>
  HWY_INLINE Register load(const Bits* from, Extent extent) const {
    const Register bits = fetch(Tag(), from, extent);
    const Register magnitude = hn::And(bits, hn::Set(Tag(), magnitude_mask));
    const auto is_nan = hn::Gt(magnitude, hn::Set(Tag(), last_number));
    return hn::IfThenElse(is_nan, hn::Set(Tag(), winner), turned(bits));
  }
  HWY_INLINE Register pack(Register value) const {
    return hn::IfThenElse(hn::Eq(value, hn::Set(Tag(), winner)), hn::Set(Tag(), nan), turned(value));
  }
};

template <Side side>
Kernel order_kernel(Lane lane) {
  switch (lane) {
    case Lane::u8: return run<Extreme<PlainLanes<uint8_t>, side>>;
    case Lane::u16: return run<Extreme<PlainLanes<uint16_t>, side>>;
    case Lane::u32: return run<Extreme<PlainLanes<uint32_t>, side>>;
    case Lane::u64: return run<Extreme<PlainLanes<uint64_t>, side>>;
    case Lane::i8: return run<Extreme<PlainLanes<int8_t>, side>>;
    case Lane::i16: return run<Extreme<PlainLanes<int16_t>, side>>;
    case Lane::i32: return run<Extreme<PlainLanes<int32_t>, side>>;
    case Lane::i64: return run<Extreme<PlainLanes<int64_t>, side>>;
    case Lane::e4m3: return run<Extreme<OrderedLanes<int8_t, 0x7E, 0x7F, side>, side>>;
    case Lane::e5m2: return run<Extreme<OrderedLanes<int8_t, 0x7C, 0x7E, side>, side>>;
    case Lane::f16: return run<Extreme<OrderedLanes<int16_t, 0x7C00, 0x7E00, side>, side>>;
    case Lane::bf16: return run<Extreme<OrderedLanes<int16_t, 0x7F80, 0x7FC0, side>, side>>;
    case Lane::f32: return run<Extreme<OrderedLanes<int32_t, 0x7F800000, 0x7FC00000, side>, side>>;
    case Lane::f64: return run<Extreme<OrderedLanes<int64_t, 0x7FF0000000000000, 0x7FF8000000000000, side>, side>>;
    default: return nullptr;
  }
}

Kernel min_kernel(Lane lane) { return order_kernel<Side::smallest>(lane); }
Kernel max_kernel(Lane lane) { return order_kernel<Side::largest>(lane); }

}  // namespace unisono::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace unisono {

HWY_EXPORT(min_kernel);
HWY_EXPORT(max_kernel);

Kernel min_kernel(Lane lane) { return HWY_DYNAMIC_DISPATCH(min_kernel)(lane); }
Kernel max_kernel(Lane lane) { return HWY_DYNAMIC_DISPATCH(max_kernel)(lane); }

}  // namespace unisono
#endif
