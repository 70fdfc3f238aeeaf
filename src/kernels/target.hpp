// Which instruction set the kernels use, for tests that run all of them. kernel_target() in kernels.hpp says which.
#pragma once

#include <string_view>
#include <vector>

namespace unisono {

// Those that this build has and this machine can run, best first.
std::vector<std::string_view> kernel_targets();

// Makes every thread of the process use one of them; false where it is not one of them.
bool choose_kernel_target(std::string_view name);

}  // namespace unisono
