// Works and their futures; see work.hpp. Next: completion_pool.cpp.
#include "torch_backend/work.hpp"

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <ATen/record_function.h>

#include <cxxabi.h>

#include <algorithm>

#include "torch_backend/completion_pool.hpp"
#include "torch_backend/errors.hpp"
#include "torch_backend/versions.hpp"

namespace unisono::torch_backend {
namespace {

using Future = c10::ivalue::Future;
using NoTensors = std::vector<at::Tensor>;

c10::intrusive_ptr<Future> new_future() { return c10::make_intrusive<Future>(c10::ListType::ofTensors()); }

float milliseconds_since(std::chrono::steady_clock::time_point start, std::chrono::steady_clock::time_point end) {
  return std::chrono::duration<float, std::milli>(end - start).count();
}

// Of a step that must not keep others from hearing that a call is over, whatever it throws.
template <typename Step>
Status outcome_of(Step step) {
  try {
    step();
    return Status::success();
  } catch (const abi::__forced_unwind&) {  // this thread is being ended, and has to be
    throw;
  } catch (const c10::Error& error) {
    return {ErrorCode::internal, error.what_without_backtrace()};
  } catch (const std::exception& error) {
    return {ErrorCode::internal, error.what()};
  } catch (...) {
    return {ErrorCode::internal, "something was thrown that is no exception"};
  }
}

Status forked_status() {
  return {ErrorCode::state, "this process was forked from the one that made the call, and will not hear of its end"};
}

const char* title_if_profiled(const Deed& deed) { return at::hasCallbacks() ? deed.title : nullptr; }

}  // namespace

FinishedWork::FinishedWork(Deed deed)
    : c10d::Work(-1, deed.kind), outputs_(std::move(deed.outputs)), number_(deed.number),
      duration_ms_(milliseconds_since(deed.started, std::chrono::steady_clock::now())) {}

c10::intrusive_ptr<Future> FinishedWork::getFuture() {
  auto future = new_future();
  future->markCompleted(c10::IValue(outputs_));
  return future;
}

PostedWork::PostedWork(Deed deed, std::vector<WorkPtr> works, std::shared_ptr<Ledger> ledger)
    : c10d::Work(-1, deed.kind, title_if_profiled(deed), deed.outputs),
      deed_(std::move(deed)),
      works_(std::move(works)),
      ledger_(std::move(ledger)),
      pool_(&CompletionPool::instance()),
      remaining_(static_cast<int>(works_.size())) {}

class PostedWork::Attending {
 public:
  explicit Attending(PostedWork& work) : before_(std::exchange(attended, this)), work_(work) {}
  ~Attending() {
    attended = before_;
    if (!ended_) return;
    auto last = std::move(work_.itself_);
    work_.settle();
    if (work_.nobody_listens())
      work_.ledger_->end();
    else
      CompletionPool::instance().push([last = std::move(last)] { last->tell(); });
  }
  Attending(const Attending&) = delete;

  // Whether this thread attends to the Work, and so sees to its end.
  static bool takes(const PostedWork& work) {
    if (!attended || &attended->work_ != &work) return false;
    attended->ended_ = true;
    return true;
  }

 private:
  static thread_local Attending* attended;

