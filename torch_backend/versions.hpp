// Where versions of torch differ, 2.9 to 2.15; everything else here is written for all of them. `make torch-versions` compiles against the headers of each.
#pragma once

#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <torch/version.h>

#include <chrono>

#define UNISONO_TORCH_IS_AT_LEAST_2(minor) (TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= (minor))

namespace unisono::torch_backend {

#if UNISONO_TORCH_IS_AT_LEAST_2(13)
using PreMulSum = c10d::PreMulSumSupplement;
#else
using PreMulSum = c10d::NCCLPreMulSumSupplement;
#endif

#if UNISONO_TORCH_IS_AT_LEAST_2(12)
inline constexpr c10d::OpType reduce_scatter_tensors = c10d::OpType::REDUCE_SCATTER_TENSOR_COALESCED;
#else
inline constexpr c10d::OpType reduce_scatter_tensors = c10d::OpType::COALESCED;
#endif

// What hooks are told of a call that has ended. Torch 2.9 has times of day there.
inline c10d::WorkInfo work_info(c10d::OpType kind, uint64_t number, std::chrono::steady_clock::time_point started, std::chrono::steady_clock::time_point ended) {
#if UNISONO_TORCH_IS_AT_LEAST_2(10)
  return {kind, number, started, ended, ended - started};
#else
  using TimeOfDay = std::chrono::system_clock;
  const auto of_day = [](std::chrono::steady_clock::time_point at) { return TimeOfDay::now() - std::chrono::duration_cast<TimeOfDay::duration>(std::chrono::steady_clock::now() - at); };
  return {kind, number, of_day(started), of_day(ended), ended - started};
#endif
}

}  // namespace unisono::torch_backend
