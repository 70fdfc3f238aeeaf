// Adding numbers: the only layer that looks inside an element. `reduce` combines any number of sources in one pass.
//
// Order: sources are given lower rank first and combined by one fixed tree: pair neighbours, carry the odd one up,
// so ((0+1)+(2+3))+4. Every algorithm that hands all contributions to one call therefore gets the same bits.
// 8- and 16-bit floats are widened to float32, combined there, and rounded once, ties to even. Integers wrap.
// NaN propagates through sum, product, avg, min and max, and comes out as the one positive quiet NaN of the dtype; -0
// is less than +0. So an element's bits depend on its inputs alone: not on where it lies in memory, on how many others
// are reduced with it, or on the instruction set.
#pragma once

#include <cstdint>
#include <span>

#include "unisono/status.hpp"
#include "unisono/types.hpp"

namespace unisono {

// A ReduceOp as the kernels take it, many times a call: whoever gave it keeps it alive.
struct KernelOp {
  ReduceKind kind = ReduceKind::sum;
  double factor = 1.0;
  const UserReduction* user_defined = nullptr;

  KernelOp(const ReduceOp& op) : kind(op.kind), factor(op.factor), user_defined(op.user_defined.get()) {}
  bool operator==(const KernelOp&) const = default;
};

// What to do with the numbers of one call; a value.
struct Reduction {
  DType dtype = DType::float32;
  KernelOp op = ReduceOp::sum;
  int ranks = 1;  // the divisor of avg

  bool operator==(const Reduction&) const = default;
};

struct Operands {
  void* target = nullptr;
  void* second_target = nullptr;           // also gets the result, where given: saves a pass over the tile
  std::span<const void* const> sources;    // one or more; each may equal a target, none may overlap one otherwise
  int64_t count = 0;                       // elements
  bool contributions = true;               // sources are what ranks gave: premul_sum multiplies each by its factor
  bool complete = true;                    // the result has everyone's part: avg divides by `ranks`
};

// ArgumentError (naming dtype and op) where the operation means nothing: bitwise on floats, an order on complex,
// adding fnuz or e8m0 floats, premul_sum of integers by a fraction.
Status check_reduction(const Reduction& reduction);

// Whether the bits of the result depend on the order in which contributions are combined: sums and products of floats.
bool depends_on_order(const Reduction& reduction);
// Whether they do even by the same tree, where a partial result is written down on the way: 8- and 16-bit floats.
bool rounds_partials(DType dtype);

// What partial results are held in where they travel between additions, so that nothing is rounded on the way: float32 for sums and products
// of such floats, else the dtype itself, and so for reductions of the user's. The reduction of partial results is the same one of that dtype.
Reduction of_partials(const Reduction& reduction);
// A contribution as a partial result, and a result of partial ones as it is given to the user; each for `count` elements.
void widen(const Reduction& reduction, void* target, const void* source, int64_t count);
void narrow(const Reduction& reduction, void* target, const void* source, int64_t count);

// Pointers need no alignment. A reduction of the user's may throw, an Error then. `reduction` has passed check_reduction.
void reduce(const Reduction& reduction, const Operands& operands);

// The same by the user's function, which is shown copies only: user.cpp.
void reduce_by_user(const Reduction& reduction, const Operands& operands);

// The instruction set chosen at run time, for `unisono bench` and bug reports: "AVX3", "NEON", ….
const char* kernel_target();

}  // namespace unisono
