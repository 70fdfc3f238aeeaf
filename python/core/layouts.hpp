// Where the elements of an array lie, whatever its memory order, and whether two arrays have bytes in common. The library asks
// that of contiguous memory itself; arrays that work through a copy are asked here, for it sees their copies.
#pragma once

#include <cstddef>
#include <cstdint>

#include "unisono/tensor.hpp"

namespace unisono::python {

struct Layout {
  const std::byte* data = nullptr;  // the first element
  Shape shape;
  int64_t strides[max_dims] = {};  // in bytes
  int64_t element_bytes = 1;
};

Layout layout_of(const TensorView& view);  // in row order

// Whether two elements of it are the same memory, or partly so, as expand() and as_strided() make them.
bool overlaps_itself(const Layout& layout);
bool overlap(const Layout& one, const Layout& other);

// Whether `part` is the whole, or part number `index` of a whole of several times its size that are concatenated or stacked.
bool is_part(const Layout& part, const Layout& whole, int index);

}  // namespace unisono::python
