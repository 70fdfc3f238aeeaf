// A store over a file; see store.hpp. The file itself is file_log.cpp's.
//
// Whoever waits looks at the size of the file, soon at first and then every 10 ms, and takes the lock only where it has
// changed. inotify would tell at once, but not on every file system, and a process may have too few of it left.
#include <fmt/core.h>

#include <exception>
#include <filesystem>

#include "base/interrupt.hpp"
#include "rendezvous/file_log.hpp"
#include "rendezvous/host.hpp"

namespace unisono::distributed {
namespace {

constexpr double patience_at_the_end_s = 10;  // of a destructor, with one who keeps the lock

std::string absolute(const std::string& path) {
  std::error_code failure;
  auto whole = std::filesystem::absolute(path, failure);  // so that a later chdir() loses nothing
  return failure ? path : whole.string();
}

Status and_also(const Status& first, const Status& second) {
  return second.ok() ? first : Status(first.code(), fmt::format("{}; {}", first.message(), second.message()));
}

}  // namespace

FileStore::FileStore(const std::string& path, int world_size)
    : log_(std::make_unique<FileLog>(absolute(path))), world_size_(world_size) {
  if (path.empty() || path.find('\0') != std::string::npos)
    throw ArgumentError(Status(ErrorCode::argument, "FileStore: the path is empty, or has a zero in it"));
  if (world_size < 1 && world_size != -1)
    throw ArgumentError(Status(ErrorCode::argument, fmt::format("FileStore: world_size is {}; it must be at least 1, "
                                                                "or -1 where it is not known", world_size)));
  throw_if_error(log_->attach(Deadline::in_seconds(timeout())));
}

// Who cannot count itself off has lost the store, which its next user is told.
FileStore::~FileStore() {
  try {
    std::lock_guard lock(log_->mutex);
    static_cast<void>(log_->detach(world_size_, Deadline::in_seconds(std::min(timeout(), patience_at_the_end_s))).ok());
  } catch (const std::exception&) {
  }
}

const std::string& FileStore::path() const { return log_->path(); }

Result<std::vector<StoreAnswer>> FileStore::perform(const std::vector<StoreRequest>& requests) {
  RETURN_IF_ERROR(outside_interrupt_check());
  std::lock_guard lock(log_->mutex);
  bool changes = false;
  for (const StoreRequest& request : requests) changes |= may_change(request);
  auto visit = log_->visit(changes ? FileLock::exclusive : FileLock::shared, Deadline::in_seconds(timeout()));
  if (!visit.ok()) return visit.status();
  std::vector<StoreAnswer> answers;
  std::vector<StoreEdit> edits;
  Status refused = Status::success();
  for (const StoreRequest& request : requests) {
    auto decision = decide(request, log_->contents());
    refused = decision.status();
    if (!refused.ok()) break;
    if (decision->edit) {
      enact(*decision->edit, log_->contents());
      edits.push_back(std::move(*decision->edit));
    }
    answers.push_back(std::move(decision->answer));
  }
  if (Status written = log_->append(*visit, edits); !written.ok()) return written;
  if (!refused.ok()) return refused;
  return answers;
}

Result<std::vector<std::string>> FileStore::await_values(const std::vector<std::string>& keys, double timeout_s) {
  RETURN_IF_ERROR(outside_interrupt_check());
  const Deadline deadline = Deadline::in_seconds(timeout_s);
  InterruptWatch interrupts;
  for (int attempt = 0;; ++attempt) {
    if (interrupts.tripped()) return interrupted_while_waiting(keys);
    {
      std::lock_guard lock(log_->mutex);
      const bool is_last = deadline.passed();
      Status status = Status::success();
      if (attempt == 0 || is_last || !log_->seems_unchanged()) {
        status = log_->visit(FileLock::shared, deadline).status();
        if (!status.ok() && (status.code() != ErrorCode::timeout || values_of(keys, log_->contents()))) return status;
      }
      // Also where the file has nothing new: another thread may have read it, or written it.
      if (auto values = values_of(keys, log_->contents())) return std::move(*values);
      if (is_last) return and_also(missing_keys(keys, log_->contents(), timeout_s), status);
    }
    rest(attempt);
  }
}

}  // namespace unisono::distributed
