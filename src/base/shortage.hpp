// Memory that runs out (std::bad_alloc), as the Status that users and the other ranks get.
#pragma once

#include <new>

#include "unisono/status.hpp"

namespace unisono {

const Status& out_of_memory();  // made beforehand, since there may be no memory left to make it with

// What the step returns, or that memory ran out in it.
template <typename Step>
Status or_out_of_memory(Step step) {
  try {
    return step();
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  }
}

}  // namespace unisono
