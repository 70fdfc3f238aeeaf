// Parameters that are no arrays, as the user gave them. Whatever is wrong with one is an ArgumentError or ArgumentTypeError that
// names it.
#pragma once

#include <cxxabi.h>
#include <nanobind/nanobind.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <vector>

#include "unisono/group.hpp"
#include "unisono/status.hpp"
#include "unisono/tensor.hpp"

namespace unisono::python {

namespace nb = nanobind;

[[noreturn]] void fail(ErrorCode code, const std::string& text);
std::string type_text(nb::handle object);  // the name of its type
std::string shown(nb::handle object);      // str() of it, whatever that does
// Takes the Python exception that was just caught: the error that says the same of this argument. What is no fault of the
// argument, KeyboardInterrupt say, goes on as it is.
[[noreturn]] void fail_because(const nb::python_error& error, const char* argument);

bool flag_of(nb::handle value, const char* argument);
int whole_of(nb::handle value, const char* argument);
int64_t long_of(nb::handle value, const char* argument);
std::optional<int> whole_or_none(nb::handle value, const char* argument);
std::vector<int> wholes_of(nb::handle list, const char* argument);
std::vector<int64_t> longs_or_none(nb::handle list, const char* argument);  // None: an empty list
Shape shape_of(nb::handle shape, const char* argument);                       // a whole number or a list of them
std::string text_of(nb::handle value, const char* argument);
std::string bytes_of(nb::handle value, const char* argument);                 // a str or bytes
nb::list list_of(nb::handle list, const char* argument, const char* wanted);  // of any sequence but a str or an array

// The parameters of the same name.
std::optional<double> seconds_of(nb::handle timeout);  // None, a number, or a datetime.timedelta
GroupHandle group_of(nb::handle group);                // None: the world
std::string group_name_of(nb::handle group);           // None: the world
ReduceOp op_of(nb::handle op);                         // ours, torch's, or a name

// Python ends threads that are left when the interpreter goes, wherever they next take the GIL, by unwinding their frames. Nobody
// may stop that on the way, as nanobind and destructors would: such a thread stays where it is, for the process is about to end.
template <typename Function>
auto staying_if_python_goes(Function function) {
  try {
    return function();
  } catch (abi::__forced_unwind&) {
    for (;;) pause();
  }
}

// Defines a function whose parameters go by position and take anything: what is wrong with one is said above, not by nanobind.
template <typename>
auto anything() {
  return nb::arg().none();
}
template <typename Return, typename... Parameters>
void define(nb::module_& module, const char* name, Return (*function)(Parameters...)) {
  module.def(name, [function](Parameters... parameters) {
    return staying_if_python_goes([&] { return function(parameters...); });
  }, anything<Parameters>()...);
}

}  // namespace unisono::python
