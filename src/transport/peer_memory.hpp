// Reading a neighbour's private memory with process_vm_readv: one copy instead of two, where the kernel permits it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/lanes.hpp"

namespace unisono {

// Whether this process may read that one's memory; asked once, by reading the magic of its arena at its own address.
bool can_read_memory_of(const Neighbour& neighbour);

// Where this process sees memory of that one's arena, which needs no system call; null where it lies elsewhere.
const std::byte* arena_memory_of(const Neighbour& neighbour, uint64_t address, int64_t bytes);

// `gone`: there is no such process any more. `failed`: it may not be read, or the address is not its own; errno says which.
enum class ReadOutcome { done, gone, failed };
ReadOutcome read_memory_of(const Neighbour& neighbour, void* target, uint64_t address, int64_t bytes);

}  // namespace unisono
