// What went wrong, in torch's types: argument errors become ValueError or TypeError, all others DistBackendError. The text
// begins with the name of our type.
#pragma once

#include <c10/util/Exception.h>

#include <exception>

#include "unisono/status.hpp"

namespace unisono::torch_backend {

// Where a signal's handler has raised something in this thread while it waited, KeyboardInterrupt say: throws that. Python's
// side, so in module.cpp.
void throw_if_interrupted();

// Runs the handlers of signals that have come, where this is the thread that Python runs them in, and throws what they raise:
// for waits of our own. Also in module.cpp.
void throw_if_signalled();

[[noreturn]] inline void throw_in_torch(const Status& status) {
  if (status.code() == ErrorCode::revoked) throw_if_interrupted();
  switch (status.code()) {
    case ErrorCode::argument: C10_THROW_ERROR(ValueError, status.text());
    case ErrorCode::argument_type: C10_THROW_ERROR(TypeError, status.text());
    default: C10_THROW_ERROR(DistBackendError, status.text());
  }
}

inline std::exception_ptr as_exception(const Status& status) {
  if (status.ok()) return nullptr;
  try {
    throw_in_torch(status);
  } catch (...) {
    return std::current_exception();
  }
}

// Whatever the library throws inside, in torch's types.
template <typename Function>
auto in_torch_words(Function function) {
  try {
    return function();
  } catch (const Error& error) {
    throw_in_torch(error.status());
  }
}

// A function that somebody hung on a future and that throws must not end the pool's thread; torch keeps what callbacks of
// `then` throw, so this is about nobody's mistake but theirs.
template <typename Function>
void quietly(Function function) {
  try {
    function();
  } catch (const std::exception& error) {
    TORCH_WARN("a callback of the unisono backend threw: ", error.what());
  }
}

}  // namespace unisono::torch_backend
