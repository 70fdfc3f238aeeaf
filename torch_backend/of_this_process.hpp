// What there is one of in a process, also in a forked child, which gets a fresh one: threads that the child has not got may
// have held the locks of the parent's, or may have been what made it work. The parent's is left alone in the child. Neither is
// ever destroyed: static objects and threads that outlive everything else may still use them.
//
// Who writes: the thread that is first to ask, and fork() in the child, where there is no other thread. Order: relaxed; a child
// is born with what its parent's thread saw.
#pragma once

#include <pthread.h>

#include <atomic>

namespace unisono::torch_backend {

template <typename T>
T& of_this_process() {
  static std::atomic<T*> object{new T};
  static const int watched = pthread_atfork(nullptr, nullptr, [] { object.store(new T, std::memory_order_relaxed); });
  (void)watched;
  return *object.load(std::memory_order_relaxed);
}

}  // namespace unisono::torch_backend
