// Errors of the library become the classes of unisono/_errors.py, and Ctrl-C reaches a thread that waits in it.
#include <unistd.h>

#include "python/core/calls.hpp"

namespace unisono::python {
namespace {

nb::object class_of(ErrorCode code) {
  const std::string name(error_name(code));
  return nb::module_::import_("unisono._errors").attr(name.c_str());
}

void translate(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const Error& error) {
    if (PyErr_Occurred()) return;  // raised by a signal's handler while the call waited: KeyboardInterrupt, say
    staying_if_python_goes([&] {
      const nb::object exception = exception_of(error.status());
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
    });
  }
}

// Only Python's main thread hears of signals, so only it asks; others might also do so while Python is going away.
bool is_interrupted() {
  if (gettid() != getpid() || !PyGILState_GetThisThreadState()) return false;  // the first thread has the process's number
  const PyGILState_STATE state = PyGILState_Ensure();
  const bool raised = PyErr_CheckSignals() != 0;
  PyGILState_Release(state);
  return raised;
}

}  // namespace

nb::object exception_of(const Status& status) {
  nb::object exception = class_of(status.code())(status.message());
  exception.attr("peer") = status.peer() < 0 ? nb::none() : nb::object(nb::int_(status.peer()));
  return exception;
}

void bind_errors(nb::module_& module) {
  module.def("say_last_words", &say_last_words);
  nb::register_exception_translator(translate);
  set_interrupt_check(is_interrupted);
}

}  // namespace unisono::python
