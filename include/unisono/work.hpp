// The caller's promise: what an asynchronous call returns. Thread-safe, and safe to drop: the call goes on. What the library
// made itself (the results of comm_func) lives until the call is over; memory that a TensorView borrows is the caller's, and
// must live as long.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "unisono/status.hpp"

#pragma GCC visibility push(default)
namespace unisono {

// torch.distributed's shape.
class Work {
 public:
  virtual ~Work() = default;

  // Blocks until the call is over; true, or throws the call's error. A timeout in seconds that expires throws
  // TimeoutError and leaves the call running: it may be waited for again.
  virtual bool wait(std::optional<double> timeout_s = std::nullopt) = 0;
  virtual bool is_completed() const = 0;
  virtual bool is_success() const = 0;  // completed without an error
  virtual Status exception() const = 0; // ok() while running or after success
  // Calls `function` once, when the call is over: in this thread where it is over already, otherwise in whichever thread ends
  // it, which may be one of the library's. It must not block, throw or call the library, wait() included: it hands on the
  // news. A Work takes one such function; StateError the second time.
  virtual void on_completion(std::function<void()> function) = 0;
  virtual int source_rank() const { return -1; }  // of a receive that is over: who sent it, as a rank of the world
};
using WorkPtr = std::shared_ptr<Work>;

// MindSpore's shape: wait() returns nothing. The rest is ours.
class CommHandle {
 public:
  explicit CommHandle(WorkPtr work) : work_(std::move(work)) {}
  void wait(std::optional<double> timeout_s = std::nullopt) { work_->wait(timeout_s); }
  bool is_completed() const { return work_->is_completed(); }
  Status exception() const { return work_->exception(); }
  void on_completion(std::function<void()> function) { work_->on_completion(std::move(function)); }

 private:
  WorkPtr work_;
};
using CommHandlePtr = std::shared_ptr<CommHandle>;

}  // namespace unisono
#pragma GCC visibility pop
