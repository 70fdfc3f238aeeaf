// Reading a neighbour's private memory with process_vm_readv: one copy instead of two, where the kernel permits it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/lanes.hpp"

namespace unisono {

// Whether this process may read that one's memory; tried, on a word of its private memory. The kernel may refuse it (Yama, seccomp,
// a process that is not dumpable), or the pid may mean another process here or none.
bool can_read_memory_of(const Neighbour& neighbour);

// Where this process sees memory of that one's arena, which needs no system call; null where it lies elsewhere.
const std::byte* arena_memory_of(const Neighbour& neighbour, uint64_t address, int64_t bytes);

// `gone`: there is no such process any more. `refused`: it may not be read. `failed`: the address is not its own, or the like, as
// errno says.
enum class ReadOutcome { done, gone, refused, failed };
ReadOutcome read_memory_of(const Neighbour& neighbour, void* target, uint64_t address, int64_t bytes);

}  // namespace unisono
