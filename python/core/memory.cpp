// Results: a tensor that the library made, as an array of the kind that the caller uses. The bytes are shown as a buffer, and
// the framework makes its own array of them.
#include "python/core/arrays.hpp"
#include "python/core/dtypes.hpp"
#include "python/core/values.hpp"
#include "unisono/distributed.hpp"
#include "unisono/shared_tensor.hpp"

namespace unisono::python {
namespace {

struct Memory {
  Tensor tensor;
};

int show_buffer(PyObject* object, Py_buffer* view, int flags) {
  const Tensor& tensor = nb::inst_ptr<Memory>(object)->tensor;
  static std::byte nothing;
  void* data = tensor.bytes() > 0 ? tensor.data() : &nothing;
  return PyBuffer_FillInfo(view, object, data, tensor.bytes(), 0, flags);
}

PyType_Slot memory_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(show_buffer)}, {0, nullptr}};

nb::tuple tuple_of(const Shape& shape) {
  nb::list sizes;
  for (int64_t size : shape) sizes.append(size);
  return nb::tuple(sizes);
}

struct Makers {
  nb::object numpy_array, from_memory;
  nb::object dtypes[std::size(dtype_rows)];
};

// NumPy is imported by the first result that needs it.
Makers& makers() {
  static auto* const all = new Makers;
  if (!all->from_memory) all->from_memory = nb::module_::import_("unisono._arrays").attr("from_memory");
  return *all;
}

}  // namespace

nb::object numpy_dtype(DType dtype) {
  nb::object& known = makers().dtypes[static_cast<size_t>(dtype)];
  if (!known)
    known = nb::module_::import_("unisono._arrays").attr("numpy_dtype")(nb::str(name_of(dtype).data(), name_of(dtype).size()));
  return known;
}

nb::object array_of(Kind kind, const Tensor& tensor) {
  nb::object memory = nb::cast(Memory{tensor});
  if (kind != Kind::numpy && kind != Kind::buffer) {
    constexpr const char* names[] = {"numpy", "torch", "mindspore", "dlpack"};
    const std::string_view name = name_of(tensor.dtype());
    return makers().from_memory(names[static_cast<int>(kind)], memory, nb::str(name.data(), name.size()),
                                tuple_of(tensor.shape()));
  }
  nb::object& ndarray = makers().numpy_array;
  if (!ndarray) ndarray = nb::module_::import_("unisono._arrays").attr("numpy_module")().attr("ndarray");
  return ndarray(tuple_of(tensor.shape()), numpy_dtype(tensor.dtype()), memory);
}

void register_memory(nb::module_& module) {
  nb::class_<Memory>(module, "Memory", nb::type_slots(memory_slots), "The bytes of a result.");
  module.def("prepare", &prepare_arrays);
  define(module, "alloc_shared", +[](nb::handle shape, nb::handle dtype, nb::handle kind) {
    if (!distributed::is_initialized())
      fail(ErrorCode::state, "zeros_shared and empty_shared are for ranks, and this process is none: call init_process_group() or "
                             "communication.init() first");
    const Tensor tensor = alloc_shared(shape_of(shape, "shape"), dtype_of(dtype, "dtype"));
    return array_of(text_of(kind, "kind") == "torch" ? Kind::torch : Kind::numpy, tensor);
  });
}

}  // namespace unisono::python
