// How much memory may still be taken. Under a memory cgroup the kernel kills a process instead of returning ENOMEM, so
// this is asked before memory is taken, never after.
#pragma once

#include <cstdint>
#include <string>

#include "unisono/status.hpp"

namespace unisono {

// The smallest of MemAvailable and what each memory cgroup above this process still allows; `root` is "/" but in tests.
struct Headroom {
  int64_t bytes = INT64_MAX;
  std::string limited_by;  // "MemAvailable", or the cgroup file that is tightest
};
Headroom memory_headroom(const std::string& root = "/");

// MemoryError with the numbers when `bytes` more would not fit.
Status require_headroom(int64_t bytes, const std::string& what);

}  // namespace unisono
