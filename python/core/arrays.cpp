// Reading arrays, kind by kind. What is rare (other memory orders, making arrays of a framework) is Python, in
// unisono/_arrays.py.
#include "python/core/arrays.hpp"

#include <unordered_map>

#include "python/core/calls.hpp"
#include "python/core/dlpack.hpp"
#include "python/core/dtypes.hpp"

namespace unisono::python {
namespace {

// What is looked up again and again. Never destroyed, since Python may be gone by then.
struct Known {
  nb::object contiguous, copy_into, from_memory, strided, torch_parts;  // of unisono/_arrays.py
  nb::object data_ptr, dtype, shape, is_contiguous, device, is_cpu, layout, is_conj, is_neg, has_init, dlpack, dlpack_device;
  nb::object dense, increment_version;  // of torch, once a tensor of its was seen
  std::unordered_map<PyTypeObject*, Kind> kinds;
  std::unordered_map<PyObject*, DType> dtypes;
  std::unordered_map<std::string_view, DType> formats;
};

nb::object interned(const char* text) { return nb::steal(PyUnicode_InternFromString(text)); }

Known* make_known() {
  auto* known = new Known;
  nb::module_ arrays = nb::module_::import_("unisono._arrays");
  known->contiguous = arrays.attr("contiguous");
  known->copy_into = arrays.attr("copy_into");
  known->from_memory = arrays.attr("from_memory");
  known->strided = arrays.attr("strided");
  known->torch_parts = arrays.attr("torch_parts");
  known->data_ptr = interned("data_ptr");
  known->dtype = interned("dtype");
  known->shape = interned("shape");
  known->is_contiguous = interned("is_contiguous");
  known->device = interned("device");
  known->is_cpu = interned("is_cpu");
  known->layout = interned("layout");
  known->is_conj = interned("is_conj");
  known->is_neg = interned("is_neg");
  known->has_init = interned("has_init");
  known->dlpack = interned("__dlpack__");
  known->dlpack_device = interned("__dlpack_device__");
  for (const DTypeRow& row : dtype_rows)
    if (!row.format.empty()) known->formats[row.format] = row.dtype;
  known->formats["l"] = DType::int64;  // NumPy's int64 on this platform
  known->formats["L"] = DType::uint64;
  return known;
}

Known& known() {
  static Known* const all = make_known();
  return *all;
}

nb::object attribute(nb::handle object, const nb::object& name) {
  PyObject* value = PyObject_GetAttr(object.ptr(), name.ptr());
  if (!value) throw nb::python_error();
  return nb::steal(value);
}

nb::object asked(nb::handle object, const nb::object& method) {
  PyObject* value = PyObject_CallMethodNoArgs(object.ptr(), method.ptr());
  if (!value) throw nb::python_error();
  return nb::steal(value);
}

// By the module and name of the type or one it derives from, so that no framework has to be imported to ask.
Kind find_kind(PyTypeObject* type, nb::handle object, const char* argument) {
  const nb::tuple bases = nb::borrow<nb::tuple>(type->tp_mro);
  for (nb::handle base : bases) {
    const auto name = nb::cast<std::string>(nb::str(base.attr("__name__")));
    const auto module = nb::cast<std::string>(nb::str(base.attr("__module__")));
    if ((name == "ndarray" || name == "generic") && module == "numpy") return Kind::numpy;  // a scalar can only be read
    if (name == "Tensor" && module == "torch") return Kind::torch;
    if (name == "Tensor" && module.starts_with("mindspore.")) return Kind::mindspore;
  }
  if (nb::hasattr(object, "__dlpack__")) return Kind::dlpack;
  if (PyObject_CheckBuffer(object.ptr())) return Kind::buffer;
  fail(ErrorCode::argument_type, std::string(argument) + " is a " + type_text(object) +
                                     "; give a NumPy array, a torch or MindSpore tensor, or anything with DLPack or a buffer");
}

Kind kind_of(nb::handle object, const char* argument) {
  PyTypeObject* type = Py_TYPE(object.ptr());
  auto& kinds = known().kinds;
  if (auto found = kinds.find(type); found != kinds.end()) return found->second;
  const Kind kind = find_kind(type, object, argument);
  Py_INCREF(type);  // so that no other type comes to lie there
  kinds[type] = kind;
  return kind;
}

bool is_contiguous(int dims, const int64_t* shape, const int64_t* strides, int64_t element) {
  int64_t expected = element;
  for (int dim = dims - 1; dim >= 0; --dim) {
    if (shape[dim] == 0) return true;
    if (shape[dim] != 1 && strides[dim] != expected) expected = -1;
    if (expected == -1) break;
    expected *= shape[dim];
  }
  if (expected != -1) return true;
  for (int dim = 0; dim < dims; ++dim)
    if (shape[dim] == 0) return true;
  return false;
}

Shape shape_from(int dims, const int64_t* sizes) { return Shape(std::span(sizes, static_cast<size_t>(dims))); }

[[noreturn]] void fail_read_only(const char* argument) {
  fail(ErrorCode::argument, std::string(argument) + " is read-only, and the call would write it");
}

// A copy in row order, of the same kind.
Array through_copy(nb::handle object, const char* argument, Kind kind, Access access) {
  nb::object copy = known().contiguous(object, access == Access::write);
  Array array = read_array(copy, argument, Access::write);
  array.kind = kind;
  if (access == Access::write) array.copied_from = nb::borrow(object);
  return array;
}

class Buffer {
 public:
  explicit Buffer(nb::handle object) : filled_(PyObject_GetBuffer(object.ptr(), &view_, PyBUF_RECORDS_RO) == 0) {}
  ~Buffer() {
    if (filled_) PyBuffer_Release(&view_);
  }
  Buffer(const Buffer&) = delete;
  explicit operator bool() const { return filled_; }
  const Py_buffer* operator->() const { return &view_; }

