// How every call of the backend is made; see backend.hpp.
#pragma once

#include <ATen/record_function.h>

#include "torch_backend/backend.hpp"
#include "torch_backend/errors.hpp"
#include "unisono/binding.hpp"

namespace unisono::torch_backend {

// What the library throws inside of a call, in torch's types; the group's failures are kept for whoever asks later.
template <typename Function>
auto TorchBackend::in_call(Function function) {
  try {
    return function();
  } catch (const Error& error) {
    ledger_->note(error.status());
    throw_in_torch(error.status());
  }
}

// What depends on this rank's arguments alone. If they are wrong, that is this rank's call, and the others hear of it. What
// torch throws, for want of memory say, is told to them as well and thrown on as it is.
template <typename Step>
void TorchBackend::prepare(Collective kind, Step step) {
  Status why;
  std::exception_ptr of_torch;
  try {
    return step();
  } catch (const Error& error) {
    why = error.status();
  } catch (const c10::Error& error) {
    why = Status(ErrorCode::argument, error.what_without_backtrace());
    of_torch = std::current_exception();
  } catch (const std::exception& error) {
    why = Status(ErrorCode::argument, error.what());
    of_torch = std::current_exception();
  }
  number_.fetch_add(1, std::memory_order_relaxed);
  try {
    distributed::refuse(kind, why, group());
  } catch (const Error& error) {
    if (of_torch) std::rethrow_exception(of_torch);
    throw_in_torch(error.status());
  }
}

// A synchronous call runs here and now, and is finished when it returns; while calls are collected all are asynchronous.
template <typename Call>
TorchWork TorchBackend::perform(Deed deed, Call call) {
  const Ledger::Presence here(*ledger_);
  deed.number = number_.fetch_add(1, std::memory_order_relaxed) + 1;
  deed.started = std::chrono::steady_clock::now();
  deed.async_op = deed.async_op || collects();
  std::vector<WorkPtr> works;
  if (deed.async_op) {
    try {
      in_call([&] { call(true, works); });
    } catch (...) {  // of several calls those that were posted go on, and what they use has to be held
      std::erase(works, nullptr);
      if (!works.empty()) PostedWork::watch(std::move(deed), std::move(works), ledger_);
      throw;
    }
    return wrap(std::move(deed), std::move(works));
  }
  at::RecordFunction record(at::RecordScope::USER_SCOPE);
  if (record.isActive()) record.before(deed.title);
  in_call([&] { call(false, works); });
  deed.loan.give_back();
  return finished(std::move(deed));
}

// Letters have no number: only collectives count.
template <typename Post>
TorchWork TorchBackend::perform_letter(Deed deed, Post post) {
  deed.number = number_.load(std::memory_order_relaxed);
  deed.started = std::chrono::steady_clock::now();
  return wrap(std::move(deed), {in_call(post)});
}

// The only tensor of a list, as c10d hands over those of one device.
inline const at::Tensor& only(const std::vector<at::Tensor>& tensors) {
  if (tensors.size() != 1) throw ArgumentError(Status(ErrorCode::argument, c10::str("one tensor is taken here, and ", tensors.size(), " were given")));
  return tensors.front();
}
inline const std::vector<at::Tensor>& only(const std::vector<std::vector<at::Tensor>>& lists) {
  if (lists.size() != 1) throw ArgumentError(Status(ErrorCode::argument, c10::str("one list is taken here, and ", lists.size(), " were given")));
  return lists.front();
}

}  // namespace unisono::torch_backend
