// Asking, while a thread waits, whether it was interrupted: see unisono/binding.hpp.
#pragma once

#include <cstdint>

#include "unisono/binding.hpp"

namespace unisono {

void never_interrupt_this_thread();  // it is one of the library's, which are not asked

// One for each wait; not before it has lasted 10 ms, and then every 100 ms.
class InterruptWatch {
 public:
  bool tripped();

 private:
  int64_t next_ns_ = 0;  // 0: not asked yet
};

}  // namespace unisono
