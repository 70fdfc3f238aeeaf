// What a backend and its works know of each other: how many are under way, and whom to tell when one is over.
//
// Who writes: everything is under mutex_.
#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace unisono::torch_backend {

class Ledger {
 public:
  using Hook = std::function<void(std::shared_ptr<c10d::WorkInfo>)>;

  explicit Ledger(std::vector<int> ranks) : ranks_(std::move(ranks)) {}

  int group_rank(int world_rank) const;  // -1: nobody of the group

  void begin();
  void end();
  bool has_pending() const;
  void wait_for_all();  // until none is under way, their hooks included

  void set_hook(Hook hook);
  bool has_hook() const;
  void call_hook(const c10d::WorkInfo& info) const;  // in the thread that calls

 private:
  const std::vector<int> ranks_;  // of the world, by group rank
  mutable std::mutex mutex_;
  std::condition_variable none_pending_;
  int pending_ = 0;
  std::shared_ptr<const Hook> hook_;
};

}  // namespace unisono::torch_backend
