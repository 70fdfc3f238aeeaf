// How much of everything this process holds, to see whether anything accumulates.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace unisono::testing {

struct Used {
  int64_t descriptors = 0, threads = 0, mappings = 0;
  int64_t resident_bytes = 0, heap_bytes = 0;

  static Used now() {
    Used used;
    namespace fs = std::filesystem;
    for (const auto& entry : fs::directory_iterator("/proc/self/fd")) used.descriptors += entry.is_symlink();
    for (const auto& entry : fs::directory_iterator("/proc/self/task")) used.threads += entry.is_directory();
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) ++used.mappings;
    std::ifstream sizes("/proc/self/statm");
    int64_t all_pages = 0, resident_pages = 0;
    sizes >> all_pages >> resident_pages;
    used.resident_bytes = resident_pages * 4096;
    const struct mallinfo2 heap = mallinfo2();
    used.heap_bytes = static_cast<int64_t>(heap.uordblks + heap.hblkhd);
    return used;
  }

  std::string text() const {
    return fmt::format("{} descriptors, {} threads, {} mappings, {} KiB resident, {} KiB of heap", descriptors, threads, mappings,
                       resident_bytes >> 10, heap_bytes >> 10);
  }
};

// Nothing has grown: descriptors and threads not at all, memory by 5 % at most and what a few caches take.
inline void expect_flat(const Used& before, const Used& after, int64_t caches_bytes = 512 << 10) {
  const std::string both = before.text() + " became " + after.text();
  EXPECT_LE(after.descriptors, before.descriptors) << both;
  EXPECT_LE(after.threads, before.threads) << both;
  EXPECT_LE(after.mappings, before.mappings + before.mappings / 20 + 8) << both;
  EXPECT_LE(after.resident_bytes, before.resident_bytes + before.resident_bytes / 20 + caches_bytes) << both;
  EXPECT_LE(after.heap_bytes, before.heap_bytes + before.heap_bytes / 20 + caches_bytes) << both;
}

}  // namespace unisono::testing
