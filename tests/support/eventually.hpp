// Waiting for a condition that nobody announces.
#pragma once

#include <thread>

#include "base/clock.hpp"

namespace unisono::testing {

// True as soon as `condition` is; false when it is not within a minute, which no test should take.
template <typename Condition>
bool eventually(Condition condition) {
  const int64_t deadline_ns = now_ns() + 60'000'000'000;
  while (!condition()) {
    if (now_ns() > deadline_ns) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace unisono::testing
