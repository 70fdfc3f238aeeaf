// The layout of what DLPack's capsules "dltensor" and "dltensor_versioned" point to, as its specification gives it.
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

inline constexpr uint64_t flag_read_only = 1, flag_is_copied = 2;

struct VersionedTensor {
  uint32_t major, minor;
  void* context;
  void (*deleter)(VersionedTensor*);
  uint64_t flags;
  Tensor tensor;
};

}  // namespace unisono::python::dlpack
