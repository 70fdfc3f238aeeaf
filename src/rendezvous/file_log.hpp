// The file under a FileStore: a log that only grows, read and written under a lock. The format is in docs/stores.md.
//
// The lock is flock()'s. It belongs to the open file and not to the process, so that closing another descriptor of the same
// file does not drop it, as fcntl()'s first kind would; the kernel drops it when its holder dies; and of the two that are so,
// it needs no range, which a log as a whole does not have. Whoever visits opens the file anew: a forked child then has a lock
// of its own, and a file that was removed or replaced is noticed.
#pragma once

#include <sys/types.h>

#include <mutex>
#include <span>
#include <string>

#include "base/clock.hpp"
#include "base/descriptor.hpp"
#include "rendezvous/own_file.hpp"
#include "rendezvous/store_contents.hpp"

namespace unisono {

enum class FileLock { shared, exclusive };

// The file, open and locked until this goes; a resource.
class FileVisit {
 public:
  explicit FileVisit(Descriptor file) : file_(std::move(file)) {}
  FileVisit(FileVisit&&) = default;
  ~FileVisit();  // lets go of the lock by name: a child that was forked meanwhile may have a copy of the descriptor
  int number() const { return file_.number(); }

 private:
  Descriptor file_;
};

// Not for several threads at once: they take `mutex` first.
class FileLog {
 public:
  explicit FileLog(std::string path) : path_(std::move(path)) {}

  // The first visit: makes the file where there is none, and counts a user.
  Status attach(Deadline deadline);
  // The last: counts the user off; removes the file when nobody holds it and `world_size` users have gone (-1: never).
  Status detach(int world_size, Deadline deadline);
  // Opens and locks the file and brings `contents` up to date. TimeoutError: somebody else keeps the lock.
  Result<FileVisit> visit(FileLock lock, Deadline deadline);
  // Writes the edits as one: whoever reads finds all of them or none. `contents` has them already.
  Status append(const FileVisit& visit, std::span<const StoreEdit> edits);
  // Whether a visit would find nothing new, by a look that takes no lock. May be wrong where the file was replaced by its like.
  bool seems_unchanged() const;
  // Reads everything again at the next visit.
  void forget();

  const std::string& path() const { return path_; }
  const StoreContents& contents() const { return contents_; }
  StoreContents& contents() { return contents_; }

  std::mutex mutex;

 private:
  Result<FileVisit> open_locked(FileLock lock, Deadline deadline, IfAbsent if_absent) const;
  Status write_head(const FileVisit& visit);
  Status read_head(const FileVisit& visit);
  Status read_news(const FileVisit& visit);
  Status read_frame(const FileVisit& visit, int64_t size, bool& is_torn);
  Status read_edits(std::string_view payload);
  Status read(const FileVisit& visit, int64_t at, std::span<char> bytes) const;
  Status write(const FileVisit& visit, int64_t at, std::string_view bytes) const;
  Status count_user(const FileVisit& visit, StoreUsers users);
  Status corrupted(const std::string& what) const;

  std::string path_;
  StoreContents contents_;
  uint64_t identity_ = 0;  // random, from the head: tells the file from another that has its name and inode; 0 before attach()
  int64_t furthest_ = 0;   // up to where anything was ever read or written: the file is never shorter again
  int64_t position_ = 0;   // up to where `contents` has read
  dev_t device_ = 0;
  ino_t inode_ = 0;
  pid_t owner_ = -1;       // who attached: a forked child does not detach
};

}  // namespace unisono
