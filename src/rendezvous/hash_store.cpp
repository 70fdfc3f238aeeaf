// A table under a lock, for threads. See store.hpp.
#include <condition_variable>
#include <mutex>

#include "base/clock.hpp"
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
  std::unique_lock lock(table_->mutex);
  for (;;) {
    if (auto values = values_of(keys, table_->contents)) return std::move(*values);
    if (deadline.passed()) return missing_keys(keys, table_->contents, timeout_s);
    if (deadline.at_ns == never_ns)
      table_->changed.wait(lock);
    else
      table_->changed.wait_for(lock, std::chrono::nanoseconds(std::max<int64_t>(deadline.remaining_ns(), 0)));
  }
}

}  // namespace unisono::distributed
