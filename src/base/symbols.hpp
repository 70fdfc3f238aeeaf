// Functions of a library that was loaded while the program runs.
#pragma once

#include <dlfcn.h>

namespace unisono {

// Whether it has the function; `function` is what it is called by, with the type that it is known to have.
template <typename Function>
bool find_symbol(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));  // NOLINT(cppcoreguidelines-pro-type-reinterpret-cast): what dlsym is for
  return function != nullptr;
}

// Why dlopen() has just failed.
inline const char* why_not_loaded(const char* name) {
  const char* why = dlerror();
  return why ? why : name;
}

}  // namespace unisono
