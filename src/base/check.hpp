// The three macros of the project. CHECK states what must hold if our own code is right and stays on in release;
// RETURN_IF_ERROR passes a Status up; FAULT_POINT names a place where a test may kill or delay this process.
#pragma once

#include <string>

#include "base/fault_point.hpp"
#include "unisono/status.hpp"

namespace unisono {

// Reports a broken invariant by throwing InternalError, which the edges and the tops of our threads catch.
[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace unisono

#define CHECK(condition)                                                        \
  do {                                                                          \
    if (!(condition)) [[unlikely]]                                              \
      ::unisono::check_failed(#condition, __FILE__, __LINE__);                  \
  } while (false)

#define RETURN_IF_ERROR(expression)                                             \
  do {                                                                          \
    if (::unisono::Status status_ = (expression); !status_.ok()) [[unlikely]]   \
      return status_;                                                           \
  } while (false)

#ifdef UNISONO_FAULT_POINTS
#define FAULT_POINT(name) ::unisono::fault_point(name)
#else
#define FAULT_POINT(name) static_cast<void>(0)
#endif
