// Torch's dtypes and reductions in the library's words: one table each, in numbers.cpp.
#pragma once

#include <ATen/core/Tensor.h>

#include <torch/csrc/distributed/c10d/Types.hpp>

#include "unisono/types.hpp"

namespace unisono::torch_backend {

DType dtype_of(const at::Tensor& tensor);                       // ArgumentTypeError where the library has none
c10::ScalarType scalar_type_of(DType dtype);
unisono::ReduceOp reduce_op_of(const c10d::ReduceOp& reduce_op);  // with PREMUL_SUM's factor; ArgumentError for what is no reduction

}  // namespace unisono::torch_backend
