// Reading parameters: see values.hpp. What most calls give is looked for first.
#include "python/core/values.hpp"

#include <nanobind/stl/string.h>

#include <cctype>
#include <cmath>
#include <limits>

namespace unisono::python {
namespace {

// What has a length and elements, and is neither a text nor an array.
bool is_list(nb::handle value) {
  PyObject* object = value.ptr();
  if (PyList_Check(object) || PyTuple_Check(object)) return true;
  return PySequence_Check(object) && !PyUnicode_Check(object) && !PyBytes_Check(object) && !PyByteArray_Check(object);
}

template <typename Element, typename Read>
std::vector<Element> elements_of(nb::handle list, const char* argument, Read read) {
  std::vector<Element> elements;
  try {
    for (nb::handle element : nb::iter(list)) elements.push_back(read(element, argument));
  } catch (nb::python_error& error) {
    fail_because(error, argument);
  }
  return elements;
}

bool has_iterator(nb::handle value) {
  return is_list(value) || (!PyUnicode_Check(value.ptr()) && nb::hasattr(value, "__iter__") && !PyBytes_Check(value.ptr()));
}

ReduceOp named_op(const std::string& name) {
  std::string lower = name;
  for (char& letter : lower) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  const std::optional<ReduceKind> kind = reduce_kind_named(lower);
  if (!kind || *kind == ReduceKind::premul_sum || *kind == ReduceKind::user)
    fail(ErrorCode::argument, "op is \"" + name + "\"; there are sum, avg, prod, min, max, band, bor and bxor");
  return ReduceOp{*kind};
}

ReduceOp premultiplied(nb::handle by) {
  double factor = 0;
  if (!nb::try_cast(nb::borrow(by), factor)) fail(ErrorCode::argument_type, "op multiplies by a " + type_text(by) + "; give one whose factor is a number");
  return ReduceOp::premul_sum(factor);
}

// Before torch 2.13 its state alone has the factor of a PREMUL_SUM: the kind, and the factor or None.
std::optional<ReduceOp> op_of_older_torch(nb::handle op) {
  nb::tuple state;
  if (!nb::hasattr(op, "op") || !nb::hasattr(op, "__getstate__") || !nb::try_cast(nb::object(op.attr("__getstate__")()), state) || state.size() != 2 || nb::handle(state[1]).is_none()) return std::nullopt;
  return premultiplied(state[1]);
}

}  // namespace

void fail(ErrorCode code, const std::string& text) {
  throw_if_error(Status(code, text));
  __builtin_unreachable();
}

std::string type_text(nb::handle object) { return shown(object.type().attr("__name__")); }

// Characters that cannot be encoded, as file names may have them, are written as numbers.
std::string shown(nb::handle object) {
  const nb::object text = nb::steal(PyObject_Str(object.ptr()));
  const nb::object bytes =
      nb::steal(text.is_valid() ? PyUnicode_AsEncodedString(text.ptr(), "utf-8", "backslashreplace") : nullptr);
  if (bytes.is_valid()) return {PyBytes_AS_STRING(bytes.ptr()), static_cast<size_t>(PyBytes_GET_SIZE(bytes.ptr()))};
  nb::python_error error;
  if (!error.matches(PyExc_Exception)) throw error;
  return "(what has no text)";
}

void fail_because(const nb::python_error& error, const char* argument) {
  if (!error.matches(PyExc_Exception) || error.matches(PyExc_MemoryError)) throw error;
  const ErrorCode code = error.matches(PyExc_ValueError) ? ErrorCode::argument : ErrorCode::argument_type;
  fail(code, std::string(argument) + " cannot be taken: " + type_text(error.value()) + ": " + shown(error.value()));
}

bool flag_of(nb::handle value, const char* argument) {
  if (value.ptr() == Py_False) return false;
  if (value.ptr() == Py_True) return true;
  if (const std::string type = type_text(value); type == "bool_" || type == "bool")
    return PyObject_IsTrue(value.ptr()) == 1;  // NumPy's
  fail(ErrorCode::argument_type, std::string(argument) + " is a " + type_text(value) + "; give True or False");
}

int64_t long_of(nb::handle value, const char* argument) {
  if (!PyIndex_Check(value.ptr()))
    fail(ErrorCode::argument_type, std::string(argument) + " is a " + type_text(value) + "; give a whole number");
  const nb::object number = nb::steal(PyNumber_Index(value.ptr()));
  if (!number.is_valid()) {
    nb::python_error error;  // an array of several elements, say
    fail_because(error, argument);
  }
  int overflow = 0;
  const int64_t result = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow != 0)
    fail(ErrorCode::argument, std::string(argument) + " is " + shown(number) + ", which is too large");
  return result;
}

int whole_of(nb::handle value, const char* argument) {
  const int64_t number = long_of(value, argument);
  if (number < std::numeric_limits<int>::min() || number > std::numeric_limits<int>::max())
    fail(ErrorCode::argument, std::string(argument) + " is " + std::to_string(number) + ", which is too large");
  return static_cast<int>(number);
}

std::optional<int> whole_or_none(nb::handle value, const char* argument) {
  if (value.is_none()) return std::nullopt;
  return whole_of(value, argument);
}

std::vector<int> wholes_of(nb::handle list, const char* argument) {
  if (!has_iterator(list))
    fail(ErrorCode::argument_type, std::string(argument) + " is a " + type_text(list) + "; give a list of whole numbers");
  return elements_of<int>(list, argument, whole_of);
}

