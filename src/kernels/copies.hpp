// Copying what is so long that the caches are better left to others.
#pragma once

#include <cstddef>
#include <cstdint>

namespace unisono {

// As memcpy does it with its longest: whole lines are written to memory without being read first, and nothing else is driven out of the caches.
// For parts of a long copy, which memcpy would take for short ones.
void copy_past_caches(std::byte* target, const std::byte* source, int64_t bytes);

}  // namespace unisono
