// Borrowing tensors for a call; see loan.hpp.
#include "torch_backend/loan.hpp"

#include <ATen/Functions.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <cstring>

#include "torch_backend/errors.hpp"
#include "torch_backend/numbers.hpp"

namespace unisono::torch_backend {
namespace {

bool lies_plainly(const at::Tensor& tensor) { return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg(); }

// The dispatcher's upper layers are passed by: what a call writes is neither differentiated nor counted as a version, whether
// or not the tensor was made in inference mode, and in whichever thread it is done.
at::Tensor plain_copy(const at::Tensor& tensor, bool with_contents) {
  at::AutoDispatchBelowADInplaceOrView below;
  at::Tensor copy = at::empty(tensor.sizes(), tensor.options().memory_format(c10::MemoryFormat::Contiguous));
  if (with_contents) copy.copy_(tensor);
  return copy;
}

}  // namespace

TensorView Loan::borrow(const at::Tensor& tensor, bool is_read, bool is_written) {
  if (!tensor.defined()) throw ArgumentError(Status(ErrorCode::argument, "a tensor is undefined"));
  if (!tensor.device().is_cpu())
    throw ArgumentError(Status(ErrorCode::argument, c10::str("a tensor is on ", tensor.device(), "; the backend takes tensors of the CPU")));
  if (tensor.layout() != c10::Layout::Strided)
    throw ArgumentError(Status(ErrorCode::argument, c10::str("a tensor has the layout ", tensor.layout(), "; only all_reduce takes sparse ones")));
  if (is_written && at::has_internal_overlap(tensor) == at::MemOverlap::Yes)
    throw ArgumentError(Status(ErrorCode::argument, "elements of a tensor that is written share memory, as expand() makes it; give a copy"));
  TensorView view;
  view.dtype = dtype_of(tensor);
  view.shape = Shape{tensor.numel()};
  if (lies_plainly(tensor)) {
    held_.push_back(tensor);
  } else {
    held_.push_back(plain_copy(tensor, is_read));
    if (is_written) copies_.emplace_back(tensor, held_.back());
  }
  const at::Tensor& used = held_.back();
  view.data = is_written ? used.mutable_data_ptr() : const_cast<void*>(used.const_data_ptr());
  view.read_only = !is_written;
  return view;
}

TensorView Loan::read(const at::Tensor& tensor) { return borrow(tensor, true, false); }
TensorView Loan::write(const at::Tensor& tensor) { return borrow(tensor, false, true); }
TensorView Loan::update(const at::Tensor& tensor) { return borrow(tensor, true, true); }

std::vector<TensorView> Loan::read(const std::vector<at::Tensor>& tensors) {
  std::vector<TensorView> views;
  views.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) views.push_back(read(tensor));
  return views;
}

std::vector<TensorView> Loan::write(const std::vector<at::Tensor>& tensors) {
  std::vector<TensorView> views;
  views.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) views.push_back(write(tensor));
  return views;
}

void Loan::set_apart(TensorView& input, std::span<const TensorView> outputs, const void* own_place) {
  if (own_place && input.data == own_place) return;
  auto end_of = [](const TensorView& view) { return static_cast<const std::byte*>(view.data) + view.bytes(); };
  auto overlaps = [&](const TensorView& output) {
    return input.bytes() > 0 && output.bytes() > 0 && end_of(input) > output.data && end_of(output) > input.data;
  };
  if (std::none_of(outputs.begin(), outputs.end(), overlaps)) return;
  held_.push_back(at::empty({input.bytes()}, c10::ScalarType::Byte));
  std::memcpy(held_.back().mutable_data_ptr(), input.data, static_cast<size_t>(input.bytes()));
  input.data = held_.back().mutable_data_ptr();
}

void Loan::give_back() {
  if (copies_.empty()) return;
  at::AutoDispatchBelowADInplaceOrView below;
  for (auto& [target, copy] : copies_) target.copy_(copy);
}

TensorView in_rows(TensorView view, const at::Tensor& tensor) {
  if (tensor.dim() == 0) return view;
  int64_t row = 1;
  for (int64_t dim = 1; dim < tensor.dim(); ++dim) row *= tensor.size(dim);
  view.shape = Shape{tensor.size(0), row};
  return view;
}

}  // namespace unisono::torch_backend