std::vector<int64_t> longs_or_none(nb::handle list, const char* argument) {
  if (list.is_none()) return {};
  if (!has_iterator(list))
    fail(ErrorCode::argument_type, std::string(argument) + " is a " + type_text(list) + "; give a list of whole numbers");
  return elements_of<int64_t>(list, argument, long_of);
}

Shape shape_of(nb::handle shape, const char* argument) {
  const std::vector<int64_t> sizes =
      PyIndex_Check(shape.ptr()) && !has_iterator(shape) ? std::vector<int64_t>{long_of(shape, argument)}
      : has_iterator(shape)                             ? longs_or_none(shape, argument)
                                                        : std::vector<int64_t>();
  if (!PyIndex_Check(shape.ptr()) && !has_iterator(shape))
    fail(ErrorCode::argument_type,
         std::string(argument) + " is a " + type_text(shape) + "; give a whole number or a list of them");
  if (sizes.size() > max_dims)
    fail(ErrorCode::argument,
         std::string(argument) + " has " + std::to_string(sizes.size()) + " dimensions; at most 8 are taken");
  for (int64_t size : sizes)
    if (size < 0) fail(ErrorCode::argument, std::string(argument) + " has the size " + std::to_string(size) + " in it");
  return Shape(sizes);
}

std::string text_of(nb::handle value, const char* argument) {
  if (!PyUnicode_Check(value.ptr()))
    fail(ErrorCode::argument_type, std::string(argument) + " is a " + type_text(value) + "; give a str");
  return bytes_of(value, argument);
}

std::string bytes_of(nb::handle value, const char* argument) {
  Py_ssize_t size = 0;
  if (PyUnicode_Check(value.ptr())) {
    const char* text = PyUnicode_AsUTF8AndSize(value.ptr(), &size);
    if (text) return {text, static_cast<size_t>(size)};
    PyErr_Clear();
    fail(ErrorCode::argument, std::string(argument) + " has characters in it that cannot be encoded");
  }
  if (!PyBytes_Check(value.ptr()) && !PyByteArray_Check(value.ptr()))
    fail(ErrorCode::argument_type, std::string(argument) + " is a " + type_text(value) + "; give a str or bytes");
  if (PyBytes_Check(value.ptr())) return {PyBytes_AS_STRING(value.ptr()), static_cast<size_t>(PyBytes_GET_SIZE(value.ptr()))};
  return {PyByteArray_AS_STRING(value.ptr()), static_cast<size_t>(PyByteArray_GET_SIZE(value.ptr()))};
}

nb::list list_of(nb::handle list, const char* argument, const char* wanted) {
  if (!is_list(list) || nb::hasattr(list, "dtype"))
    fail(ErrorCode::argument_type, std::string(argument) + " is a " + type_text(list) + "; give a list of " + wanted);
  try {
    return nb::list(nb::borrow(list));
  } catch (nb::python_error& error) {
    fail_because(error, argument);
  }
}

std::optional<double> seconds_of(nb::handle timeout) {
  if (timeout.is_none()) return std::nullopt;
  double seconds = std::numeric_limits<double>::quiet_NaN();
  const bool is_span = nb::hasattr(timeout, "total_seconds");
  if (!is_span && (PyBool_Check(timeout.ptr()) || !PyNumber_Check(timeout.ptr()) || PyComplex_Check(timeout.ptr())))
    fail(ErrorCode::argument_type, "timeout is a " + type_text(timeout) + "; give seconds or a datetime.timedelta");
  try {
    const nb::object number = is_span ? nb::object(timeout.attr("total_seconds")()) : nb::borrow(timeout);
    seconds = PyFloat_AsDouble(number.ptr());
    if (PyErr_Occurred()) throw nb::python_error();
  } catch (nb::python_error& error) {
    fail_because(error, "timeout");
  }
  if (!(seconds > 0))
    fail(ErrorCode::argument, "timeout is " + shown(timeout) + "; it must be more than 0 seconds");
  return seconds;
}

GroupHandle group_of(nb::handle group) {
  if (group.is_none()) return {};
  GroupHandle* handle = nullptr;
  if (nb::try_cast(group, handle) && handle) return *handle;
  fail(ErrorCode::argument_type, "group is a " + type_text(group) + "; give what new_group() returned, or None for all ranks");
}

std::string group_name_of(nb::handle group) {
  if (group.is_none()) return {};
  if (PyUnicode_Check(group.ptr())) return text_of(group, "group");
  fail(ErrorCode::argument_type, "group is a " + type_text(group) + "; give a group's name, or None for all ranks");
}

ReduceOp op_of(nb::handle op) {
  ReduceOp* known = nullptr;
  if (nb::try_cast(op, known) && known) return *known;
  if (PyUnicode_Check(op.ptr())) return named_op(text_of(op, "op"));
  if (nb::hasattr(op, "factor") && nb::hasattr(op, "op")) return premultiplied(nb::object(op.attr("factor")));  // torch's PREMUL_SUM
  if (const auto older = op_of_older_torch(op)) return *older;
  std::string name;
  if (nb::hasattr(op, "name") && nb::try_cast(nb::object(op.attr("name")), name)) return named_op(name);  // torch's
  fail(ErrorCode::argument_type,
       "op is a " + type_text(op) +
           "; give a ReduceOp or one of \"sum\", \"avg\", \"prod\", \"min\", \"max\", \"band\", \"bor\", \"bxor\"");
}

}  // namespace unisono::python
