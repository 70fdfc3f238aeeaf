// A table under a lock, for threads. See store.hpp.
#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "base/clock.hpp"
#include "base/interrupt.hpp"
#include "rendezvous/store_contents.hpp"

namespace unisono::distributed {

struct HashStore::Table {
  std::mutex mutex;
  std::condition_variable changed;
  StoreContents contents;
};

HashStore::HashStore() : table_(std::make_unique<Table>()) {}
HashStore::~HashStore() = default;

Result<std::vector<StoreAnswer>> HashStore::perform(const std::vector<StoreRequest>& requests) {
  std::vector<StoreAnswer> answers;
  std::lock_guard lock(table_->mutex);
  for (const StoreRequest& request : requests) {
    auto decision = decide(request, table_->contents);
    if (!decision.ok()) return decision.status();
    if (decision->edit) {
      enact(*decision->edit, table_->contents);
      table_->changed.notify_all();
    }
    answers.push_back(std::move(decision->answer));
  }
  return answers;
}

Result<std::vector<std::string>> HashStore::await_values(const std::vector<std::string>& keys, double timeout_s) {
  const Deadline deadline = Deadline::in_seconds(timeout_s);
  InterruptWatch interrupts;
  for (;;) {
    if (interrupts.tripped()) return interrupted_while_waiting(keys);
    std::unique_lock lock(table_->mutex);
    if (auto values = values_of(keys, table_->contents)) return std::move(*values);
    if (deadline.passed()) return missing_keys(keys, table_->contents, timeout_s);
    constexpr int64_t slice_ns = 100'000'000;
    table_->changed.wait_for(lock, std::chrono::nanoseconds(std::clamp<int64_t>(deadline.remaining_ns(), 0, slice_ns)));
  }
}

}  // namespace unisono::distributed
