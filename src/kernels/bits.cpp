// Bitwise and, or, xor: of the bytes of integers, and of bool. Next: pass-inl.hpp, which walks the memory.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/bits.cpp"
#include "kernels/targets.hpp"

#include "hwy/foreach_target.h"  // compiles the part below once per instruction set

#include "kernels/job.hpp"
#include "kernels/lanes-inl.hpp"
#include "kernels/pass-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace unisono::HWY_NAMESPACE {

enum class Logic { and_bits, or_bits, xor_bits };

template <class Lanes, Logic logic>
struct Bitwise : Lanes {
  using typename Lanes::Register;

  explicit Bitwise(const Job&) {}
  HWY_INLINE Register combine(Register left, Register right) const {
    if constexpr (logic == Logic::and_bits) return hn::And(left, right);
    if constexpr (logic == Logic::or_bits) return hn::Or(left, right);
    if constexpr (logic == Logic::xor_bits) return hn::Xor(left, right);
  }
};

template <Logic logic>
Kernel logic_kernel(Lane lane) {
  if (lane == Lane::boolean) return run<Bitwise<BooleanLanes, logic>>;
  if (lane == Lane::u8) return run<Bitwise<PlainLanes<uint8_t>, logic>>;
  return nullptr;
}

Kernel and_kernel(Lane lane) { return logic_kernel<Logic::and_bits>(lane); }
Kernel or_kernel(Lane lane) { return logic_kernel<Logic::or_bits>(lane); }
Kernel xor_kernel(Lane lane) { return logic_kernel<Logic::xor_bits>(lane); }

}  // namespace unisono::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace unisono {

HWY_EXPORT(and_kernel);
HWY_EXPORT(or_kernel);
HWY_EXPORT(xor_kernel);

Kernel and_kernel(Lane lane) { return HWY_DYNAMIC_DISPATCH(and_kernel)(lane); }
Kernel or_kernel(Lane lane) { return HWY_DYNAMIC_DISPATCH(or_kernel)(lane); }
Kernel xor_kernel(Lane lane) { return HWY_DYNAMIC_DISPATCH(xor_kernel)(lane); }

}  // namespace unisono
#endif
