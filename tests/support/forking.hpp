// Before a test forks a process that has threads.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "base/proc_text.hpp"
#include "tests/support/eventually.hpp"

namespace unisono::testing {

// Whether every other thread of this process waits for something: the letter behind its name in /proc/self/task/<thread>/stat.
inline bool other_threads_sleep() {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    const std::string text = proc_text(task.path() / "stat");
    const size_t name_ends = text.rfind(") ");
    if (task.path().filename() != std::to_string(getpid()) && name_ends != text.npos && text[name_ends + 2] != 'S') return false;
  }
  return true;
}

// AddressSanitizer's allocator does not prepare for forks, as the C library's does: a lock that another thread holds, as one does that is just being
// started, stays locked in the child for ever.
inline void await_allocator() {
#ifdef __SANITIZE_ADDRESS__
  EXPECT_TRUE(eventually(other_threads_sleep));
#endif
}

}  // namespace unisono::testing
