// Work that may take longer than its caller can wait, as asking a store that belongs to somebody else.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stop_token>
#include <system_error>
#include <thread>

#include "base/all_signals_blocked.hpp"
#include "base/clock.hpp"
#include "base/interrupt.hpp"
#include "base/shortage.hpp"
#include "unisono/status.hpp"

namespace unisono {

template <typename T>
Result<T> outcome_of(const std::function<Result<T>(const std::stop_token&)>& work, const std::stop_token& stop) try {
  return work(stop);
} catch (const std::bad_alloc&) {
  return out_of_memory();
} catch (const std::exception& error) {
  return Status(ErrorCode::internal, error.what());
}

// Does it on a thread of its own, and returns what it came to: or TimeoutError at the deadline, or RevokedError when the caller is interrupted. Then the work is asked to
// stop, and left behind if it does not: whatever it uses it has to own. Where no thread can be had it is done here.
template <typename T>
Result<T> in_time(const Deadline& deadline, std::function<Result<T>(const std::stop_token&)> work) {
  struct Shared {
    std::mutex mutex;
    std::condition_variable done;
    std::optional<Result<T>> result;
    std::stop_source stop;
  };
  auto shared = std::make_shared<Shared>();
  try {
    const AllSignalsBlocked blocked;
    std::thread([shared, work] {
      never_interrupt_this_thread();
      Result<T> result = outcome_of(work, shared->stop.get_token());
      const std::lock_guard lock(shared->mutex);
      shared->result = std::move(result);
      shared->done.notify_all();
    }).detach();
  } catch (const std::system_error&) {
    return work({});
  }
  constexpr int64_t slice_ns = 100'000'000;
  InterruptWatch interrupts;
  std::unique_lock lock(shared->mutex);
  while (!shared->result) {
    shared->done.wait_for(lock, std::chrono::nanoseconds(std::clamp<int64_t>(deadline.remaining_ns(), 0, slice_ns)));
    if (shared->result) break;
    if (deadline.passed()) {
      shared->stop.request_stop();
      return Status(ErrorCode::timeout, "it has not answered in time");
    }
    lock.unlock();
    const bool is_interrupted = interrupts.tripped();
    lock.lock();
    if (is_interrupted && !shared->result) {
      shared->stop.request_stop();
      return Status(ErrorCode::revoked, "interrupted");
    }
  }
  return std::move(*shared->result);
}

}  // namespace unisono
