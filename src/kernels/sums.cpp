// Sums, plain and scaled. Complex numbers add as twice as many floats. Next: pass-inl.hpp, which walks the memory.
//
// The build compiles this directory with -ffp-contract=off: a multiplication fused with the addition after it would
// round once instead of twice, on some machines and not on others.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/sums.cpp"
#include "kernels/targets.hpp"

#include "hwy/foreach_target.h"  // compiles the part below once per instruction set

#include "kernels/arithmetic-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace unisono::HWY_NAMESPACE {

template <class Lanes>
struct Sum : Lanes {
  using typename Lanes::Register;
  // What people train with, on machines they train on, is worth more code than the rest.
  static constexpr bool is_hot = HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_SSE4 &&
                                 Lanes::group_size == usual_group_size &&
                                 hwy::IsFloat<hn::TFromD<typename Lanes::Tag>>();
  static constexpr size_t group_size = is_hot ? large_group_size : Lanes::group_size;

  explicit Sum(const Job&) {}
  HWY_INLINE Register combine(Register left, Register right) const { return plus(left, right); }
};

// Multiplies each source by the factor, divides the total by the divisor; integers are divided elsewhere.
template <class Lanes>
struct ScaledSum : Lanes {
  using typename Lanes::Register;
  using Number = hn::TFromD<typename Lanes::Tag>;

  explicit ScaledSum(const Job& job) : scaled(job.factor != 1.0), divided(job.divisor != 1.0) {
    if constexpr (hwy::IsFloat<Number>()) {
      factor = static_cast<Number>(job.factor);
      divisor = static_cast<Number>(job.divisor);
    } else {
      factor = static_cast<Number>(job.whole_factor);
    }
  }
  template <class Extent>
  HWY_INLINE Register load(const typename Lanes::Stored* from, Extent extent) const {
    const Register value = Lanes::load(from, extent);
    return scaled ? times(value, hn::Set(typename Lanes::Tag(), factor)) : value;
  }
  HWY_INLINE Register combine(Register left, Register right) const { return plus(left, right); }
  HWY_INLINE auto pack(Register value) const {
    if constexpr (hwy::IsFloat<Number>()) {
      if (divided) value = over(value, hn::Set(typename Lanes::Tag(), divisor));
    }
    return Lanes::pack(value);
  }

  const bool scaled;
  const bool divided;
  Number factor = 1;
  Number divisor = 1;
};

Kernel sum_kernel(Lane lane) { return arithmetic_kernel<Sum>(lane); }
Kernel scaled_sum_kernel(Lane lane) { return arithmetic_kernel<ScaledSum>(lane); }

}  // namespace unisono::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace unisono {

HWY_EXPORT(sum_kernel);
HWY_EXPORT(scaled_sum_kernel);

Kernel sum_kernel(Lane lane) { return HWY_DYNAMIC_DISPATCH(sum_kernel)(lane); }
Kernel scaled_sum_kernel(Lane lane) { return HWY_DYNAMIC_DISPATCH(scaled_sum_kernel)(lane); }

}  // namespace unisono
#endif
