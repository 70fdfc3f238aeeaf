// How much a test should try: UNISONO_TEST_SMALL=1 under the sanitizers, UNISONO_TEST_FULL=1 for the full matrices.
#pragma once

#include "tests/support/children.hpp"

namespace unisono::testing {

enum class Scale { small, normal, full };

inline Scale scale() { return small_run() ? Scale::small : full_run() ? Scale::full : Scale::normal; }

}  // namespace unisono::testing
