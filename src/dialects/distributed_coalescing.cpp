// The torch.distributed dialect: collecting calls and making them together. The calls themselves: distributed_coalesced.cpp.
#include "unisono/coalescing.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/clock.hpp"

namespace unisono::distributed {

Coalescing::Coalescing(GroupHandle group, const CoalescingOptions& options)
    : group_(std::move(group)), options_(options), exceptions_(std::uncaught_exceptions()) {}

Coalescing::~Coalescing() noexcept(false) {
  if (!ended_ && std::uncaught_exceptions() == exceptions_) end();
}

Coalescing::Collected& Coalescing::collected(Collective kind, DType dtype, ReduceOp op) {
  if (ended_) throw StateError(Status(ErrorCode::state, "this Coalescing has ended: make a new one to collect more calls"));
  for (Collected& call : calls_)
    if (call.kind == kind && call.dtype == dtype && call.op == op) return call;
  return calls_.emplace_back(Collected{kind, dtype, op, {}, {}});
}

void Coalescing::all_reduce(TensorView tensor, ReduceOp op) {
  collected(Collective::all_reduce, tensor.dtype, op).outputs.push_back(tensor);
}

void Coalescing::all_gather_into_tensor(TensorView output, TensorView input) {
  Collected& call = collected(Collective::all_gather, input.dtype, ReduceOp::sum);
  call.outputs.push_back(output);
  call.inputs.push_back(input);
}

void Coalescing::reduce_scatter_tensor(TensorView output, TensorView input, ReduceOp op) {
  Collected& call = collected(Collective::reduce_scatter, output.dtype, op);
  call.outputs.push_back(output);
  call.inputs.push_back(input);
}

WorkPtr Coalescing::make(const Collected& call) const {
  const ReduceOptions reducing{call.op, group_, options_.async_op, options_.timeout_s};
  if (call.kind == Collective::all_reduce) return all_reduce_coalesced(call.outputs, reducing);
  if (call.kind == Collective::reduce_scatter) return reduce_scatter_tensor_coalesced(call.outputs, call.inputs, reducing);
  return all_gather_into_tensor_coalesced(call.outputs, call.inputs, {group_, options_.async_op, options_.timeout_s});
}

void Coalescing::end() {
  if (std::exchange(ended_, true)) throw StateError(Status(ErrorCode::state, "this Coalescing has ended already"));
  std::exception_ptr first;
  for (const Collected& call : calls_) {
    try {
      if (WorkPtr work = make(call)) works_.push_back(std::move(work));
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  calls_.clear();
  if (first) std::rethrow_exception(first);
}

bool Coalescing::wait(std::optional<double> timeout_s) {
  if (!ended_) end();
  const Deadline deadline = timeout_s ? Deadline::in_seconds(*timeout_s) : Deadline{};
  std::exception_ptr first;
  for (const WorkPtr& work : works_) {
    try {
      work->wait(timeout_s ? std::optional(std::max(0.0, static_cast<double>(deadline.remaining_ns()) * 1e-9)) : std::nullopt);
    } catch (const Error&) {
      if (!work->is_completed()) throw;  // only the wait is over
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
  return true;
}

bool Coalescing::is_completed() const {
  if (!ended_) return false;
  for (const WorkPtr& work : works_)
    if (!work->is_completed()) return false;
  return true;
}

}  // namespace unisono::distributed
