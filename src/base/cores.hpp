// How many cores this process may really use.
#pragma once

#include <cstdint>
#include <string>

namespace unisono {

inline constexpr int core_mask_words = 16;  // 1024 cores, as in glibc's cpu_set_t

struct CoreMask {
  uint64_t words[core_mask_words] = {};
};

CoreMask affinity();                                    // the cores that the scheduler may use for us
int count(const CoreMask& mask);
int quota_cores(const std::string& root = "/");         // what the cpu cgroups allow, rounded up; 0: no limit

}  // namespace unisono
