// The threads on which futures are completed, and with them whatever torch's users do in callbacks. A callback may block, even
// on another call's future. The first few threads are made as they are wanted; above those the last one that is idle waits
// whether the others move, and only where they do not, since they are blocked, takes the task and has another one made.
//
// Who writes: everything is under mutex_.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>

namespace unisono::torch_backend {

class CompletionPool {
 public:
  using Task = std::function<void()>;

  static CompletionPool& instance();  // of this process: a forked child has another one, and so knows itself

  void start();          // before the first push; throws where there can be no thread
  void push(Task task);  // never blocks for long and runs nothing itself
  bool drained_within(std::chrono::milliseconds patience);  // whether there is nothing left to do
  // Takes nothing more: what is pushed later stays there, for there is no interpreter any more that it could run in.
  void close();
  int threads() const;   // for tests

 private:
  using Lock = std::unique_lock<std::mutex>;

  void add_thread();     // under the lock
  void work();
  bool await_task(Lock& lock);  // false: this thread is not needed any more

  mutable std::mutex mutex_;
  std::condition_variable wanted_, drained_, patience_;
  std::deque<Task> queue_;
  uint64_t taken_ = 0;   // tasks so far
  int threads_ = 0, idle_ = 0;
  bool closed_ = false, warned_ = false;
};

}  // namespace unisono::torch_backend
