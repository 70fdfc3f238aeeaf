// Threads for callbacks; see completion_pool.hpp.
#include "torch_backend/completion_pool.hpp"

#include <pthread.h>
#include <unistd.h>

#include <system_error>
#include <thread>
#include <utility>

namespace unisono::torch_backend {
namespace {

constexpr int most_idle = 3;  // more of them end: they were needed while others were blocked

}  // namespace

CompletionPool::CompletionPool() : process_(getpid()) {}

CompletionPool& CompletionPool::instance() {
  static auto* const pool = new CompletionPool;
  return *pool;
}

void CompletionPool::add_thread() {
  try {
    std::thread([this] { work(); }).detach();
    ++threads_;
    ++idle_;  // counted here, so that nobody adds another before it runs
  } catch (const std::system_error&) {
    if (threads_ == 0) throw;  // otherwise those that are there have to do
  }
}

void CompletionPool::start() {
  std::lock_guard lock(mutex_);
  if (threads_ == 0) add_thread();
}

void CompletionPool::push(Task task) {
  std::lock_guard lock(mutex_);
  queue_.push_back(std::move(task));
  wanted_.notify_one();
}

// Before it may block in a task, a thread sees to it that another one waits for the next.
void CompletionPool::work() {
  pthread_setname_np(pthread_self(), "unisono torch");
  std::unique_lock lock(mutex_);
  while (true) {
    wanted_.wait(lock, [this] { return !queue_.empty() && !closed_; });
    Task task = std::move(queue_.front());
    queue_.pop_front();
    --idle_;
    if (idle_ == 0) add_thread();
    lock.unlock();
    task();
    task = nullptr;  // what it held is dropped here, where it may take the interpreter's lock
    lock.lock();
    ++idle_;
    if (queue_.empty() && idle_ == threads_) drained_.notify_all();
    if (idle_ > most_idle && queue_.empty()) break;
  }
  --idle_;
  --threads_;
}

void CompletionPool::drain_and_close() {
  if (getpid() != process_) return;
  std::unique_lock lock(mutex_);
  drained_.wait(lock, [this] { return queue_.empty() && idle_ == threads_; });
  closed_ = true;
}

int CompletionPool::threads() const {
  std::lock_guard lock(mutex_);
  return threads_;
}

}  // namespace unisono::torch_backend
