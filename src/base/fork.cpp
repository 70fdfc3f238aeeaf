// Who writes: the child's only thread, inside fork(). Order: relaxed; a new process starts with it.
#include "base/fork.hpp"

#include <pthread.h>

#include <atomic>

namespace unisono {
namespace {

struct Generation {
  std::atomic<uint32_t> number{0};
  Generation();
};

Generation& generation() {
  static Generation the_generation;
  return the_generation;
}

void count_fork() { generation().number.fetch_add(1, std::memory_order_relaxed); }

Generation::Generation() { pthread_atfork(nullptr, nullptr, count_fork); }

}  // namespace

uint32_t fork_generation() { return generation().number.load(std::memory_order_relaxed); }

}  // namespace unisono
