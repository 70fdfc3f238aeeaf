// unisono._core: the library as Python sees it. Names, defaults and documentation for users are in unisono/*.py, which call
// the functions here by position.
#include "python/core/calls.hpp"

NB_MODULE(_core, module) {
  using namespace unisono::python;
  nanobind::set_leak_warnings(false);  // works may be alive when the interpreter goes; the process ends with it
  module.attr("__version__") = UNISONO_VERSION;
  bind_errors(module);
  bind_works(module);
  bind_stores(module);
  bind_joining(module);
  bind_groups(module);
  bind_collectives(module);
  bind_more_collectives(module);
  bind_letters(module);
  bind_comm_func(module);
  bind_communication(module);
  register_memory(module);
}
