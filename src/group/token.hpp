// The runner token: whoever holds it turns the group's engine. Inline calls and wait() take it; the progress thread takes
// it only when nobody else is waiting for it.
//
// Who writes: any thread of this process. Order: take is an acquire and give a release, so what the last holder did to the
// engine is seen by the next. Resting and stirring fence between what they write (that the token is wanted, the condition)
// and what they read (the condition, whether it is wanted), so that one of the two sees the other.
#pragma once

#include <algorithm>
#include <atomic>
#include <climits>

#include "base/at_end.hpp"
#include "base/clock.hpp"
#include "transport/futex.hpp"

namespace unisono {

class RunnerToken {
 public:
  bool try_take() {
    uint32_t expected = free;
    return state_.compare_exchange_strong(expected, held, std::memory_order_seq_cst);
  }
  void give() {
    if (state_.exchange(free, std::memory_order_seq_cst) == held_and_wanted) [[unlikely]]
      futex_wake(state_, INT_MAX);
  }
  // Sleeps until the token may be free or the condition true, or for 100 ms or less; then try again.
  template <typename Condition>
  void rest(Condition condition, int64_t longest_ns = never_ns) {
    uint32_t expected = held;
    state_.compare_exchange_strong(expected, held_and_wanted, std::memory_order_seq_cst);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (expected != free && !condition()) futex_wait(state_, held_and_wanted, std::min<int64_t>(longest_ns, 100'000'000));
  }
  // By the holder, when it has made a condition true that others may rest for.
  void stir() {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    uint32_t expected = held_and_wanted;  // changed back, so that whoever is just about to sleep does not
    if (state_.load(std::memory_order_relaxed) == held_and_wanted &&
        state_.compare_exchange_strong(expected, held, std::memory_order_seq_cst)) [[unlikely]]
      futex_wake(state_, INT_MAX);
  }

  // Until `done`, or the deadline: works where the token can be had, and rests otherwise. `hold` returns when it is done, when
  // the deadline has passed, or, with false, when there is no use in going on.
  template <typename Done, typename Hold>
  void wait_until(Done done, Hold hold, Deadline deadline) {
    const AtEnd no_longer_wanted([this] { unwant(); });
    want();
    bool goes_on = true;
    while (!done() && goes_on && !deadline.passed()) {
      if (try_take()) {
        const AtEnd given([this] { give(); });
        goes_on = hold();
      } else {
        rest(done, deadline.remaining_ns());
      }
    }
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
