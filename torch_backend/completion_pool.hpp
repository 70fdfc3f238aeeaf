// The threads on which futures are completed, and with them whatever torch's users do in callbacks. A callback may block, even
// on another call's future: there is always one thread more that looks at the queue.
//
// Who writes: everything is under mutex_.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>

namespace unisono::torch_backend {

class CompletionPool {
 public:
  using Task = std::function<void()>;

  static CompletionPool& instance();  // never destroyed: its threads may outlive everything else

  void start();          // before the first push; throws where there can be no thread
  void push(Task task);  // never blocks for long and runs nothing itself
  // Waits until there is nothing left to do, then takes nothing more: what is pushed later stays there, for there is no
  // interpreter any more that it could run in. At once in a forked child, which has none of the threads.
  void drain_and_close();
  int threads() const;   // for tests

 private:
  CompletionPool();
  void add_thread();     // under the lock
  void work();

  mutable std::mutex mutex_;
  std::condition_variable wanted_, drained_;
  std::deque<Task> queue_;
  int threads_ = 0, idle_ = 0;
  bool closed_ = false;
  const int process_;
};

}  // namespace unisono::torch_backend
