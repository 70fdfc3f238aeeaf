// Timing whatever subject.hpp lists. Runs inside every rank; rank 0 prints.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/bench/subject.hpp"

namespace unisono::tools {

struct BenchOptions {
  std::vector<const SubjectKind*> subjects;
  std::vector<int64_t> sizes = {64, 4096, 65536, 1 << 20, 16 << 20, 64 << 20};
  int ranks = 2;
  bool fresh = false;       // every rank rewrites its input before each call, outside the clock
  bool shared = false;      // buffers are shared tensors
  bool persistent = false;  // calls are prepared once; distributed dialect only
  std::string dialect = "distributed";
  std::string hosts;        // a layout of pretended hosts; empty: one machine
  int repeats = 7;
  double seconds = 0.15;    // how long one repeat takes, roughly
  std::string json;         // a file for the rows
};

struct BenchRow {
  std::string_view name;
  int64_t bytes = 0, count = 0, wrong = 0;
  double least_us = 0, median_us = 0;  // over the repeats, of the slowest rank's mean time a call
  double algbw = 0, busbw = 0;         // GB/s, from the least time
};

int run_bench_rank(const BenchOptions& options);
BenchRow measure(const SubjectKind& kind, int64_t bytes, const BenchOptions& options);
double memcpy_us(int64_t bytes, int repeats);  // a plain memcpy of as many bytes by every rank at once: the scale of it all

}  // namespace unisono::tools
