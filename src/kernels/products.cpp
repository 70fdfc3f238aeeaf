// Products of integers, floats and complex numbers. Next: pass-inl.hpp, which walks the memory.
//
// The build compiles this directory with -ffp-contract=off, so that a complex product rounds alike on every machine.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/products.cpp"
#include "kernels/targets.hpp"

#include "hwy/foreach_target.h"  // compiles the part below once per instruction set

#include "kernels/arithmetic-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace unisono::HWY_NAMESPACE {

template <class Lanes>
struct Product : Lanes {
  using typename Lanes::Register;

  explicit Product(const Job&) {}
  HWY_INLINE Register combine(Register left, Register right) const { return times(left, right); }
};

// By the schoolbook formula, with no second look at infinities. Real parts are even, imaginary parts odd.
template <typename Number>
struct ComplexProduct : ComplexLanes<Number> {
  using typename ComplexLanes<Number>::Register;

  explicit ComplexProduct(const Job&) {}
  HWY_INLINE Register combine(Register left, Register right) const {
    return {hn::Sub(hn::Mul(left.even, right.even), hn::Mul(left.odd, right.odd)),
            hn::Add(hn::Mul(left.even, right.odd), hn::Mul(left.odd, right.even))};
  }
};

Kernel product_kernel(Lane lane) {
  if (lane == Lane::c64) return run<ComplexProduct<float>>;
  if (lane == Lane::c128) return run<ComplexProduct<double>>;
  return arithmetic_kernel<Product>(lane);
}

}  // namespace unisono::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace unisono {

HWY_EXPORT(product_kernel);

Kernel product_kernel(Lane lane) { return HWY_DYNAMIC_DISPATCH(product_kernel)(lane); }

}  // namespace unisono
#endif
