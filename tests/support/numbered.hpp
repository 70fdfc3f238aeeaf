// Tensors, shared and private, that hold numbers by which one sees which rank gave them.
#pragma once

#include <gtest/gtest.h>

#include "unisono/distributed.hpp"

namespace unisono::testing {

inline Tensor private_tensor(Shape shape, DType dtype) { return Tensor::zeros(dtype, shape); }

struct Maker {
  bool shared;
  Tensor operator()(int64_t count) const {
    Tensor tensor = shared ? alloc_shared(Shape{count}, DType::int64) : private_tensor(Shape{count}, DType::int64);
    return tensor;
  }
};

inline int64_t* numbers(const Tensor& tensor) { return static_cast<int64_t*>(tensor.data()); }

inline void fill(const Tensor& tensor, int rank, int64_t first = 0) {
  for (int64_t index = 0; index < tensor.count(); ++index) numbers(tensor)[index] = rank * 1'000'000 + first + index;
}
// A stretch of numbers that a rank filled in, as its `first` and those after it.
struct Given {
  int64_t begin, count;
  int rank;
  int64_t first = 0;
};
inline void expect_from(const Tensor& tensor, const Given& run, const char* what) {
  for (int64_t index = 0; index < run.count; ++index)
    ASSERT_EQ(numbers(tensor)[run.begin + index], run.rank * 1'000'000 + run.first + index) << what << " at " << index;
}
inline void expect_sum(const Tensor& tensor, int size, int64_t first, const char* what) {
  const int64_t ranks = size * (size - 1) / 2 * 1'000'000;
  for (int64_t index = 0; index < tensor.count(); ++index)
    ASSERT_EQ(numbers(tensor)[index], ranks + size * (first + index)) << what << " at " << index;
}

}  // namespace unisono::testing
