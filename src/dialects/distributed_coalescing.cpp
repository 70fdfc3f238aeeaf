// The torch.distributed dialect: collecting calls and making them together. The calls themselves: distributed_coalesced.cpp.
#include "unisono/coalescing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "base/clock.hpp"
#include "group/group.hpp"

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
  return calls_.emplace_back(Collected{kind, dtype, op, {}, {}, {}});
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

// As in "call 2 of 3 (all_reduce float32 max, 40 tensors)", the calls being those that are made of what was collected.
std::string Coalescing::describe(size_t index) const {
  const Collected& call = calls_[index];
  std::string text(name_of(call.kind));
  // Numbers that name nothing have not been refused yet, or are what was.
  if (element_bytes(call.dtype) > 0) text += fmt::format(" {}", name_of(call.dtype));
  const bool is_op = static_cast<size_t>(call.op.kind) < all_reduce_kinds().size();
  if (call.kind != Collective::all_gather && is_op) text += fmt::format(" {}", name_of(call.op.kind));
  const size_t tensors = call.outputs.size();
  return fmt::format("call {} of {} ({}, {} tensor{})", index + 1, calls_.size(), text, tensors, tensors == 1 ? "" : "s");
}

void Coalescing::Failures::add(size_t index, const Status& status) {
  if (count++ > 0) return;
  first = index;
  why = status;
}

void Coalescing::throw_if_any(const Failures& failures) const {
  if (failures.count == 0) return;
  const Status& why = failures.why;
  const std::string several = fmt::format("{} of {} collected calls failed, the first was ", failures.count, calls_.size());
  const std::string which = (failures.count == 1 ? "collected " : several) + describe(failures.first);
  throw_if_error({why.code(), fmt::format("{}: {}", which, why.message()), why.peer()});
}

void Coalescing::end() {
  if (std::exchange(ended_, true)) throw StateError(Status(ErrorCode::state, "this Coalescing has ended already"));
  Failures failures;
  for (size_t index = 0; index < calls_.size(); ++index) {
    try {
      calls_[index].work = make(calls_[index]);
    } catch (...) {
      failures.add(index, thrown_status());
    }
  }
  throw_if_any(failures);
}

bool Coalescing::wait(std::optional<double> timeout_s) {
  if (!ended_) end();
  const Deadline deadline = timeout_s ? Deadline::in_seconds(*timeout_s) : Deadline{};
  Failures failures;
  for (size_t index = 0; index < calls_.size(); ++index) {
    const WorkPtr& work = calls_[index].work;
    if (!work) continue;
    try {
      work->wait(timeout_s ? std::optional(std::max(0.0, static_cast<double>(deadline.remaining_ns()) * 1e-9)) : std::nullopt);
    } catch (const Error& error) {
      if (!work->is_completed() && timeout_s && error.code() == ErrorCode::timeout)  // only the wait is over
        throw TimeoutError(Status(ErrorCode::timeout, fmt::format("wait({}) expired; collected {} is still running and may be waited "
                                                                  "for again", *timeout_s, describe(index))));
      const Status ended = work->is_completed() ? work->exception() : error.status();  // it may have ended just after the wait
      if (!ended.ok()) failures.add(index, ended);
    }
  }
  throw_if_any(failures);
  return true;
}

bool Coalescing::is_completed() const {
  if (!ended_) return false;
  for (const Collected& call : calls_)
    if (call.work && !call.work->is_completed()) return false;
  return true;
}

}  // namespace unisono::distributed
