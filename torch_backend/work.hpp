// What torch gets back for a call: finished already, under way, or several of those as one.
//
// Who writes: of a PostedWork the thread that ends a call counts remaining_ down, and the last one decides who tells of it;
// whoever is first among waiters and the completion pool settles it and moves state_; future_ and told_ are under mutex_.
// Order: counting down is acquire and release, so the last one sees what the others' calls have written; state_ is stored with
// release after the results are in place and loaded with acquire before they are used. Nothing that could take the interpreter's
// lock is done under mutex_.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

#include "torch_backend/completion_pool.hpp"
#include "torch_backend/ledger.hpp"
#include "torch_backend/loan.hpp"
#include "unisono/work.hpp"

namespace unisono::torch_backend {

using TorchWork = c10::intrusive_ptr<c10d::Work>;

// All that is to be known of a call but what it does.
struct Deed {
  c10d::OpType kind;
  const char* title;  // what a profiler calls it
  bool async_op = true;
  Loan loan = {};
  std::vector<at::Tensor> outputs = {};
  uint64_t number = 0;
  std::chrono::steady_clock::time_point started = {};
};

// Of a call that is over, successfully: others have thrown.
class FinishedWork final : public c10d::Work {
 public:
  explicit FinishedWork(Deed deed);

  bool isCompleted() override { return true; }
  bool isSuccess() const override { return true; }
  std::exception_ptr exception() const override { return nullptr; }
  bool wait(std::chrono::milliseconds) override { return true; }
  void synchronize() override {}
  std::vector<at::Tensor> result() override { return outputs_; }
  uint64_t getSequencenumber() const override { return number_; }
  float getDuration() const override { return duration_ms_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  std::vector<at::Tensor> outputs_;
  uint64_t number_;
  float duration_ms_;
};

// Of calls that the library was asked to make. Holds their tensors, and itself until all of them are over.
class PostedWork final : public c10d::Work {
 public:
  static TorchWork watch(Deed deed, std::vector<WorkPtr> works, std::shared_ptr<Ledger> ledger);
  PostedWork(Deed deed, std::vector<WorkPtr> works, std::shared_ptr<Ledger> ledger);

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  bool wait(std::chrono::milliseconds timeout) override;
  void synchronize() override {}
  int sourceRank() const override;
  std::vector<at::Tensor> result() override { return deed_.outputs; }
  uint64_t getSequencenumber() const override { return deed_.number; }
  float getDuration() const override;  // from the call to the results; an error before they are there
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  enum : uint32_t { running, settling, settled };

  // A thread that posts or waits for a Work, and so may end its calls itself: it then has no need of the pool.
  class Attending;

  void ended();     // by the thread that ends the last of the calls
  void settle();    // once all calls are over: the results go where they belong
  void tell();      // by the completion pool: everybody who wants to know
  bool nobody_listens();
  void complete(const c10::intrusive_ptr<c10::ivalue::Future>& future) const;
  Status first_error() const;
  bool is_forked() const { return &CompletionPool::instance() != pool_; }  // whether this is a child of the process that called
  bool is_collective() const { return !c10d::isP2POp(deed_.kind); }

  Deed deed_;
  std::vector<WorkPtr> works_;
  std::shared_ptr<Ledger> ledger_;
  CompletionPool* const pool_;
  std::atomic<int> remaining_;                 // calls that are not over
  c10::intrusive_ptr<PostedWork> itself_;      // until then
  std::atomic<uint32_t> state_{running};
  Status status_;
  std::chrono::steady_clock::time_point settled_at_ = {};
  std::mutex mutex_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  bool told_ = false;
};

// What was made between startCoalescing() and endCoalescing(). Results are asked of each: this one has none, as with NCCL.
class BatchWork final : public c10d::Work {
 public:
  explicit BatchWork(std::vector<TorchWork> works);

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  bool wait(std::chrono::milliseconds timeout) override;
  void synchronize() override {}
  std::vector<at::Tensor> result() override { return {}; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  std::vector<TorchWork> works_;
};

}  // namespace unisono::torch_backend
