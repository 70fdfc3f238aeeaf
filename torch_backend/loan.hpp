// The tensors of one call, as the library sees them: contiguous memory of this process. Tensors that are so already are used
// where they lie; others go through a copy, which is written back at the end. The tensors are held until the loan is dropped.
//
// Shapes are not the library's business here: as in torch, only the number of elements counts, so every view has one
// dimension, but for those that are cut into rows.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <utility>
#include <vector>

#include "unisono/tensor.hpp"

namespace unisono::torch_backend {

class Loan {
 public:
  // Each throws unisono::ArgumentError, or ArgumentTypeError, for a tensor that the library cannot take.
  TensorView read(const at::Tensor& tensor);    // what is given
  TensorView write(const at::Tensor& tensor);   // what is overwritten
  TensorView update(const at::Tensor& tensor);  // both
  std::vector<TensorView> read(const std::vector<at::Tensor>& tensors);
  std::vector<TensorView> write(const std::vector<at::Tensor>& tensors);

  // An input that lies in what the call writes goes through a copy, but where it begins at its own place there, which the
  // library takes.
  void set_apart(TensorView& input, std::span<const TensorView> outputs, const void* own_place = nullptr);

  // After a call that succeeded: results go where they belong.
  void give_back();

 private:
  TensorView borrow(const at::Tensor& tensor, bool is_read, bool is_written);

  std::vector<at::Tensor> held_;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies_;  // where to, from where
};

// The same memory as rows of dim 0, for what is cut along it.
TensorView in_rows(TensorView view, const at::Tensor& tensor);

}  // namespace unisono::torch_backend
