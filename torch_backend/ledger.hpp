// What a backend and its works know of each other: which calls are under way, whom to tell when one is over, and what has
// broken the group.
//
// Who writes: everything is under mutex_.
#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "unisono/status.hpp"

namespace unisono::torch_backend {

class Ledger {
 public:
  using Hook = std::function<void(std::shared_ptr<c10d::WorkInfo>)>;

  // A thread inside of a collective, to begin it or to see it through.
  class Presence {
   public:
    explicit Presence(Ledger& ledger) : ledger_(ledger) { ledger_.enter(); }
    ~Presence() { ledger_.leave(); }
    Presence(const Presence&) = delete;

   private:
    Ledger& ledger_;
  };

  explicit Ledger(std::vector<int> ranks) : ranks_(std::move(ranks)) {}

  int group_rank(int world_rank) const;  // -1: nobody of the group

  // What was posted, until everybody has been told of it.
  void begin();
  void end();
  // Collectives, until they are over, whoever was told: posted ones, and threads inside of one.
  void enter();
  void leave();
  bool has_pending() const;  // any of them
  // Until there are none: of the first kind, their hooks included; of the second. Both throw what a signal's handler raises.
  void wait_for_all();
  void wait_for_collectives();

  void set_hook(Hook hook);
  bool has_hook() const;
  void call_hook(const c10d::WorkInfo& info) const;  // in the thread that calls

  void note(const Status& status);  // of a call that is over; the first one that breaks the group is kept
  Status failure() const;           // that one, or ok

 private:
  void wait_for_none(const int& count);

  const std::vector<int> ranks_;  // of the world, by group rank
  mutable std::mutex mutex_;
  std::condition_variable none_;
  int pending_ = 0, collectives_ = 0;
  std::shared_ptr<const Hook> hook_;
  Status failure_;
};

}  // namespace unisono::torch_backend
