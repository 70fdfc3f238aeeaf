// What every rank gives in a test, and what a reduction of it must be, worked out without the library.
//
// Data repeats after a prime number of elements, so that it costs little to make and to compare, and whatever lands off
// by a slot, a tile or any other power of two still shows. Floats are small whole numbers whose partial sums and
// products are exact in their dtype in every order, so that every algorithm must give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "unisono/types.hpp"

namespace unisono::testing {

inline constexpr int64_t pattern_period = 1009;

// Elements without end, of which any stretch can be written down or looked for.
class Pattern {
 public:
  Pattern(std::vector<std::byte> period, int64_t element_bytes);

  void write(std::byte* target, int64_t first, int64_t count) const;
  int64_t difference(const std::byte* found, int64_t first, int64_t count) const;  // index of the first; -1: none
  const std::vector<std::byte>& period() const { return period_; }

 private:
  int64_t element_bytes_;
  std::vector<std::byte> period_;
  std::vector<std::byte> twice_;  // so that a whole period can be compared from any phase
};

struct Patterns {
  std::vector<Pattern> given;        // by rank
  std::vector<Pattern> partial;      // the reduction of the first rank, of the first two, and so on; not of avg
  std::unique_ptr<Pattern> reduced;  // null where nothing is reduced
};

// Any bits at all, to be moved.
const Patterns& moving_patterns(DType dtype, int ranks);
// Numbers to reduce by `op`, which must mean something for this dtype; for at most eight ranks where it is an
// 8-bit float.
const Patterns& reducing_patterns(DType dtype, ReduceOp op, int ranks);

// Every reduction that means something for this dtype, with a factor that it can be multiplied by.
std::vector<ReduceOp> meaningful_ops(DType dtype);
std::vector<DType> reducible_dtypes();

}  // namespace unisono::testing
