// Sleeping on a 32-bit word that other processes may change.
#pragma once

#include <atomic>
#include <cstdint>

namespace unisono {

// Who writes: whoever changes the word and then calls futex_wake. The kernel compares the word with `expected` under
// its own lock, so a change before the sleep is never missed; `timeout_ns` bounds what any other mistake can cost.
void futex_wait(const std::atomic<uint32_t>& word, uint32_t expected, int64_t timeout_ns);
void futex_wake(std::atomic<uint32_t>& word, int sleepers);

// A barrier on every core that runs one of our processes, so that a publisher needs none of its own.
// False where the kernel does not offer it; then publishers must fence.
bool register_global_barrier();
void global_barrier();

}  // namespace unisono
