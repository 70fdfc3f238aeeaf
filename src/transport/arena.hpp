// The memory of one rank that its neighbours on the same host have mapped.
//
// An arena is one memfd, sealed against shrinking and growing, without a name: nothing is left after SIGKILL. Its
// address space is large and sparse; pages are taken by fallocate when a part is allocated (so a lack of memory is an
// error, not a signal) and punched out again when it is given back. Neighbours map it once, whole, when they join, so
// later lanes, tiles and rings need no further descriptors: an offset is enough.
//
// Who writes: each rank its own word of what it is about to take. Order: sequentially consistent, so that of two ranks that take at
// once at least one sees the other.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/descriptor.hpp"
#include "unisono/status.hpp"

namespace unisono {

// A mapping of a memfd. A process maps one memfd once, however many ranks it holds as threads, so that all of them use
// the same addresses. Neither copied nor moved.
class Mapping {
 public:
  static Result<std::shared_ptr<Mapping>> of(int descriptor);
  static std::shared_ptr<Mapping> of_nobody(int64_t bytes);  // private memory, zero, taken as it is used; throws std::bad_alloc
  Mapping(void* address, size_t bytes) : address_(static_cast<std::byte*>(address)), bytes_(bytes) {}
  ~Mapping();
  Mapping(const Mapping&) = delete;

  std::byte* data() const { return address_; }
  int64_t bytes() const { return static_cast<int64_t>(bytes_); }

 private:
  std::byte* address_;
  size_t bytes_;
};

// This rank's own arena: the allocator of its parts. Thread-safe.
class Arena {
 public:
  static Result<std::unique_ptr<Arena>> create(int64_t bytes);

  // Zeroed, page-aligned memory at the returned offset; MemoryError with the numbers when there is none.
  Result<int64_t> take(int64_t bytes, const char* what);
  void give_back(int64_t offset);
  void drop_pages(int64_t offset);      // gives the memory back, keeps the place; refill() before the next use
  Status refill(int64_t offset, const char* what);
  int64_t taken_bytes() const;
  // The words in which every rank of this machine, this one first, says how much it is about to take. Members of a group need memory
  // at the same moment, and what all of them see to be free must do for all.
  void take_beside(std::vector<std::atomic<int64_t>*> taking) { taking_ = std::move(taking); }
  void close_in_child() { descriptor_.reset(); }  // in a forked child, which has not got the memory either

  const std::shared_ptr<Mapping>& mapping() const { return mapping_; }
  int descriptor() const { return descriptor_.number(); }

 private:
  Arena(Descriptor descriptor, std::shared_ptr<Mapping> mapping);
  Status fill(int64_t offset, int64_t bytes, const char* what);

  Descriptor descriptor_;
  std::shared_ptr<Mapping> mapping_;
  std::vector<std::atomic<int64_t>*> taking_;
  mutable std::mutex mutex_;                // guards the two maps
  std::map<int64_t, int64_t> free_;         // offset → bytes, never adjacent
  std::map<int64_t, int64_t> taken_;
};

}  // namespace unisono
