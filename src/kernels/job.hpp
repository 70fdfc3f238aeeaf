// What passes between kernels.cpp and the vector code: one Job, the names of the lanes, and the families of kernels,
// which are in sums.cpp, products.cpp, orders.cpp, bits.cpp and conversions.cpp. Nothing here depends on the instruction set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace unisono {

// How a number is held while it is combined. Several dtypes share a lane: int8 and uint8 wrap to the same bits.
enum class Lane : uint8_t {
  none,  // the operation means nothing
  boolean,
  u8,
  u16,
  u32,
  u64,
  i8,
  i16,
  i32,
  i64,
  e4m3,
  e5m2,
  f16,
  bf16,
  f32,
  f64,
  c64,
  c128,
};

// One pass over memory; a value. Pointers need no alignment.
struct Job {
  void* target = nullptr;
  void* second_target = nullptr;
  std::span<const void* const> sources;
  size_t count = 0;           // of lanes; an element may make several
  double factor = 1.0;        // scaled_sum: what each source is multiplied by first
  uint64_t whole_factor = 1;  // the same for integer lanes, modulo 2^64
  double divisor = 1.0;       // scaled_sum of float lanes: what the total is divided by
};

using Kernel = void (*)(const Job& job);

// Each returns the kernel for the instruction set at hand, or null where the family does not know the lane.
Kernel sum_kernel(Lane lane);
Kernel scaled_sum_kernel(Lane lane);
Kernel product_kernel(Lane lane);
Kernel min_kernel(Lane lane);
Kernel max_kernel(Lane lane);
Kernel and_kernel(Lane lane);
Kernel or_kernel(Lane lane);
Kernel xor_kernel(Lane lane);
Kernel widening_kernel(Lane lane);   // small floats to float32, multiplied by `factor`
Kernel narrowing_kernel(Lane lane);  // and back

}  // namespace unisono
