// How an asynchronous call tells that it is over: to whoever asks, and to one function that wants to be called then.
//
// Who writes: whoever registers the function writes then_ and moves state_ from running to awaited; whoever ends the call
// moves it to over. Order: both are one read-modify-write of state_, so one of the two finds what the other left and makes
// the call, and only one does. Moving is a release after then_ and after all that the call has written; finding it moved is an
// acquire before any of that is read.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>

#include "unisono/status.hpp"

namespace unisono {

class Completion {
 public:
  bool is_over() const { return state_.load(std::memory_order_acquire) == over; }

  // Called once in all, by the thread that ends the call, or by this one where it is over already. StateError the second time.
  void then(std::function<void()> function) {
    if (registered_.exchange(true, std::memory_order_relaxed))
      throw StateError(Status(ErrorCode::state, "on_completion: this Work has a function to call already; it takes one"));
    then_ = std::move(function);
    uint32_t expected = running;
    if (!state_.compare_exchange_strong(expected, awaited, std::memory_order_acq_rel, std::memory_order_acquire)) call();
  }

  // By the one who ends the call. The function may drop the last reference to it: nothing of this object is used afterwards.
  void end() {
    if (state_.exchange(over, std::memory_order_acq_rel) == awaited) call();
  }

 private:
  enum : uint32_t { running, awaited, over };

  void call() {
    const std::function<void()> function = std::exchange(then_, nullptr);  // what it holds is let go after it was called
    function();
  }

  std::atomic<uint32_t> state_{running};
  std::atomic<bool> registered_{false};
  std::function<void()> then_;
};

}  // namespace unisono
