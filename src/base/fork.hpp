// Knowing that this process is a forked child of the one that joined. The child must not touch the parent's World.
#pragma once

#include <cstdint>

namespace unisono {

uint32_t fork_generation();  // changes in the child of every fork() after the first call

}  // namespace unisono
