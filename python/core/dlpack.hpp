// The layout of what a DLPack capsule named "dltensor" points to, as its specification gives it.
#pragma once

#include <cstdint>

namespace unisono::python::dlpack {

inline constexpr int cpu = 1;

struct DataType {
  uint8_t code, bits;
  uint16_t lanes;
};

struct Tensor {
  void* data;
  struct {
    int32_t type, id;
  } device;
  int32_t dims;
  DataType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null: in row order
  uint64_t byte_offset;
};

struct ManagedTensor {
  Tensor tensor;
  void* context;
  void (*deleter)(ManagedTensor*);
};

}  // namespace unisono::python::dlpack
