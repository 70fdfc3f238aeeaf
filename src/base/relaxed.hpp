// A number or flag that several threads of a process read and write, and that orders nothing: who needs more than its value takes
// a lock, or a std::atomic and says in which order.
//
// Who writes: any thread. Order: none (relaxed).
#pragma once

#include <atomic>

namespace unisono {

template <typename T>
class Relaxed {
 public:
  explicit Relaxed(T value = {}) : value_(value) {}
  Relaxed(const Relaxed&) = delete;
  operator T() const { return value_.load(std::memory_order_relaxed); }
  void operator=(T value) { value_.store(value, std::memory_order_relaxed); }
  void add(T count) { value_.fetch_add(count, std::memory_order_relaxed); }

 private:
  std::atomic<T> value_;
};

}  // namespace unisono
