// Reading arrays, kind by kind. What is rare (other memory orders, making arrays of a framework) is Python, in
// unisono/_arrays.py.
#include "python/core/arrays.hpp"

#include <algorithm>
#include <span>

#include "python/core/calls.hpp"
#include "python/core/dtypes.hpp"
#include "python/core/reading.hpp"

namespace unisono::python {
namespace {

nb::object interned(const char* text) { return nb::steal(PyUnicode_InternFromString(text)); }

Known* make_known() {
  auto* known = new Known;
  nb::module_ arrays = nb::module_::import_("unisono._arrays");
  known->contiguous = arrays.attr("contiguous");
  known->copy_into = arrays.attr("copy_into");
  known->from_memory = arrays.attr("from_memory");
  known->strided = arrays.attr("strided");
  known->torch_parts = arrays.attr("torch_parts");
  known->mindspore_records = arrays.attr("mindspore_records");
  known->data_ptr = interned("data_ptr");
  known->dtype = interned("dtype");
  known->shape = interned("shape");
  known->stride = interned("stride");
  known->is_contiguous = interned("is_contiguous");
  known->device = interned("device");
  known->is_cpu = interned("is_cpu");
  known->layout = interned("layout");
  known->is_conj = interned("is_conj");
  known->is_neg = interned("is_neg");
  known->has_init = interned("has_init");
  known->untyped_storage = interned("untyped_storage");
  known->requires_grad = interned("_requires_grad");
  known->dlpack = interned("__dlpack__");
  known->dlpack_device = interned("__dlpack_device__");
  known->dlpack_options = nb::make_tuple(interned("max_version"));
  known->dlpack_version = nb::make_tuple(1, 0);
  for (const DTypeRow& row : dtype_rows)
    if (!row.format.empty()) known->formats[row.format] = row.dtype;
  known->formats["l"] = DType::int64;  // NumPy's int64 on this platform
  known->formats["L"] = DType::uint64;
  return known;
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

// A type that goes takes its row with it, before another can come to lie there.
Kind kind_of(nb::handle object, const char* argument) {
  PyTypeObject* type = Py_TYPE(object.ptr());
  auto& kinds = known().kinds;
  if (auto found = kinds.find(type); found != kinds.end()) return found->second.kind;
  const Kind kind = find_kind(type, object, argument);
  const nb::object forget = nb::cpp_function([type](nb::handle) { known().kinds.erase(type); });
  PyObject* reference = PyWeakref_NewRef(reinterpret_cast<PyObject*>(type), forget.ptr());
  if (!reference) throw nb::python_error();
  kinds[type] = {kind, nb::steal(reference)};
  return kind;
}

Shape shape_from(int dims, const int64_t* sizes) { return Shape(std::span(sizes, static_cast<size_t>(dims))); }

class Buffer {
 public:
  explicit Buffer(nb::handle object) : filled_(PyObject_GetBuffer(object.ptr(), &view_, PyBUF_RECORDS_RO) == 0) {}
  ~Buffer() {
    if (filled_) PyBuffer_Release(&view_);
  }
  Buffer(const Buffer&) = delete;
  explicit operator bool() const { return filled_; }
  const Py_buffer& operator*() const { return view_; }

 private:
  Py_buffer view_;
  bool filled_;
};

// "l" has eight bytes as this machine's own and four by the standard: the size says which.
DType dtype_of_format(const Py_buffer& buffer, const Reading& reading) {
  std::string_view text = buffer.format ? buffer.format : "B";
  if (!text.empty() && (text[0] == '<' || text[0] == '=' || text[0] == '@')) text.remove_prefix(1);
  if (buffer.itemsize == 4 && (text == "l" || text == "L")) text = text == "l" ? "i" : "I";
  const auto found = known().formats.find(text);
  if (found != known().formats.end() && static_cast<Py_ssize_t>(element_bytes(found->second)) == buffer.itemsize)
    return found->second;
  fail(ErrorCode::argument_type,
       std::string(reading.argument) + " has elements of dtype " +
           (nb::hasattr(reading.object, "dtype") ? shown(nb::object(reading.object.attr("dtype"))) : std::string(text)) +
           ", which are no numbers that we know, or not in this machine's byte order");
}

const int64_t* longs(const Py_ssize_t* numbers) {
  static_assert(sizeof(Py_ssize_t) == sizeof(int64_t));
  return reinterpret_cast<const int64_t*>(numbers);
}

// Without an owner.
Array read_exported(const Py_buffer& buffer, const Reading& reading, Kind kind) {
  check_dims(buffer.ndim, reading.argument);
  if (buffer.readonly && reading.access == Access::write) fail_read_only(reading.argument);
  if (buffer.suboffsets)
    fail(ErrorCode::argument_type, std::string(reading.argument) + " has its elements behind pointers; give a copy of it");
  const TensorView view{buffer.buf, dtype_of_format(buffer, reading), shape_from(buffer.ndim, longs(buffer.shape)),
                        buffer.readonly != 0};
  if (buffer.strides && !is_contiguous(buffer.ndim, longs(buffer.shape), longs(buffer.strides), buffer.itemsize)) {
    Layout original = layout_of(view);
    std::copy_n(longs(buffer.strides), buffer.ndim, original.strides);
    return through_copy(reading, kind, original);
  }
  Array array;
  array.kind = kind;
  array.view = view;
  return array;
}

// ml_dtypes' bfloat16 and float8 have no letter in the buffer protocol: their bits are read as whole numbers.
Array read_named(const Reading& reading) {
  PyErr_Clear();
  const DType dtype = dtype_of(reading.object.attr("dtype"), reading.argument);
  nb::object bits = reading.object.attr("view")(element_bytes(dtype) == 2 ? "uint16" : "uint8");
  Array array = read_array(bits, reading.argument, reading.access);
  array.view.dtype = dtype;
  return array;
}

// The buffer is let go of: the array keeps its memory.
Array read_numpy(const Reading& reading) {
  const Buffer buffer(reading.object);
  if (!buffer) return read_named(reading);
  Array array = read_exported(*buffer, reading, Kind::numpy);
  if (!array.original) array.owner = nb::borrow(reading.object);
  return array;
}

// What could be resized meanwhile is held by its buffer.
Array read_buffer(const Reading& reading) {
  nb::object exported = nb::steal(PyMemoryView_FromObject(reading.object.ptr()));
  if (!exported.is_valid()) throw nb::python_error();
  Array array = read_exported(*PyMemoryView_GET_BUFFER(exported.ptr()), reading, Kind::buffer);
  if (!array.original) array.owner = std::move(exported);
  return array;
}

Array read_kind(const Reading& reading) {
  switch (kind_of(reading.object, reading.argument)) {
    case Kind::numpy: return read_numpy(reading);
    case Kind::torch: return read_torch(reading);
    case Kind::mindspore: return read_mindspore(reading);
    case Kind::dlpack: return read_dlpack(reading);
    case Kind::buffer: return read_buffer(reading);
  }
  fail(ErrorCode::internal, "an array has a kind that is not there");
}

}  // namespace

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

void check_dims(int64_t dims, const char* argument) {
  if (dims > max_dims)
    fail(ErrorCode::argument, std::string(argument) + " has " + std::to_string(dims) + " dimensions; at most 8 are taken");
}

void fail_read_only(const char* argument) {
  fail(ErrorCode::argument, std::string(argument) + " is read-only, and the call would write it");
}

Array through_copy(const Reading& reading, Kind kind, const Layout& original) {
  if (reading.access == Access::write && overlaps_itself(original))
    fail(ErrorCode::argument, std::string(reading.argument) +
                                  " has elements that are the same memory, as expand() or as_strided() makes them, and the call "
                                  "would write them; give a copy of it");
  const nb::object copy = known().contiguous(reading.object);
  Array array = read_array(copy, reading.argument, Access::write);
  array.kind = kind;
  array.original = std::make_unique<Layout>(original);
  if (reading.access == Access::write) array.copied_from = nb::borrow(reading.object);
  return array;
}

void prepare_arrays() { known(); }

Array read_array(nb::handle object, const char* argument, Access access) {
  try {
    Array array = read_kind({object, argument, access});
    array.given = nb::borrow(object);
    array.written = access == Access::write;
    array.argument = argument;
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

bool is_any_copied(const std::vector<Array>& arrays) {
  for (const Array& array : arrays)
    if (array.original) return true;
  return false;
}

void check_apart(const std::vector<Array>& arrays, const OwnParts& own) {
  const auto layout = [](const Array& array) { return array.original ? *array.original : layout_of(array.view); };
  const auto are_own = [&](size_t first, size_t second) {
    if (first < own.first || second < own.second || first - own.first != second - own.second) return false;
    if (first - own.first >= own.count) return false;
    const Layout one = layout(arrays[first]), other = layout(arrays[second]);
    return one.shape.count() < other.shape.count() ? is_part(one, other, own.index) : is_part(other, one, own.index);
  };
  for (size_t second = 1; second < arrays.size(); ++second)
    for (size_t first = 0; first < second; ++first) {
      const Array &one = arrays[first], &other = arrays[second];
      if ((!one.written && !other.written) || (!one.original && !other.original)) continue;
      if (!overlap(layout(one), layout(other)) || are_own(first, second)) continue;
      if (std::string_view(one.argument) == other.argument)
        fail(ErrorCode::argument, std::string("two tensors of ") + one.argument + " overlap in memory");
      fail(ErrorCode::argument, std::string(one.argument) + " and " + other.argument + " overlap in memory");
    }
}

DType dtype_of(nb::handle object, const char* argument) {
  const nb::object text = nb::hasattr(object, "name")       ? nb::object(object.attr("name"))
                          : nb::isinstance<nb::str>(object) ? nb::borrow(object)
                                                            : nb::object(nb::repr(object));  // "mindspore.float32"
  std::string name = shown(text);
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
