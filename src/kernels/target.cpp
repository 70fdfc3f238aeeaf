// Asks Highway which instruction sets there are, and tells it which to use. The choice itself is in highway.cpp, where every
// family of kernels looks it up at each call. Where a build has one instruction set there is nothing to look up.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/target.cpp"
#include "kernels/targets.hpp"

#include "hwy/foreach_target.h"  // compiles the part below once per instruction set

#include "kernels/kernels.hpp"
#include "kernels/target.hpp"

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace unisono::HWY_NAMESPACE {

const char* target_name() { return hwy::TargetName(HWY_TARGET); }

}  // namespace unisono::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace unisono {

HWY_EXPORT(target_name);

const char* kernel_target() { return HWY_DYNAMIC_DISPATCH(target_name)(); }

namespace {

constexpr bool is_one_target = (HWY_TARGETS & (HWY_TARGETS - 1)) == 0;

// A lower bit is a better instruction set.
std::vector<int64_t> usable_targets() {
  std::vector<int64_t> found;
  for (int64_t left = HWY_TARGETS & (HWY_SUPPORTED_TARGETS | HWY_STATIC_TARGET); left != 0; left &= left - 1)
    found.push_back(left & -left);
  return found;
}

}  // namespace

std::vector<std::string_view> kernel_targets() {
  std::vector<std::string_view> names;
  for (const int64_t target : usable_targets()) names.push_back(hwy::TargetName(target));
  return names;
}

bool choose_kernel_target(std::string_view name) {
  for (const int64_t target : usable_targets()) {
    if (hwy::TargetName(target) != name) continue;
    if constexpr (!is_one_target) hwy::GetChosenTarget().Update(target);
    return true;
  }
  return false;
}

}  // namespace unisono
#endif
