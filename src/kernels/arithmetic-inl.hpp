// Which lanes can be added and multiplied, and how: shared by sums.cpp and products.cpp.
// Compiled once per instruction set, hence the toggling guard.
#if defined(UNISONO_KERNELS_ARITHMETIC_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef UNISONO_KERNELS_ARITHMETIC_INL
#undef UNISONO_KERNELS_ARITHMETIC_INL
#else
#define UNISONO_KERNELS_ARITHMETIC_INL
#endif

#include "kernels/formats-inl.hpp"
#include "kernels/job.hpp"
#include "kernels/lanes-inl.hpp"
#include "kernels/pass-inl.hpp"
#include "kernels/targets.hpp"

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace unisono::HWY_NAMESPACE {

template <class V>
HWY_INLINE V plus(V left, V right) {
  return hn::Add(left, right);
}

// Integers wrap. Highway multiplies everything but bytes, which go by two here.
template <class V>
HWY_INLINE V times(V left, V right) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (sizeof(hn::TFromV<V>) == 1) {
    const hn::DFromV<V> bytes;
    const hn::RepartitionToWide<decltype(bytes)> twos;
    const auto even = hn::Mul(hn::BitCast(twos, left), hn::BitCast(twos, right));
    const auto odd = hn::Mul(hn::ShiftRight<8>(hn::BitCast(twos, left)), hn::ShiftRight<8>(hn::BitCast(twos, right)));
    return hn::BitCast(bytes, hn::Or(hn::And(even, hn::Set(twos, 0xFF)), hn::ShiftLeft<8>(odd)));
  } else
#endif
  {
    return hn::Mul(left, right);
  }
}

template <class V>
HWY_INLINE V over(V left, V right) {
  return hn::Div(left, right);
}

template <class V>
HWY_INLINE Pair<V> plus(Pair<V> left, Pair<V> right) {
  return {plus(left.even, right.even), plus(left.odd, right.odd)};
}
template <class V>
HWY_INLINE Pair<V> times(Pair<V> left, Pair<V> right) {
  return {times(left.even, right.even), times(left.odd, right.odd)};
}
template <class V>
HWY_INLINE Pair<V> times(Pair<V> left, V right) {
  return {times(left.even, right), times(left.odd, right)};
}
template <class V>
HWY_INLINE Pair<V> over(Pair<V> left, V right) {
  return {over(left.even, right), over(left.odd, right)};
}

template <template <class> class Recipe>
Kernel arithmetic_kernel(Lane lane) {
  switch (lane) {
    case Lane::u8: return run<Recipe<PlainLanes<uint8_t>>>;
    case Lane::u16: return run<Recipe<PlainLanes<uint16_t>>>;
    case Lane::u32: return run<Recipe<PlainLanes<uint32_t>>>;
    case Lane::u64: return run<Recipe<PlainLanes<uint64_t>>>;
    case Lane::e4m3: return run<Recipe<WidenedLanes<Float8E4m3>>>;
    case Lane::e5m2: return run<Recipe<WidenedLanes<Float8E5m2>>>;
    case Lane::f16: return run<Recipe<WidenedLanes<Float16>>>;
    case Lane::bf16: return run<Recipe<Bfloat16Lanes>>;
    case Lane::f32: return run<Recipe<PlainLanes<float>>>;
    case Lane::f64: return run<Recipe<PlainLanes<double>>>;
    default: return nullptr;
  }
}

}  // namespace unisono::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
