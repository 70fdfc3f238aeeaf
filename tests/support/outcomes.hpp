// How calls ended on every rank, written by the ranks into memory that all processes of a test share, so that the test can
// compare what they say.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

#include "base/clock.hpp"
#include "unisono/status.hpp"

namespace unisono::testing {

// An array of zeroes that children forked later see too.
template <typename T>
class SharedArray {
 public:
  static_assert(std::is_trivially_destructible_v<T>);
  explicit SharedArray(size_t count) : count_(count) {
    void* memory = mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    first_ = static_cast<T*>(memory);
  }
  SharedArray(SharedArray&& other) noexcept : count_(other.count_), first_(std::exchange(other.first_, nullptr)) {}
  ~SharedArray() {
    if (first_) munmap(first_, count_ * sizeof(T));
  }
  T& operator[](int index) const { return first_[index]; }

 private:
  size_t count_;
  T* first_;
};

struct Outcome {
  ErrorCode code;  // ok when it succeeded, or was never made
  int peer;
  int64_t entered_ns, ended_ns;
  char message[1500];

  bool was_made() const { return ended_ns != 0; }
  std::string text() const { return std::string(error_name(code)) + ": " + message; }
  double took_s() const { return static_cast<double>(ended_ns - entered_ns) * 1e-9; }
};

class Outcomes {
 public:
  explicit Outcomes(int ranks, int rounds = 1) : ranks_(ranks), rounds_(rounds), all_(static_cast<size_t>(ranks * rounds)) {}

  int ranks() const { return ranks_; }
  int rounds() const { return rounds_; }
  Outcome& of(int rank, int round = 0) const { return all_[round * ranks_ + rank]; }

  template <typename CallFunction>
  const Outcome& note(int rank, int round, CallFunction call) const {
    Outcome& outcome = of(rank, round);
    outcome.code = ErrorCode::ok;
    std::atomic_ref(outcome.entered_ns).store(now_ns(), std::memory_order_release);  // others may wait for it: has_entered()
    try {
      call();
    } catch (const Error& error) {
      outcome.code = error.code();
      outcome.peer = error.peer();
      std::strncpy(outcome.message, error.status().message().c_str(), sizeof(outcome.message) - 1);
    }
    outcome.ended_ns = now_ns();
    return outcome;
  }
  template <typename CallFunction>
  const Outcome& note(int rank, CallFunction call) const {
    return note(rank, 0, call);
  }

  bool has_entered(int rank) const { return std::atomic_ref(of(rank, 0).entered_ns).load(std::memory_order_acquire) != 0; }

  // From when the last rank came into the call until the last one was out of it.
  double took_s(int round = 0) const {
    int64_t entered = 0, ended = 0;
    for (int rank = 0; rank < ranks_; ++rank) {
      entered = std::max(entered, of(rank, round).entered_ns);
      ended = std::max(ended, of(rank, round).ended_ns);
    }
    return static_cast<double>(ended - entered) * 1e-9;
  }

 private:
  int ranks_, rounds_;
  SharedArray<Outcome> all_;
};

}  // namespace unisono::testing
