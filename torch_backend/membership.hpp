// The World that torch's groups of this process live in. The first group joins it through torch's store, or finds one that
// somebody has joined already; the last one leaves it if it was joined here. A group of torch's is always a group of its own in
// it, never the World's own, so what happens to it happens to no other user of the World.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <memory>
#include <string>
#include <vector>

#include "unisono/distributed.hpp"

namespace unisono::torch_backend {

// What torch says of a group that it wants made.
struct GroupRequest {
  c10::intrusive_ptr<c10d::Store> store = {};
  int group_rank = 0;
  int group_size = 1;
  std::vector<int64_t> ranks = {};  // torch's global ranks by group rank; none: all of them, the default group
  std::string name = {};
  double timeout_s = 0;
  std::vector<int> members = {};    // instead of ranks: the World's
};

// A group's stay in the World. How many there are is counted under the lock that joining and leaving take, so that a group that
// is made while the last one goes finds the World either there, to stay, or left.
class Membership {
 public:
  // Throws unisono::Error, StateError where the World that is there is another one.
  static std::unique_ptr<Membership> for_group(const GroupRequest& request);
  ~Membership();
  Membership(const Membership&) = delete;

  // The world's ranks of these members; ArgumentError where one is not in the World.
  std::vector<int> world_ranks(const GroupRequest& request) const;

 private:
  friend struct Current;
  // What the stays of one World have in common; the count is under the lock.
  struct Joining {
    std::vector<int64_t> ranks = {};  // torch's global ranks by the World's; empty: they are the same
    bool is_ours = false;             // joined here, and so left here; otherwise somebody else has joined
    int stays = 0;
  };

  explicit Membership(std::shared_ptr<Joining> joining) : joining_(std::move(joining)) { ++joining_->stays; }

  const std::shared_ptr<Joining> joining_;
};

}  // namespace unisono::torch_backend