 private:
  Py_buffer view_;
  bool filled_;
};

DType dtype_of_format(const char* format, const char* argument, nb::handle object) {
  std::string_view text = format ? format : "B";
  if (!text.empty() && (text[0] == '<' || text[0] == '=' || text[0] == '@')) text.remove_prefix(1);
  if (auto found = known().formats.find(text); found != known().formats.end()) return found->second;
  fail(ErrorCode::argument_type,
       std::string(argument) + " has elements of dtype " +
           (nb::hasattr(object, "dtype") ? nb::cast<std::string>(nb::str(nb::object(object.attr("dtype")))) : std::string(text)) +
           ", which are no numbers that we know, or not in this machine's byte order");
}

// ml_dtypes' bfloat16 and float8 have no letter in the buffer protocol: their bits are read as whole numbers.
Array read_named(nb::handle object, const char* argument, Access access) {
  PyErr_Clear();
  const DType dtype = dtype_of(object.attr("dtype"), argument);
  nb::object bits = object.attr("view")(element_bytes(dtype) == 2 ? "uint16" : "uint8");
  Array array = read_array(bits, argument, access);
  array.view.dtype = dtype;
  return array;
}

Array read_buffer(nb::handle object, const char* argument, Access access, Kind kind) {
  Buffer buffer(object);
  if (!buffer && kind == Kind::numpy) return read_named(object, argument, access);
  if (!buffer) throw nb::python_error();
  if (buffer->ndim > max_dims)
    fail(ErrorCode::argument,
         std::string(argument) + " has " + std::to_string(buffer->ndim) + " dimensions; at most 8 are taken");
  Array array;
  array.kind = kind;
  if (buffer->readonly && access == Access::write) fail_read_only(argument);
  array.view = {buffer->buf, dtype_of_format(buffer->format, argument, object),
                shape_from(buffer->ndim, reinterpret_cast<const int64_t*>(buffer->shape)), buffer->readonly != 0};
  static_assert(sizeof(Py_ssize_t) == sizeof(int64_t));
  if (!is_contiguous(buffer->ndim, reinterpret_cast<const int64_t*>(buffer->shape),
                     reinterpret_cast<const int64_t*>(buffer->strides), buffer->itemsize))
    return through_copy(object, argument, kind, access);
  // The buffer is let go of: the object keeps its memory. One that could be resized meanwhile is held by its buffer.
  array.owner = kind == Kind::numpy ? nb::borrow(object) : nb::steal(PyMemoryView_FromObject(object.ptr()));
  if (!array.owner.is_valid()) throw nb::python_error();
  return array;
}

DType known_dtype(nb::handle dtype, const char* argument) {
  auto& dtypes = known().dtypes;
  if (auto found = dtypes.find(dtype.ptr()); found != dtypes.end()) return found->second;
  const DType found = dtype_of(dtype, argument);
  dtypes[dtype.inc_ref().ptr()] = found;  // there are few, and they live for ever
  return found;
}

// A contiguous tensor of torch or MindSpore, which have the same names for what is asked here.
Array read_pointer(nb::handle object, const char* argument, Kind kind) {
  const Known& names = known();
  const nb::object shape = attribute(object, names.shape);  // a tuple
  const Py_ssize_t dims = PyTuple_Size(shape.ptr());
  if (dims > max_dims)
    fail(ErrorCode::argument, std::string(argument) + " has " + std::to_string(dims) + " dimensions; at most 8 are taken");
  int64_t sizes[max_dims];
  for (Py_ssize_t dim = 0; dim < dims; ++dim) sizes[dim] = PyLong_AsLongLong(PyTuple_GET_ITEM(shape.ptr(), dim));
  if (PyErr_Occurred()) throw nb::python_error();
  Array array;
  array.kind = kind;
  array.view = {PyLong_AsVoidPtr(asked(object, names.data_ptr).ptr()), known_dtype(attribute(object, names.dtype), argument),
                shape_from(static_cast<int>(dims), sizes)};
  if (PyErr_Occurred()) throw nb::python_error();
  array.owner = nb::borrow(object);
  return array;
}

bool is_true(nb::handle value) { return value.ptr() == Py_True; }

void learn_torch(Known& names) {
  const nb::tuple parts = nb::borrow<nb::tuple>(names.torch_parts());
  names.dense = parts[0];
  names.increment_version = parts[1];
}

std::string attribute_text(nb::handle object, const nb::object& name) {
  return nb::cast<std::string>(nb::str(attribute(object, name)));
}

Array read_torch(nb::handle object, const char* argument, Access access) {
  Known& names = known();
  if (!names.dense.is_valid()) learn_torch(names);
  if (!is_true(attribute(object, names.is_cpu)))
    fail(ErrorCode::argument,
         std::string(argument) + " is on device " + attribute_text(object, names.device) + "; Unisono takes CPU tensors");
  if (!attribute(object, names.layout).is(names.dense))
    fail(ErrorCode::argument,
         std::string(argument) + " has layout " + attribute_text(object, names.layout) + "; dense tensors are taken");
  if (!is_true(asked(object, names.is_contiguous)) || is_true(asked(object, names.is_conj)) ||
      is_true(asked(object, names.is_neg)))
    return through_copy(object, argument, Kind::torch, access);
  if (access == Access::write) names.increment_version(nb::make_tuple(object));
  return read_pointer(object, argument, Kind::torch);
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

// The capsule stays as it is: it keeps the memory, and gives it back when it goes.
Array read_dlpack(nb::handle object, const char* argument, Access access) {
  const nb::object where = asked(object, known().dlpack_device);
  if (nb::cast<int>(where[0]) != dlpack::cpu)
    fail(ErrorCode::argument, std::string(argument) + " is not in this machine's main memory, says DLPack; move it there first");
  nb::object capsule = asked(object, known().dlpack);
  const auto* managed = static_cast<const dlpack::ManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
  if (!managed) throw nb::python_error();
  const dlpack::Tensor& tensor = managed->tensor;
  if (tensor.dims > max_dims)
    fail(ErrorCode::argument, std::string(argument) + " has " + std::to_string(tensor.dims) + " dimensions; at most 8 are taken");
  const DType dtype = dtype_of_dlpack(tensor.dtype, argument);
  std::byte* data = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  if (tensor.strides && !is_contiguous(tensor.dims, tensor.shape, tensor.strides, 1)) {
    const nb::object bits = known().strided(capsule, reinterpret_cast<uintptr_t>(data), element_bytes(dtype),
                                            tuple_of(tensor.shape, tensor.dims), tuple_of(tensor.strides, tensor.dims));
    Array array = through_copy(bits, argument, Kind::dlpack, access);
    array.view.dtype = dtype;
    return array;
  }
  Array array;
  array.kind = Kind::dlpack;
  array.view = {data, dtype, shape_from(tensor.dims, tensor.shape)};
  array.owner = std::move(capsule);
  return array;
}

// data_ptr() returns once MindSpore has done all that it has under way: what computes this tensor, and what still reads it.
// asnumpy() would wait too, but copies a tensor that is part of another.
Array read_mindspore(nb::handle object, const char* argument, Access access) {
  const Known& names = known();
  if (const auto device = nb::cast<std::string>(attribute(object, names.device)); !device.starts_with("CPU"))
    fail(ErrorCode::argument, std::string(argument) + " is on device " + device + "; Unisono takes CPU tensors");
  if (is_true(attribute(object, names.has_init))) object.attr("init_data")();  // made of an initializer, and not yet computed
  if (!is_true(asked(object, names.is_contiguous))) return through_copy(object, argument, Kind::mindspore, access);
  return read_pointer(object, argument, Kind::mindspore);
}

}  // namespace

void prepare_arrays() { known(); }

Array read_array(nb::handle object, const char* argument, Access access) {
  try {
    const Kind kind = kind_of(object, argument);
    Array array = kind == Kind::torch       ? read_torch(object, argument, access)
                  : kind == Kind::dlpack    ? read_dlpack(object, argument, access)
                  : kind == Kind::mindspore ? read_mindspore(object, argument, access)
                                            : read_buffer(object, argument, access, kind);
    array.given = nb::borrow(object);
    array.written = access == Access::write;
    return array;
  } catch (nb::python_error& error) {
    fail_because(error, argument);
  }
}

std::vector<Array> read_arrays(nb::handle list, const char* argument, Access access) {
  std::vector<Array> arrays;
  for (nb::handle object : list_of(list, argument, "arrays")) arrays.push_back(read_array(object, argument, access));
  return arrays;
}

std::vector<Array> read_arrays_or_none(nb::handle list, const char* argument, Access access) {
  return list.is_none() ? std::vector<Array>() : read_arrays(list, argument, access);
}

std::vector<TensorView> views_of(const std::vector<Array>& arrays) {
  std::vector<TensorView> views;
  views.reserve(arrays.size());
  for (const Array& array : arrays) views.push_back(array.view);
  return views;
}

void copy_back(const Array& array) {
  if (array.copied_from) known().copy_into(array.copied_from, array.owner);
}

DType dtype_of(nb::handle object, const char* argument) {
  const nb::object text = nb::hasattr(object, "name")       ? nb::object(object.attr("name"))
                          : nb::isinstance<nb::str>(object) ? nb::borrow(object)
                                                            : nb::object(nb::repr(object));  // "mindspore.float32"
  auto name = nb::cast<std::string>(nb::str(text));
  if (const size_t dot = name.rfind('.'); dot != std::string::npos) name = name.substr(dot + 1);
  if (nb::isinstance<nb::type_object>(object)) name = nb::cast<std::string>(nb::str(object.attr("__name__")));  // numpy.float32
  if (name == "bool_" || name == "bool") return DType::boolean;
  for (const DTypeRow& row : dtype_rows)
    if (row.name == name) return row.dtype;
  std::string all;
  for (const DTypeRow& row : dtype_rows) all += (all.empty() ? "" : ", ") + std::string(row.name);
  fail(ErrorCode::argument_type, std::string(argument) + " has elements of dtype " + name + "; there are " + all);
}

}  // namespace unisono::python
