// Reading what has DLPack.
#include "python/core/dlpack.hpp"

#include <span>

#include "python/core/dtypes.hpp"
#include "python/core/reading.hpp"
#include "python/core/values.hpp"

namespace unisono::python {
namespace {

[[noreturn]] void fail_type(const Reading& reading, const std::string& why) {
  fail(ErrorCode::argument_type, std::string(reading.argument) + " cannot be taken: its " + why);
}

DType dtype_of_dlpack(const dlpack::DataType& type, const char* argument) {
  for (const DTypeRow& row : dtype_rows)
    if (row.dlpack_code == type.code && row.dlpack_bits == type.bits && type.lanes == 1) return row.dtype;
  fail(ErrorCode::argument_type, std::string(argument) + " has elements that we do not know: DLPack type " +
                                     std::to_string(type.code) + " of " + std::to_string(type.bits) + " bits");
}

nb::tuple tuple_of(const int64_t* numbers, int count) {
  nb::list list;
  for (int index = 0; index < count; ++index) list.append(numbers[index]);
  return nb::tuple(list);
}

void check_device(const Reading& reading) {
  const nb::object where = asked(reading.object, known().dlpack_device);
  if (!PyTuple_Check(where.ptr()) || PyTuple_GET_SIZE(where.ptr()) != 2 || !PyIndex_Check(PyTuple_GET_ITEM(where.ptr(), 0)))
    fail_type(reading, "__dlpack_device__() returned " + shown(nb::repr(where)) + "; a device is two whole numbers");
  if (long_of(PyTuple_GET_ITEM(where.ptr(), 0), reading.argument) != dlpack::cpu)
    fail(ErrorCode::argument,
         std::string(reading.argument) + " is not in this machine's main memory, says DLPack; move it there first");
}

// In the form that can say that memory must not be written, from whoever has it.
nb::object capsule_of(const Reading& reading) {
  PyObject* arguments[] = {nullptr, reading.object.ptr(), known().dlpack_version.ptr()};
  PyObject* capsule = PyObject_VectorcallMethod(known().dlpack.ptr(), arguments + 1, 1 | PY_VECTORCALL_ARGUMENTS_OFFSET,
                                                known().dlpack_options.ptr());
  if (capsule) return nb::steal(capsule);
  if (!PyErr_ExceptionMatches(PyExc_TypeError)) throw nb::python_error();
  PyErr_Clear();
  return asked(reading.object, known().dlpack);
}

// What the capsule points to. The older form does not say whether it may be written: whoever gives that may.
const dlpack::Tensor& tensor_of(const nb::object& capsule, const Reading& reading, bool& read_only) {
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor"))
    return static_cast<const dlpack::ManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"))->tensor;
  if (!PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned"))
    fail_type(reading, "__dlpack__() returned " + shown(nb::repr(capsule)) + "; DLPack's capsules are \"dltensor\" and "
                       "\"dltensor_versioned\"");
  const auto* managed =
      static_cast<const dlpack::VersionedTensor*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
  if (managed->major != 1)
    fail_type(reading, "__dlpack__() returned version " + std::to_string(managed->major) + " of DLPack; 1 was asked for");
  read_only = (managed->flags & dlpack::flag_read_only) != 0;
  if (reading.access == Access::write && (managed->flags & dlpack::flag_is_copied))
    fail(ErrorCode::argument,
         std::string(reading.argument) + " is given by its __dlpack__() as a copy, and what the call writes would be lost");
  return managed->tensor;
}

Array slanted(const Reading& reading, const nb::object& capsule, const dlpack::Tensor& tensor, const TensorView& view) {
  Layout original = layout_of(view);
  for (int dim = 0; dim < tensor.dims; ++dim) original.strides[dim] = tensor.strides[dim] * original.element_bytes;
  const nb::object bits = known().strided(capsule, reinterpret_cast<uintptr_t>(view.data), original.element_bytes,
                                          tuple_of(tensor.shape, tensor.dims), tuple_of(tensor.strides, tensor.dims));
  Array array = through_copy({bits, reading.argument, reading.access}, Kind::dlpack, original);
  array.view.dtype = view.dtype;
  return array;
}

}  // namespace

// The capsule stays as it is: it keeps the memory, and gives it back when it goes.
Array read_dlpack(const Reading& reading) {
  check_device(reading);
  nb::object capsule = capsule_of(reading);
  bool read_only = false;
  const dlpack::Tensor& tensor = tensor_of(capsule, reading, read_only);
  if (read_only && reading.access == Access::write) fail_read_only(reading.argument);
  check_dims(tensor.dims, reading.argument);
  const DType dtype = dtype_of_dlpack(tensor.dtype, reading.argument);
  const TensorView view{static_cast<std::byte*>(tensor.data) + tensor.byte_offset, dtype,
                        Shape(std::span<const int64_t>(tensor.shape, static_cast<size_t>(tensor.dims))), read_only};
  if (tensor.strides && !is_contiguous(tensor.dims, tensor.shape, tensor.strides, 1))
    return slanted(reading, capsule, tensor, view);
  Array array;
  array.kind = Kind::dlpack;
  array.view = view;
  array.owner = std::move(capsule);
  return array;
}

}  // namespace unisono::python
