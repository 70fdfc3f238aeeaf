// Arrays as the dialects take and return them. A TensorView borrows memory; a Tensor owns it. Both are contiguous, in row
// order, and know their dtype and shape.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "unisono/types.hpp"

#pragma GCC visibility push(default)
namespace unisono {

inline constexpr int max_dims = 8;

// The sizes of up to eight dimensions; a value without allocations, since every call makes some.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> sizes) : Shape(std::span(sizes.begin(), sizes.size())) {}
  explicit Shape(std::span<const int64_t> sizes);  // ArgumentError for more than eight

  int dims() const { return dims_; }
  int64_t operator[](int dim) const { return sizes_[dim]; }
  int64_t& operator[](int dim) { return sizes_[dim]; }
  const int64_t* begin() const { return sizes_; }
  const int64_t* end() const { return sizes_ + dims_; }
  int64_t count() const;     // elements; -1 when that does not fit in 63 bits or a size is negative
  std::string text() const;  // "(2, 3)"

  bool operator==(const Shape& other) const;

 private:
  int64_t sizes_[max_dims] = {};
  int dims_ = 0;
};

template <typename T>
constexpr DType dtype_of();

struct TensorView {
  void* data = nullptr;
  DType dtype = DType::float32;
  Shape shape;
  bool read_only = false;  // made from const memory: may be given, never written

  int64_t count() const { return shape.count(); }
  int64_t bytes() const { return count() * element_bytes(dtype); }
};

TensorView reshaped(const TensorView& tensor, const Shape& shape);  // ArgumentError where it does not have as many elements

// Borrowing: view(vector), view(span), and view(vector, {2, 3}) for another shape of the same memory.
template <typename T>
TensorView view(std::span<T> elements) {
  using Element = std::remove_const_t<T>;
  return {const_cast<Element*>(elements.data()), dtype_of<Element>(), Shape{static_cast<int64_t>(elements.size())},
          std::is_const_v<T>};
}
template <typename T>
TensorView view(std::vector<T>& elements) {
  return view(std::span<T>(elements));
}
template <typename T>
TensorView view(const std::vector<T>& elements) {
  return view(std::span<const T>(elements));
}
template <typename Container>
TensorView view(Container& elements, Shape shape) {
  return reshaped(view(elements), shape);
}

// Owns dtype, shape and bytes. Copies share the bytes, as tensors do in both frameworks; clone() does not.
class Tensor {
 public:
  Tensor() = default;
  static Tensor empty(DType dtype, Shape shape);
  static Tensor zeros(DType dtype, Shape shape);
  static Tensor in(std::shared_ptr<std::byte> memory, DType dtype, Shape shape);  // memory that somebody else made
  template <typename T>
  static Tensor from(const std::vector<T>& elements, Shape shape) {
    Tensor tensor = empty(dtype_of<T>(), shape);
    tensor.assign(elements.data(), elements.size() * sizeof(T));
    return tensor;
  }
  template <typename T>
  static Tensor from(const std::vector<T>& elements) {
    return from(elements, Shape{static_cast<int64_t>(elements.size())});
  }
  Tensor clone() const;

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t count() const { return shape_.count(); }
  int64_t bytes() const { return count() * element_bytes(dtype_); }
  void* data() const { return bytes_.get(); }
  const std::shared_ptr<std::byte>& storage() const { return bytes_; }
  operator TensorView() const { return {data(), dtype_, shape_}; }

  template <typename T>
  std::vector<T> to_vector() const {  // T must be the tensor's element type
    const T* first = static_cast<const T*>(checked_data(dtype_of<T>()));
    return std::vector<T>(first, first + count());
  }

 private:
  const void* checked_data(DType wanted) const;
  void assign(const void* from, size_t bytes);

  DType dtype_ = DType::float32;
  Shape shape_{0};
  std::shared_ptr<std::byte> bytes_;
};

template <> constexpr DType dtype_of<bool>() { return DType::boolean; }
template <> constexpr DType dtype_of<int8_t>() { return DType::int8; }
template <> constexpr DType dtype_of<int16_t>() { return DType::int16; }
template <> constexpr DType dtype_of<int32_t>() { return DType::int32; }
template <> constexpr DType dtype_of<int64_t>() { return DType::int64; }
template <> constexpr DType dtype_of<uint8_t>() { return DType::uint8; }
template <> constexpr DType dtype_of<uint16_t>() { return DType::uint16; }
template <> constexpr DType dtype_of<uint32_t>() { return DType::uint32; }
template <> constexpr DType dtype_of<uint64_t>() { return DType::uint64; }
template <> constexpr DType dtype_of<float>() { return DType::float32; }
template <> constexpr DType dtype_of<double>() { return DType::float64; }
template <> constexpr DType dtype_of<std::complex<float>>() { return DType::complex64; }
template <> constexpr DType dtype_of<std::complex<double>>() { return DType::complex128; }

}  // namespace unisono
#pragma GCC visibility pop
