// The first words of connections that were let past them, so that the same words said again are known for a recording. They prove the secret
// once, and their random numbers are fresh each time: who has only listened can say nothing else, and is sent away at once instead of taking
// a place among those whose hands are being shaken.
//
// Thread-safe. Keeps the last so many, which is as long as an answer to any of them could be awaited.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <set>
#include <vector>

namespace unisono {

class HelloLog {
 public:
  using Random = std::array<unsigned char, 32>;
  static constexpr size_t most = 4096;

  bool has(const Random& random) const {
    std::lock_guard lock(mutex_);
    return known_.contains(random);
  }

  void note(const Random& random) {
    std::lock_guard lock(mutex_);
    if (!known_.insert(random).second) return;
    if (order_.size() < most) return order_.push_back(random);
    known_.erase(order_[next_]);
    order_[next_] = random;
    next_ = (next_ + 1) % most;
  }

 private:
  mutable std::mutex mutex_;
  std::set<Random> known_;
  std::vector<Random> order_;
  size_t next_ = 0;  // the oldest, once there are as many as there may be
};

}  // namespace unisono
