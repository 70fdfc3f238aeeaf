// A mutex that a thread may wait for in slices, so that it can look at its deadline and ask whether it was interrupted in
// between. std::timed_mutex would do, but g++ 12's ThreadSanitizer does not know how it waits and sees locks that are none.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace unisono {

// As std::unique_lock wants it.
class PatientMutex {
 public:
  void lock() {
    std::unique_lock lock(mutex_);
    freed_.wait(lock, [this] { return !held_; });
    held_ = true;
  }
  bool try_lock() { return try_lock_for(std::chrono::nanoseconds(0)); }
  bool try_lock_for(std::chrono::nanoseconds longest) {
    std::unique_lock lock(mutex_);
    if (!freed_.wait_for(lock, longest, [this] { return !held_; })) return false;
    held_ = true;
    return true;
  }
  void unlock() {
    {
      const std::lock_guard lock(mutex_);
      held_ = false;
    }
    freed_.notify_one();
  }

 private:
  std::mutex mutex_;  // held for moments
  std::condition_variable freed_;
  bool held_ = false;
};

}  // namespace unisono
