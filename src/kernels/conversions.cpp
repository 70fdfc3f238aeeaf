// Between the floats that are too small to compute in and float32, in which their sums travel. What widens may multiply, as scaled sums do;
// what narrows rounds once, ties to even, and has one NaN.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conversions.cpp"
#include "kernels/targets.hpp"

#include "hwy/foreach_target.h"  // compiles the part below once per instruction set

#include "kernels/job.hpp"
#include "kernels/lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace unisono::HWY_NAMESPACE {

template <class Format>
struct Conversion {
  using Lanes = WidenedLanes<Format>;
  using Wide = PlainLanes<float>;
  using Stored = typename Lanes::Stored;

  static void widen(const Job& job) {
    const auto* from = static_cast<const Stored*>(job.sources[0]);
    auto* to = static_cast<float*>(job.target);
    const auto factor = hn::Set(typename Wide::Tag(), static_cast<float>(job.factor));
    const bool multiplies = job.factor != 1.0;
    each_vector(job.count, [&](size_t at, auto extent) HWY_ATTR {
      const auto value = Lanes().load(from + at, extent);
      Wide().save(multiplies ? hn::Mul(value, factor) : value, to + at, extent);
    });
  }

  static void narrow(const Job& job) {
    const auto* from = static_cast<const float*>(job.sources[0]);
    auto* to = static_cast<Stored*>(job.target);
    each_vector(job.count, [&](size_t at, auto extent) HWY_ATTR {
      const Lanes lanes;
      lanes.save(lanes.pack(Wide().load(from + at, extent)), to + at, extent);
    });
  }

 private:
  template <class Visit>
  static HWY_INLINE void each_vector(size_t count, Visit visit) {
    size_t at = 0;
    for (; at + Lanes::lane_count <= count; at += Lanes::lane_count) visit(at, Whole{});
    if (at < count) visit(at, Part{count - at});
  }
};

Kernel widening_kernel(Lane lane) {
  switch (lane) {
    case Lane::e4m3: return Conversion<Float8E4m3>::widen;
    case Lane::e5m2: return Conversion<Float8E5m2>::widen;
    case Lane::f16: return Conversion<Float16>::widen;
    case Lane::bf16: return Conversion<Bfloat16>::widen;
    default: return nullptr;
  }
}

Kernel narrowing_kernel(Lane lane) {
  switch (lane) {
    case Lane::e4m3: return Conversion<Float8E4m3>::narrow;
    case Lane::e5m2: return Conversion<Float8E5m2>::narrow;
    case Lane::f16: return Conversion<Float16>::narrow;
    case Lane::bf16: return Conversion<Bfloat16>::narrow;
    default: return nullptr;
  }
}

}  // namespace unisono::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace unisono {

HWY_EXPORT(widening_kernel);
HWY_EXPORT(narrowing_kernel);

Kernel widening_kernel(Lane lane) { return HWY_DYNAMIC_DISPATCH(widening_kernel)(lane); }
Kernel narrowing_kernel(Lane lane) { return HWY_DYNAMIC_DISPATCH(narrowing_kernel)(lane); }

}  // namespace unisono
#endif
