// Shapes and owned tensors; see include/unisono/tensor.hpp.
#include "unisono/tensor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "unisono/status.hpp"

namespace unisono {
namespace {

constexpr std::align_val_t tensor_alignment{64};

std::shared_ptr<std::byte> allocate(int64_t bytes) {
  void* memory = ::operator new(static_cast<size_t>(std::max<int64_t>(bytes, 1)), tensor_alignment, std::nothrow);
  if (!memory) throw MemoryError(Status(ErrorCode::memory, fmt::format("no memory for a tensor of {} bytes", bytes)));
  return {static_cast<std::byte*>(memory), [](std::byte* owned) { ::operator delete(owned, tensor_alignment); }};
}

}  // namespace

Shape::Shape(std::span<const int64_t> sizes) : dims_(static_cast<int>(sizes.size())) {
  if (sizes.size() > max_dims)
    throw ArgumentError(Status(ErrorCode::argument, fmt::format("a tensor of {} dimensions; at most {} are supported", sizes.size(), max_dims)));
  std::copy(sizes.begin(), sizes.end(), sizes_);
}

int64_t Shape::count() const {
  int64_t count = 1;
  for (int64_t size : *this)
    if (size < 0 || __builtin_mul_overflow(count, size, &count)) return -1;
  return count;
}

std::string Shape::text() const { return fmt::format("({})", fmt::join(begin(), end(), ", ")); }

bool Shape::operator==(const Shape& other) const { return std::equal(begin(), end(), other.begin(), other.end()); }

Tensor Tensor::in(std::shared_ptr<std::byte> memory, DType dtype, Shape shape) {
  Tensor tensor;
  tensor.dtype_ = dtype;
  tensor.shape_ = shape;
  if (shape.count() < 0 || shape.count() > INT64_MAX / 16)
    throw ArgumentError(Status(ErrorCode::argument, fmt::format("a tensor of shape {} cannot be", shape.text())));
  tensor.bytes_ = std::move(memory);
  return tensor;
}

Tensor Tensor::empty(DType dtype, Shape shape) {
  Tensor tensor = in(nullptr, dtype, shape);
  tensor.bytes_ = allocate(tensor.bytes());
  return tensor;
}

Tensor Tensor::zeros(DType dtype, Shape shape) {
  Tensor tensor = empty(dtype, shape);
  std::memset(tensor.data(), 0, static_cast<size_t>(tensor.bytes()));
  return tensor;
}

TensorView reshaped(const TensorView& tensor, const Shape& shape) {
  if (shape.count() != tensor.count())
    throw ArgumentError(Status(ErrorCode::argument, fmt::format("a view of shape {} does not fit {} elements", shape.text(), tensor.count())));
  TensorView result = tensor;
  result.shape = shape;
  return result;
}

Tensor Tensor::clone() const {
  Tensor copy = empty(dtype_, shape_);
  copy.assign(data(), static_cast<size_t>(bytes()));
  return copy;
}

const void* Tensor::checked_data(DType wanted) const {
  if (wanted != dtype_)
    throw ArgumentTypeError(Status(ErrorCode::argument_type, fmt::format("this tensor holds {}, not {}", name_of(dtype_), name_of(wanted))));
  return data();
}

void Tensor::assign(const void* from, size_t bytes) {
  if (bytes != static_cast<size_t>(this->bytes()))
    throw ArgumentError(Status(ErrorCode::argument, fmt::format("{} bytes do not fill a tensor of shape {}", bytes, shape_.text())));
  if (bytes > 0) std::memcpy(data(), from, bytes);
}

}  // namespace unisono
