// What the readers of each kind of array share. Only the files that read arrays include it.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

#include "python/core/arrays.hpp"

namespace unisono::python {

struct KindOfType {
  Kind kind;
  nb::object type;  // a weak reference
};

// What is looked up again and again. Never destroyed, since Python may be gone by then.
struct Known {
  nb::object contiguous, copy_into, from_memory, strided, torch_parts, mindspore_records;  // of unisono/_arrays.py
  nb::object data_ptr, dtype, shape, stride, is_contiguous, device, is_cpu, layout, is_conj, is_neg, has_init, untyped_storage,
      requires_grad;
  nb::object dlpack, dlpack_device, dlpack_options, dlpack_version;
  nb::object dense, increment_version;  // of torch, once a tensor of its was seen
  std::unordered_map<PyTypeObject*, KindOfType> kinds;
  std::unordered_map<PyObject*, DType> dtypes;
  std::unordered_map<std::string_view, DType> formats;
};
Known& known();

nb::object attribute(nb::handle object, const nb::object& name);
nb::object asked(nb::handle object, const nb::object& method);

// What is to be read, and for what.
struct Reading {
  nb::handle object;
  const char* argument;
  Access access;
};

Array read_torch(const Reading& reading);
Array read_mindspore(const Reading& reading);
Array read_dlpack(const Reading& reading);

bool is_contiguous(int dims, const int64_t* shape, const int64_t* strides, int64_t element);
void check_dims(int64_t dims, const char* argument);
[[noreturn]] void fail_read_only(const char* argument);
// Through a copy in row order, of the same kind. ArgumentError where it is going to be written and overlaps itself.
Array through_copy(const Reading& reading, Kind kind, const Layout& original);

}  // namespace unisono::python
