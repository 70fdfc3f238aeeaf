// Asking, while a thread waits, whether it was interrupted: see unisono/binding.hpp.
#pragma once

#include <cstdint>

#include "unisono/status.hpp"

namespace unisono {

// Ok, or StateError where the check itself calls the library, in a signal's handler say: the call that it interrupted is still in
// this thread and has what another would wait for.
Status outside_interrupt_check();

// One for each wait; not before it has lasted 10 ms, and then every 100 ms.
class InterruptWatch {
 public:
  bool tripped();

 private:
  int64_t next_ns_ = 0;  // 0: not asked yet
};

}  // namespace unisono
