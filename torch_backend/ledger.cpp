// Keeping count; see ledger.hpp.
#include "torch_backend/ledger.hpp"

#include <algorithm>

#include "torch_backend/errors.hpp"

namespace unisono::torch_backend {
namespace {

constexpr std::chrono::milliseconds between_signals(100);  // as the library does

}  // namespace

int Ledger::group_rank(int world_rank) const {
  const auto found = std::find(ranks_.begin(), ranks_.end(), world_rank);
  return found == ranks_.end() ? -1 : static_cast<int>(found - ranks_.begin());
}

void Ledger::begin() {
  std::lock_guard lock(mutex_);
  ++pending_;
}

void Ledger::end() {
  std::lock_guard lock(mutex_);
  if (--pending_ == 0) none_.notify_all();
}

void Ledger::enter() {
  std::lock_guard lock(mutex_);
  ++collectives_;
}

void Ledger::leave() {
  std::lock_guard lock(mutex_);
  if (--collectives_ == 0) none_.notify_all();
}

bool Ledger::has_pending() const {
  std::lock_guard lock(mutex_);
  return pending_ != 0 || collectives_ != 0;
}

void Ledger::wait_for_none(const int& count) {
  std::unique_lock lock(mutex_);
  while (!none_.wait_for(lock, between_signals, [&] { return count == 0; })) {
    lock.unlock();
    throw_if_signalled();
    lock.lock();
  }
}

void Ledger::wait_for_all() { wait_for_none(pending_); }
void Ledger::wait_for_collectives() { wait_for_none(collectives_); }

void Ledger::set_hook(Hook hook) {
  auto kept = std::make_shared<const Hook>(std::move(hook));
  std::lock_guard lock(mutex_);
  hook_.swap(kept);
}

bool Ledger::has_hook() const {
  std::lock_guard lock(mutex_);
  return hook_ != nullptr;
}

void Ledger::call_hook(const c10d::WorkInfo& info) const {
  std::shared_ptr<const Hook> hook;
  {
    std::lock_guard lock(mutex_);
    hook = hook_;
  }
  if (hook) quietly([&] { (*hook)(std::make_shared<c10d::WorkInfo>(info)); });
}

void Ledger::note(const Status& status) {
  if (!breaks_group(status.code())) return;
  std::lock_guard lock(mutex_);
  if (failure_.ok()) failure_ = status;
}

Status Ledger::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

}  // namespace unisono::torch_backend
