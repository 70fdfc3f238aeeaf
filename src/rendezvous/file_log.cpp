// Locking, reading and writing the log; see file_log.hpp. Next: file_store.cpp.
#include "rendezvous/file_log.hpp"

#include <fmt/core.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/check.hpp"
#include "base/hash.hpp"
#include "base/interrupt.hpp"
#include "rendezvous/host.hpp"

namespace unisono {
namespace {

constexpr uint32_t format_version = 1;

struct FileHead {
  char magic[8] = {'u', 'n', 'i', 's', 't', 'o', 'r', 'e'};
  uint32_t version = format_version;
  uint32_t zero = 0;
  uint64_t identity = 0;
  uint64_t hash = 0;  // of all before it
};
static_assert(sizeof(FileHead) == 32);
constexpr int64_t head_bytes = sizeof(FileHead);

// The first bytes of a frame have a hash of their own, so that a length is believed only where it is one: a frame that ends
// behind the end of the file was then cut off while it was written, and any other fault is a damaged file.
struct FrameHead {
  uint64_t payload_bytes = 0;
  uint64_t payload_hash = 0;
  uint64_t hash = 0;  // of all before it, of the place in the file, and of which file
};
static_assert(sizeof(FrameHead) == 24);

struct EditHead {
  uint32_t kind = 0;
  uint32_t key_bytes = 0;
  uint64_t value_bytes = 0;
};
static_assert(sizeof(EditHead) == 16);

uint64_t hash_of(const FileHead& head) { return hash_bytes(&head, offsetof(FileHead, hash)); }

uint64_t hash_of(const FrameHead& head, uint64_t identity, int64_t position) {
  return hash_bytes(&head, offsetof(FrameHead, hash), hash_combine(identity, static_cast<uint64_t>(position)));
}

template <typename Head>
std::string_view bytes_of(const Head& head) {
  return {reinterpret_cast<const char*>(&head), sizeof(head)};
}

int64_t size_of(const FileVisit& visit) {
  struct stat about = {};
  return fstat(visit.number(), &about) == 0 ? about.st_size : -1;
}

// So many processes are never counted, and one more or less of them is still a number.
bool is_count_of_users(const StoreEdit& edit) {
  constexpr int64_t most = int64_t{1} << 48;
  StoreUsers users;
  if (edit.value.size() != sizeof(users)) return false;
  std::memcpy(&users, edit.value.data(), sizeof(users));
  return -most <= users.attached && users.attached <= most && -most <= users.finished && users.finished <= most;
}

// It was removed between our opening it and our locking it.
bool is_removed(const FileVisit& visit) {
  struct stat about = {};
  return fstat(visit.number(), &about) == 0 && about.st_nlink == 0;
}

Status was_removed(const std::string& path) {
  return {ErrorCode::store_lost, fmt::format("{}: the file was removed while this process used it", path)};
}

}  // namespace

FileVisit::~FileVisit() {
  if (file_) flock(file_.number(), LOCK_UN);
}

Status FileLog::corrupted(const std::string& what) const {
  return {ErrorCode::corruption, fmt::format("{}: at byte {} {}; the file is damaged: end its users and remove it", path_,
                                             position_, what)};
}

// Waits by asking again, for flock() itself knows no deadline and a stopped holder would stop us, too.
Result<FileVisit> FileLog::open_locked(FileLock lock, Deadline deadline, IfAbsent if_absent) const {
  auto file = open_own_file(path_, if_absent);
  if (!file.ok()) return file.status();
  InterruptWatch interrupts;
  for (int attempt = 0; flock(file->number(), (lock == FileLock::shared ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0; ++attempt) {
    if (errno != EWOULDBLOCK && errno != EINTR) return file_lost(path_, "locking it");
    if (interrupts.tripped()) return Status(ErrorCode::revoked, fmt::format("{}: interrupted while waiting to lock the file", path_));
    if (deadline.passed())
      return Status(ErrorCode::timeout, fmt::format("{}: another process keeps the file locked; is it stopped?", path_));
    rest(attempt);
  }
  return FileVisit(std::move(*file));
}

Status FileLog::read(const FileVisit& visit, int64_t at, std::span<char> bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = pread(visit.number(), bytes.data(), bytes.size(), at);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return file_lost(path_, "reading it");
    if (count == 0) return {ErrorCode::store_lost, fmt::format("{}: the file became shorter while it was read", path_)};
    bytes = bytes.subspan(static_cast<size_t>(count));
    at += count;
  }
  return Status::success();
}

Status FileLog::write(const FileVisit& visit, int64_t at, std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = pwrite(visit.number(), bytes.data(), bytes.size(), at);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return file_lost(path_, "writing it");
    bytes.remove_prefix(static_cast<size_t>(count));
    at += count;
  }
  return Status::success();
}

// The file is empty, or its maker died in the middle of these bytes.
Status FileLog::write_head(const FileVisit& visit) {
  char there[sizeof(FileHead)];
  const int64_t size = size_of(visit);
  RETURN_IF_ERROR(read(visit, 0, std::span(there, static_cast<size_t>(size))));
  if (std::memcmp(there, FileHead{}.magic, std::min(static_cast<size_t>(size), sizeof(FileHead::magic))) != 0)
    return {ErrorCode::argument, fmt::format("{} is not a file of FileStore; name another", path_)};
  FileHead head;
  while (head.identity == 0)
    if (getrandom(&head.identity, sizeof(head.identity), 0) < 0) return file_lost(path_, "drawing a random number for it");
  head.hash = hash_of(head);
  if (fchmod(visit.number(), 0600) != 0) return file_lost(path_, "setting its mode");
  return write(visit, 0, bytes_of(head));
}

Status FileLog::read_head(const FileVisit& visit) {
  struct stat about = {};
  if (fstat(visit.number(), &about) != 0) return file_lost(path_, "looking at it");
  if (about.st_size < head_bytes) return {ErrorCode::store_lost, fmt::format("{}: somebody else has emptied the file", path_)};
  FileHead head;
  RETURN_IF_ERROR(read(visit, 0, {reinterpret_cast<char*>(&head), sizeof(head)}));
  if (std::memcmp(head.magic, FileHead{}.magic, sizeof(head.magic)) != 0)
    return {ErrorCode::argument, fmt::format("{} is not a file of FileStore; name another", path_)};
  if (head.version != format_version)
    return {ErrorCode::version, fmt::format("{} is of format {}, and this library reads format {}; use one version of the "
                                            "library", path_, head.version, format_version)};
  if (head.hash != hash_of(head)) return corrupted("the head is not what was written");
  if (about.st_mode & 077)
    return {ErrorCode::auth, fmt::format("{} is open to others (mode {:o}); `chmod 600 {}` if you trust what is in it", path_,
                                         about.st_mode & 0777u, path_)};
  if (identity_ == 0) {
    identity_ = head.identity;
    position_ = head_bytes;
  }
  device_ = about.st_dev;
  inode_ = about.st_ino;
  if (head.identity == identity_) return Status::success();
  return {ErrorCode::store_lost, fmt::format("{}: another file has taken the place of the one that this process used", path_)};
}

Status FileLog::read_edits(std::string_view payload) {
  while (!payload.empty()) {
    EditHead head;
    if (payload.size() < sizeof(head)) return corrupted("an edit is cut off");
    std::memcpy(&head, payload.data(), sizeof(head));
    payload.remove_prefix(sizeof(head));
    if (head.key_bytes > payload.size() || head.value_bytes > payload.size() - head.key_bytes)
      return corrupted("an edit is longer than what holds it");
    StoreEdit edit{static_cast<StoreEdit::Kind>(head.kind), std::string(payload.substr(0, head.key_bytes)),
                   std::string(payload.substr(head.key_bytes, head.value_bytes))};
    payload.remove_prefix(head.key_bytes + head.value_bytes);
    if (head.kind < static_cast<uint32_t>(StoreEdit::Kind::set) || head.kind > static_cast<uint32_t>(StoreEdit::Kind::users) ||
        (edit.kind == StoreEdit::Kind::users && !is_count_of_users(edit)))
      return corrupted("an edit is of no kind there is");
    enact(edit, contents_);
  }
  return Status::success();
}

Status FileLog::read_frame(const FileVisit& visit, int64_t size, bool& is_torn) {
  const int64_t left = size - position_ - static_cast<int64_t>(sizeof(FrameHead));
  is_torn = left < 0;
  if (is_torn) return Status::success();
  FrameHead head;
  RETURN_IF_ERROR(read(visit, position_, {reinterpret_cast<char*>(&head), sizeof(head)}));
  if (head.hash != hash_of(head, identity_, position_)) return corrupted("a length is not what was written");
  is_torn = head.payload_bytes > static_cast<uint64_t>(left);
  if (is_torn) return Status::success();
  std::string payload(head.payload_bytes, 0);
  RETURN_IF_ERROR(read(visit, position_ + static_cast<int64_t>(sizeof(head)), payload));
  if (head.payload_hash != hash_text(payload)) return corrupted("a value is not what was written");
  RETURN_IF_ERROR(read_edits(payload));
  position_ += static_cast<int64_t>(sizeof(head) + payload.size());
  furthest_ = std::max(furthest_, position_);
  return Status::success();
}

// Up to the end, or up to a frame whose writer died in the middle of it.
Status FileLog::read_news(const FileVisit& visit) {
  const int64_t size = size_of(visit);
  if (size < furthest_)
    return {ErrorCode::store_lost, fmt::format("{}: the file became shorter: {} bytes of it were read, {} are left", path_,
                                               furthest_, size)};
  for (bool is_torn = false; position_ < size && !is_torn;) RETURN_IF_ERROR(read_frame(visit, size, is_torn));
  return Status::success();
}

void FileLog::forget() {
  contents_ = {};
  position_ = head_bytes;
}

Result<FileVisit> FileLog::visit(FileLock lock, Deadline deadline) {
  auto visit = open_locked(lock, deadline, IfAbsent::fail);
  if (!visit.ok()) return visit.status();
  if (is_removed(*visit)) return was_removed(path_);
  Status status = read_head(*visit);
  if (status.ok()) status = read_news(*visit);
  if (status.ok()) return visit;
  forget();
  return status;
}

// What a dead writer left behind the end goes first, or its rest would stand behind a shorter frame of ours.
Status FileLog::append(const FileVisit& visit, std::span<const StoreEdit> edits) {
  if (edits.empty()) return Status::success();
  std::string frame(sizeof(FrameHead), 0);
  for (const StoreEdit& edit : edits) {
    if (edit.key.size() > UINT32_MAX) {
      forget();
      return {ErrorCode::argument, fmt::format("a key of {} bytes is longer than 4 GiB", edit.key.size())};
    }
    frame += bytes_of(EditHead{static_cast<uint32_t>(edit.kind), static_cast<uint32_t>(edit.key.size()), edit.value.size()});
    frame += edit.key;
    frame += edit.value;
  }
  const std::string_view payload = std::string_view(frame).substr(sizeof(FrameHead));
  FrameHead head{payload.size(), hash_text(payload), 0};
  head.hash = hash_of(head, identity_, position_);
  std::memcpy(frame.data(), &head, sizeof(head));
  Status status = Status::success();
  if (size_of(visit) != position_ && ftruncate(visit.number(), position_) != 0)
    status = file_lost(path_, "cutting off an unfinished end");
  if (status.ok()) status = write(visit, position_, frame);
  if (status.ok()) {
    position_ += static_cast<int64_t>(frame.size());
    furthest_ = position_;
    return status;
  }
  static_cast<void>(!ftruncate(visit.number(), position_));  // where even this fails, readers pass over the unfinished end
  forget();
  return status;
}

bool FileLog::seems_unchanged() const {
  struct stat about = {};
  return stat(path_.c_str(), &about) == 0 && about.st_dev == device_ && about.st_ino == inode_ && about.st_size == position_;
}

Status FileLog::count_user(const FileVisit& visit, StoreUsers users) {
  const StoreEdit edit{StoreEdit::Kind::users, {}, std::string(bytes_of(users))};
  enact(edit, contents_);
  return append(visit, {&edit, 1});
}

// Whoever let go of it last may remove the file just before we have the lock; then we make it anew.
Status FileLog::attach(Deadline deadline) {
  for (;;) {
    auto visit = open_locked(FileLock::exclusive, deadline, IfAbsent::make);
    if (!visit.ok()) return visit.status();
    if (is_removed(*visit)) continue;
    if (size_of(*visit) < head_bytes) RETURN_IF_ERROR(write_head(*visit));
    RETURN_IF_ERROR(read_head(*visit));
    RETURN_IF_ERROR(read_news(*visit));
    RETURN_IF_ERROR(count_user(*visit, {contents_.users.attached + 1, contents_.users.finished}));
    owner_ = getpid();
    return Status::success();
  }
}

Status FileLog::detach(int world_size, Deadline deadline) {
  if (owner_ != getpid()) return Status::success();
  auto there = visit(FileLock::exclusive, deadline);
  if (!there.ok()) return there.status();
  const StoreUsers users{contents_.users.attached - 1, contents_.users.finished + 1};
  if (world_size < 0 || users.attached > 0 || users.finished < world_size) return count_user(*there, users);
  return unlink(path_.c_str()) == 0 ? Status::success() : file_lost(path_, "removing it");
}

}  // namespace unisono
