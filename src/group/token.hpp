// The runner token: whoever holds it turns the group's engine. Inline calls and wait() take it; the progress thread takes
// it only when nobody else is waiting for it.
//
// Who writes: any thread of this process. Order: take is an acquire and give a release, so what the last holder did to the
// engine is seen by the next.
#pragma once

#include <algorithm>
#include <atomic>

#include "base/clock.hpp"
#include "transport/futex.hpp"

namespace unisono {

class RunnerToken {
 public:
  bool try_take() {
    uint32_t expected = free;
    return state_.compare_exchange_strong(expected, held, std::memory_order_acquire, std::memory_order_relaxed);
  }
  void give() {
    if (state_.exchange(free, std::memory_order_release) == held_and_wanted) [[unlikely]]
      futex_wake(state_, 1);
  }
  // Sleeps until the token may be free, or for 100 ms; then try again.
  void rest() {
    uint32_t expected = held;
    state_.compare_exchange_strong(expected, held_and_wanted, std::memory_order_relaxed);
    if (expected != free) futex_wait(state_, held_and_wanted, 100'000'000);
  }

  void want() { wanting_.fetch_add(1, std::memory_order_relaxed); }
  void unwant() { wanting_.fetch_sub(1, std::memory_order_relaxed); }
  bool wanted() const { return wanting_.load(std::memory_order_relaxed) != 0; }

 private:
  enum : uint32_t { free, held, held_and_wanted };
  std::atomic<uint32_t> state_{free};
  std::atomic<int> wanting_{0};
};

}  // namespace unisono
