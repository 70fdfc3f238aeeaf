// Threads for callbacks; see completion_pool.hpp.
#include "torch_backend/completion_pool.hpp"

#include <c10/util/Exception.h>
#include <pthread.h>

#include <system_error>
#include <thread>
#include <utility>

#include "torch_backend/of_this_process.hpp"

namespace unisono::torch_backend {
namespace {

constexpr int at_once = 4;   // so many are made without waiting, and stay
constexpr int most = 256;    // where all of these are blocked, and only by tasks behind them, nothing goes on
constexpr std::chrono::milliseconds patience(10); // how long the last idle one waits for the others to move
constexpr std::chrono::seconds linger(10);        // of those above at_once: a program that needed them needs them again

}  // namespace

CompletionPool& CompletionPool::instance() { return of_this_process<CompletionPool>(); }

void CompletionPool::add_thread() {
  if (threads_ == most) {
    if (!std::exchange(warned_, true))
      TORCH_WARN("unisono: ", most, " threads run callbacks of futures, and all of them are blocked or busy; there will not be more. ",
                 "If the program hangs now, its callbacks wait for each other.");
    return;
  }
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

bool CompletionPool::await_task(Lock& lock) {
  const auto there = [this] { return !queue_.empty() && !closed_; };
  while (true) {
    if (idle_ <= at_once || closed_) {
      wanted_.wait(lock, there);
    } else if (!wanted_.wait_for(lock, linger, there)) {
      if (idle_ > at_once && !closed_) return false;
      continue;
    }
    if (idle_ > 1 || threads_ <= at_once) return true;
    const uint64_t before = taken_;
    patience_.wait_for(lock, patience, [&] { return taken_ != before; });
    if (taken_ == before && there()) return true;
  }
}

// Before it may block in a task, a thread sees to it that another one waits for the next.
void CompletionPool::work() {
  pthread_setname_np(pthread_self(), "unisono torch");
  Lock lock(mutex_);
  while (await_task(lock)) {
    Task task = std::move(queue_.front());
    queue_.pop_front();
    ++taken_;
    --idle_;
    if (idle_ == 0) add_thread();
    lock.unlock();
    task();
    task = nullptr;  // what it held is dropped here, where it may take the interpreter's lock
    lock.lock();
    ++idle_;
    if (queue_.empty() && idle_ == threads_) drained_.notify_all();
  }
  --idle_;
  --threads_;
}

bool CompletionPool::drained_within(std::chrono::milliseconds patience) {
  Lock lock(mutex_);
  return drained_.wait_for(lock, patience, [this] { return queue_.empty() && idle_ == threads_; });
}

void CompletionPool::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
}

int CompletionPool::threads() const {
  std::lock_guard lock(mutex_);
  return threads_;
}

}  // namespace unisono::torch_backend
