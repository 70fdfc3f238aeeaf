// Tensors in memory that all ranks of this machine have mapped. Every collective takes them, in any group and beside private
// memory on other ranks, and reads them where they lie, lists of them too. What is small, or would be overwritten by the result
// while others still read it, is staged as private memory is.
#pragma once

#include "unisono/tensor.hpp"

#pragma GCC visibility push(default)
namespace unisono {

// Zeros. This rank alone makes it, after it has joined, and may drop it when no call uses it any more, also after it
// has left; UNISONO_ARENA limits how much of it there is.
Tensor alloc_shared(Shape shape, DType dtype);

}  // namespace unisono
#pragma GCC visibility pop
