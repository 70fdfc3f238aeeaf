// How every call of the backend is made; see backend.hpp.
#pragma once

#include <ATen/record_function.h>

#include "torch_backend/backend.hpp"
#include "torch_backend/errors.hpp"
#include "unisono/binding.hpp"

namespace unisono::torch_backend {

// What depends on this rank's arguments alone. If they are wrong, that is this rank's call, and the others hear of it.
template <typename Step>
void TorchBackend::prepare(Collective kind, Step step) {
  in_torch_words([&] {
    try {
      step();
    } catch (const Error& error) {
      number_.fetch_add(1, std::memory_order_relaxed);
      distributed::refuse(kind, error.status(), group());
    }
  });
}

// A synchronous call runs here and now, and is finished when it returns; while calls are collected all are asynchronous.
template <typename Call>
TorchWork TorchBackend::perform(Deed deed, Call call) {
  deed.number = number_.fetch_add(1, std::memory_order_relaxed) + 1;
  deed.started = std::chrono::steady_clock::now();
  deed.async_op = deed.async_op || collects();
  std::vector<WorkPtr> works;
  if (deed.async_op) {
    in_torch_words([&] { call(true, works); });
    return wrap(std::move(deed), std::move(works));
  }
  at::RecordFunction record(at::RecordScope::USER_SCOPE);
  if (record.isActive()) record.before(deed.title);
  in_torch_words([&] { call(false, works); });
  deed.loan.give_back();
  return finished(std::move(deed));
}

// Letters have no number: only collectives count.
template <typename Post>
TorchWork TorchBackend::perform_letter(Deed deed, Post post) {
  deed.number = number_.load(std::memory_order_relaxed);
  deed.started = std::chrono::steady_clock::now();
  return wrap(std::move(deed), {in_torch_words(post)});
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