  Attending* before_;
  PostedWork& work_;
  bool ended_ = false;
};
thread_local PostedWork::Attending* PostedWork::Attending::attended = nullptr;

// A thread of the library's hands the Work on and drops nothing itself: tensors may belong to Python objects.
void PostedWork::ended() {
  if (is_collective()) ledger_->leave();
  if (!Attending::takes(*this)) CompletionPool::instance().push([last = std::move(itself_)] { last->tell(); });
}

// Nor will: whoever asks for a future later completes it.
bool PostedWork::nobody_listens() {
  if (ledger_->has_hook()) return false;
  std::lock_guard lock(mutex_);
  told_ = !future_;
  return told_;
}

TorchWork PostedWork::watch(Deed deed, std::vector<WorkPtr> works, std::shared_ptr<Ledger> ledger) {
  auto work = c10::make_intrusive<PostedWork>(std::move(deed), std::move(works), std::move(ledger));
  work->ledger_->begin();
  if (work->is_collective()) work->ledger_->enter();
  work->itself_ = work;
  Attending here(*work);  // short letters are over when they are posted
  for (const WorkPtr& each : work->works_)
    each->on_completion([posted = work.get()] {
      if (posted->remaining_.fetch_sub(1, std::memory_order_acq_rel) == 1) posted->ended();
    });
  return work;
}

Status PostedWork::first_error() const {
  for (const WorkPtr& work : works_)
    if (Status status = work->exception(); !status.ok()) return status;
  return Status::success();
}

void PostedWork::settle() {
  uint32_t expected = running;
  if (!state_.compare_exchange_strong(expected, settling, std::memory_order_acquire)) {
    while (state_.load(std::memory_order_acquire) == settling) state_.wait(settling, std::memory_order_acquire);
    return;
  }
  status_ = first_error();
  ledger_->note(status_);
  if (status_.ok()) status_ = outcome_of([this] { deed_.loan.give_back(); });
  settled_at_ = std::chrono::steady_clock::now();
  const Status recorded = outcome_of([this] {
    if (auto record = std::exchange(recordFunctionEndCallback_, nullptr)) record();
  });
  if (status_.ok()) status_ = recorded;
  state_.store(settled, std::memory_order_release);
  state_.notify_all();
}

bool PostedWork::isCompleted() {
  if (state_.load(std::memory_order_acquire) == settled) return true;
  for (const WorkPtr& work : works_)
    if (!work->is_completed()) return false;
  settle();
  return true;
}

bool PostedWork::isSuccess() const { return state_.load(std::memory_order_acquire) == settled && status_.ok(); }

std::exception_ptr PostedWork::exception() const {
  return state_.load(std::memory_order_acquire) == settled ? as_exception(status_) : nullptr;
}

bool PostedWork::wait(std::chrono::milliseconds timeout) {
  std::optional<double> timeout_s;
  if (is_forked() && state_.load(std::memory_order_acquire) != settled) throw_in_torch(forked_status());
  if (timeout > kNoTimeout) timeout_s = static_cast<double>(timeout.count()) * 1e-3;
  in_torch_words([&] {
    Attending here(*this);
    for (const WorkPtr& work : works_)
      if (!work->is_completed()) work->wait(timeout_s);
  });
  settle();
  if (!status_.ok()) throw_in_torch(status_);
  return true;
}

float PostedWork::getDuration() const {
  if (state_.load(std::memory_order_acquire) == settled) return milliseconds_since(deed_.started, settled_at_);
  throw_in_torch(Status(ErrorCode::state, "the duration of a call that is not over was asked for; wait for it first"));
}

int PostedWork::sourceRank() const { return ledger_->group_rank(works_.front()->source_rank()); }

c10::intrusive_ptr<Future> PostedWork::getFuture() {
  c10::intrusive_ptr<Future> future;
  if (is_forked() && state_.load(std::memory_order_acquire) != settled) {
    future = new_future();
    future->setError(as_exception(forked_status()));
    return future;
  }
  bool told = false;
  {
    std::lock_guard lock(mutex_);
    if (!future_) future_ = new_future();
    future = future_;
    told = std::exchange(told_, false);  // the first one to ask after the pool did completes it
  }
  if (told) complete(future);
  return future;
}

void PostedWork::complete(const c10::intrusive_ptr<Future>& future) const {
  quietly([&] {
    if (status_.ok())
      future->markCompleted(c10::IValue(deed_.outputs));
    else
      future->setError(as_exception(status_));
  });
}

void PostedWork::tell() {
  settle();
  c10::intrusive_ptr<Future> future;
  {
    std::lock_guard lock(mutex_);
    future = future_;
    told_ = !future;
  }
  if (future) complete(future);
  if (ledger_->has_hook()) {
    ledger_->call_hook(work_info(deed_.kind, deed_.number, deed_.started, settled_at_));
  }
  ledger_->end();
}

BatchWork::BatchWork(std::vector<TorchWork> works) : c10d::Work(-1, c10d::OpType::COALESCED), works_(std::move(works)) {}

bool BatchWork::isCompleted() {
  return std::all_of(works_.begin(), works_.end(), [](const TorchWork& work) { return work->isCompleted(); });
}

bool BatchWork::isSuccess() const {
  return std::all_of(works_.begin(), works_.end(), [](const TorchWork& work) { return work->isSuccess(); });
}

std::exception_ptr BatchWork::exception() const {
  for (const TorchWork& work : works_)
    if (auto exception = work->exception()) return exception;
  return nullptr;
}

bool BatchWork::wait(std::chrono::milliseconds timeout) {
  for (const TorchWork& work : works_) work->wait(timeout);
  return true;
}

// Complete when the futures of all of them are, on the pool's threads; with the first error where there is one.
c10::intrusive_ptr<Future> BatchWork::getFuture() {
  auto future = new_future();
  auto left = std::make_shared<std::atomic<size_t>>(works_.size());
  if (works_.empty()) future->markCompleted(c10::IValue(NoTensors()));
  for (const TorchWork& work : works_)
    work->getFuture()->addCallback([future, left, works = works_](Future&) {
      if (left->fetch_sub(1, std::memory_order_acq_rel) != 1) return;
      BatchWork all(works);
      if (auto exception = all.exception())
        future->setError(exception);
      else
        future->markCompleted(c10::IValue(NoTensors()));
    });
  return future;
}

}  // namespace unisono::torch_backend
