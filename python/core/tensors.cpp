// Reading tensors of torch and MindSpore, which have the same names for most of what is asked here.
#include <span>

#include "python/core/dtypes.hpp"
#include "python/core/reading.hpp"
#include "python/core/values.hpp"

namespace unisono::python {
namespace {

bool is_true(nb::handle value) { return value.ptr() == Py_True; }

DType known_dtype(nb::handle dtype, const char* argument) {
  auto& dtypes = known().dtypes;
  if (auto found = dtypes.find(dtype.ptr()); found != dtypes.end()) return found->second;
  const DType found = dtype_of(dtype, argument);
  dtypes[dtype.inc_ref().ptr()] = found;  // there are few, and they live for ever
  return found;
}

// Of a tuple.
int sizes_of(const nb::object& tuple, const char* argument, int64_t (&sizes)[max_dims]) {
  const Py_ssize_t dims = PyTuple_Size(tuple.ptr());
  check_dims(dims, argument);
  for (Py_ssize_t dim = 0; dim < dims; ++dim) sizes[dim] = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple.ptr(), dim));
  if (PyErr_Occurred()) throw nb::python_error();
  return static_cast<int>(dims);
}

TensorView view_of(const Reading& reading) {
  const Known& names = known();
  int64_t sizes[max_dims];
  const int dims = sizes_of(attribute(reading.object, names.shape), reading.argument, sizes);
  const TensorView view{PyLong_AsVoidPtr(asked(reading.object, names.data_ptr).ptr()),
                        known_dtype(attribute(reading.object, names.dtype), reading.argument),
                        Shape(std::span<const int64_t>(sizes, static_cast<size_t>(dims)))};
  if (PyErr_Occurred()) throw nb::python_error();
  return view;
}

Array in_place(const Reading& reading, Kind kind) {
  Array array;
  array.kind = kind;
  array.view = view_of(reading);
  array.owner = nb::borrow(reading.object);
  return array;
}

Array slanted(const Reading& reading, Kind kind) {
  Layout original = layout_of(view_of(reading));
  const int dims = sizes_of(nb::tuple(asked(reading.object, known().stride)), reading.argument, original.strides);
  for (int dim = 0; dim < dims; ++dim) original.strides[dim] *= original.element_bytes;
  return through_copy(reading, kind, original);
}

void learn_torch(Known& names) {
  const nb::tuple parts = nb::borrow<nb::tuple>(names.torch_parts());
  names.dense = parts[0];
  names.increment_version = parts[1];
}

std::string attribute_text(nb::handle object, const nb::object& name) { return shown(attribute(object, name)); }

// MindSpore does not see what we do with a tensor, so its gradient would be silently zero. The mark of a tensor alone says too
// little: parameters have it always, and inputs and results of a gradient keep it. Whole numbers have no gradient to lose.
void check_outside_gradient(const Reading& reading) {
  const Known& names = known();
  if (!is_true(nb::getattr(reading.object, names.requires_grad, nb::none())) || !is_true(names.mindspore_records())) return;
  const DType dtype = known_dtype(attribute(reading.object, names.dtype), reading.argument);
  if (is_whole(dtype)) return;
  fail(ErrorCode::argument,
       std::string(reading.argument) +
           " takes part in a gradient that MindSpore is computing, and Unisono's calls are not differentiable: the gradient would "
           "be zero. Use mindspore.ops.AllReduce and the like there, or give mindspore.ops.stop_gradient(tensor)");
}

}  // namespace

Array read_torch(const Reading& reading) {
  Known& names = known();
  const nb::handle object = reading.object;
  if (!names.dense.is_valid()) learn_torch(names);
  if (!is_true(attribute(object, names.is_cpu)))
    fail(ErrorCode::argument,
         std::string(reading.argument) + " is on device " + attribute_text(object, names.device) + "; Unisono takes CPU tensors");
  if (!attribute(object, names.layout).is(names.dense))
    fail(ErrorCode::argument,
         std::string(reading.argument) + " has layout " + attribute_text(object, names.layout) + "; dense tensors are taken");
  if (!is_true(asked(object, names.is_contiguous)) || is_true(asked(object, names.is_conj)) ||
      is_true(asked(object, names.is_neg)))
    return slanted(reading, Kind::torch);
  if (reading.access == Access::write) names.increment_version(nb::make_tuple(object));
  return in_place(reading, Kind::torch);
}

// data_ptr() returns once MindSpore has done all that it has under way: what computes this tensor, and what still reads it.
// asnumpy() would wait too, but copies a tensor that is part of another.
Array read_mindspore(const Reading& reading) {
  const Known& names = known();
  const nb::handle object = reading.object;
  if (const std::string device = attribute_text(object, names.device); !device.starts_with("CPU"))
    fail(ErrorCode::argument, std::string(reading.argument) + " is on device " + device + "; Unisono takes CPU tensors");
  check_outside_gradient(reading);
  if (is_true(attribute(object, names.has_init))) object.attr("init_data")();  // made of an initializer, and not yet computed
  if (!is_true(asked(object, names.is_contiguous))) return slanted(reading, Kind::mindspore);
  return in_place(reading, Kind::mindspore);
}

// A tensor of torch can be given another storage (`tensor.data = …`), and the one that the call works in would be gone.
void hold_storages(std::vector<Array>& arrays) {
  for (Array& array : arrays)
    if (array.kind == Kind::torch && !array.original) array.storage = asked(array.owner, known().untyped_storage);
}

}  // namespace unisono::python
