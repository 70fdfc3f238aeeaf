// How much a test should try: UNISONO_TEST_SMALL=1 under the sanitizers, UNISONO_TEST_FULL=1 for the full matrices.
#pragma once

#include "unisono/settings.hpp"

namespace unisono::testing {

enum class Scale { small, normal, full };

inline Scale scale() {
  const Environment environment = process_environment();
  if (environment.contains("UNISONO_TEST_SMALL")) return Scale::small;
  return environment.contains("UNISONO_TEST_FULL") ? Scale::full : Scale::normal;
}

}  // namespace unisono::testing
