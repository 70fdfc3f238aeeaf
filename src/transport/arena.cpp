// Making, mapping and dividing an arena. Order: see arena.hpp.
#include "transport/arena.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "base/check.hpp"
#include "base/sizes.hpp"
#include "transport/headroom.hpp"

namespace unisono {
namespace {

constexpr int64_t page_bytes = 4096;

Status failed(const char* what, int64_t bytes) {
  return {ErrorCode::resource, fmt::format("{} of {} failed: {}", what, readable_size(bytes), std::strerror(errno))};
}

// Nearly always a limit on address space, of which every rank takes an arena for each rank.
Status cannot_map(int64_t bytes) {
  const int error = errno;
  rlimit limit = {};
  const bool limited = getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return {ErrorCode::resource,
          fmt::format("mapping an arena of {} failed: {}; every rank maps an arena of every rank{}. Lower UNISONO_ARENA on all ranks{}",
                      readable_size(bytes), std::strerror(error),
                      limited ? fmt::format(", and address space is limited to {} (ulimit -v)", readable_size(static_cast<int64_t>(limit.rlim_cur)))
                              : "",
                      limited ? ", or raise the limit" : "")};
}

// Says for a while that this rank takes so much. A rank that was killed meanwhile goes on saying so, which costs its share of room.
class Taking {
 public:
  Taking(const std::vector<std::atomic<int64_t>*>& words, int64_t bytes) : words_(words), bytes_(bytes) {
    if (!words_.empty()) words_.front()->fetch_add(bytes_);
  }
  ~Taking() {
    if (!words_.empty()) words_.front()->fetch_sub(bytes_);
  }
  Taking(const Taking&) = delete;

  int64_t by_all() const {
    int64_t all = words_.empty() ? bytes_ : 0;
    for (const std::atomic<int64_t>* word : words_) all += std::clamp<int64_t>(word->load(), 0, INT64_MAX / 65536);  // others can write there
    return std::max(all, bytes_);
  }

 private:
  const std::vector<std::atomic<int64_t>*>& words_;
  int64_t bytes_;
};

// Which memfds this process has mapped already: a fact about the address space, hence one per process.
struct Mapped {
  std::mutex mutex;
  std::map<std::pair<dev_t, ino_t>, std::weak_ptr<Mapping>> by_file;
};

Mapped& mapped() {
  static Mapped the_mapped;
  return the_mapped;
}

}  // namespace

Result<std::shared_ptr<Mapping>> Mapping::of(int descriptor) {
  struct stat file = {};
  if (fstat(descriptor, &file) != 0) return failed("fstat of an arena", 0);
  constexpr int wanted_seals = F_SEAL_SHRINK | F_SEAL_GROW;
  const int seals = fcntl(descriptor, F_GET_SEALS);  // -1, and so every bit, for whatever is no memfd
  if (seals < 0 || (seals & wanted_seals) != wanted_seals)
    return Status(ErrorCode::protocol, "an arena is not sealed against shrinking");
  if (file.st_size <= 0) return Status(ErrorCode::protocol, "an arena is empty");
  std::lock_guard lock(mapped().mutex);
  std::erase_if(mapped().by_file, [](const auto& one) { return one.second.expired(); });  // of worlds that were left
  std::weak_ptr<Mapping>& entry = mapped().by_file[{file.st_dev, file.st_ino}];
  if (auto existing = entry.lock()) return existing;
  void* address = mmap(nullptr, static_cast<size_t>(file.st_size), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (address == MAP_FAILED) return cannot_map(file.st_size);
  const auto bytes = static_cast<size_t>(file.st_size);
  madvise(address, bytes, MADV_DONTFORK);  // a forked child has no business in there
  madvise(address, bytes, MADV_DONTDUMP);  // nor has a core, which would take everybody's arena in full, holes too
  auto mapping = std::make_shared<Mapping>(address, static_cast<size_t>(file.st_size));
  entry = mapping;
  return mapping;
}

std::shared_ptr<Mapping> Mapping::of_nobody(int64_t bytes) {
  void* address = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) throw std::bad_alloc();
  return std::make_shared<Mapping>(address, static_cast<size_t>(bytes));
}

Mapping::~Mapping() { munmap(address_, bytes_); }

Arena::Arena(Descriptor descriptor, std::shared_ptr<Mapping> mapping)
    : descriptor_(std::move(descriptor)), mapping_(std::move(mapping)) {
  free_.emplace(0, mapping_->bytes());
}

Result<std::unique_ptr<Arena>> Arena::create(int64_t bytes) {
  bytes = round_up(bytes, page_bytes);
  rlimit limit = {};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < static_cast<rlim_t>(bytes))
    return Status(ErrorCode::resource, fmt::format("an arena takes a file of {} (most of it empty), and files may have {} here; raise it "
                                                   "with `ulimit -f unlimited`, or lower UNISONO_ARENA", readable_size(bytes),
                                                   readable_size(static_cast<int64_t>(limit.rlim_cur))));
  Descriptor descriptor(memfd_create("unisono", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!descriptor) return failed("memfd_create", bytes);
  if (ftruncate(descriptor.number(), bytes) != 0) return failed("sizing an arena", bytes);
  if (fcntl(descriptor.number(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return failed("sealing an arena", bytes);
  auto mapping = Mapping::of(descriptor.number());
  if (!mapping.ok()) return mapping.status();
  return std::unique_ptr<Arena>(new Arena(std::move(descriptor), *mapping));
}

Result<int64_t> Arena::take(int64_t bytes, const char* what) {
  bytes = round_up(bytes, page_bytes);
  int64_t offset = -1;
  {
    std::lock_guard lock(mutex_);
    for (auto& [start, length] : free_) {
      if (length < bytes) continue;
      taken_.emplace(start, bytes);  // the only line that may throw: nothing has changed by then
      offset = start;
      const int64_t rest = length - bytes;
      auto left = free_.extract(start);
      left.key() = offset + bytes;
      left.mapped() = rest;
      if (rest > 0) free_.insert(std::move(left));
      break;
    }
  }
  if (offset < 0)
    return Status(ErrorCode::memory,
                  fmt::format("{} needs {} of the arena's {}, of which {} are taken; raise UNISONO_ARENA", what,
                              readable_size(bytes), readable_size(mapping_->bytes()), readable_size(taken_bytes())));
  if (Status filled = fill(offset, bytes, what); !filled.ok()) {
    give_back(offset);
    return filled;
  }
  return offset;
}

Status Arena::fill(int64_t offset, int64_t bytes, const char* what) {
  const Taking taking(taking_, bytes);
  RETURN_IF_ERROR(require_headroom(taking.by_all(), what));
  if (fallocate(descriptor_.number(), 0, offset, bytes) == 0) return Status::success();
  return {ErrorCode::memory, fmt::format("{} needs {}: fallocate: {}", what, readable_size(bytes), strerror(errno))};
}

Status Arena::refill(int64_t offset, const char* what) {
  int64_t bytes = 0;
  {
    std::lock_guard lock(mutex_);
    bytes = taken_.at(offset);
  }
  return fill(offset, bytes, what);
}

void Arena::drop_pages(int64_t offset) {
  std::lock_guard lock(mutex_);
  fallocate(descriptor_.number(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, taken_.at(offset));
}

// Pages go back to the system at once, so what is taken next is zero again.
void Arena::give_back(int64_t offset) {
  drop_pages(offset);
  std::lock_guard lock(mutex_);
  auto part = taken_.extract(offset);
  CHECK(!part.empty());
  auto [entry, inserted] = free_.emplace(offset, part.mapped());
  CHECK(inserted);
  if (auto next = std::next(entry); next != free_.end() && entry->first + entry->second == next->first) {
    entry->second += next->second;
    free_.erase(next);
  }
  if (entry == free_.begin()) return;
  if (auto before = std::prev(entry); before->first + before->second == entry->first) {
    before->second += entry->second;
    free_.erase(entry);
  }
}

int64_t Arena::taken_bytes() const {
  std::lock_guard lock(mutex_);
  int64_t bytes = 0;
  for (const auto& part : taken_) bytes += part.second;
  return bytes;
}

}  // namespace unisono
