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

class Membership {
 public:
  // Throws unisono::Error, StateError where the World that is there is another one.
  static std::shared_ptr<Membership> for_group(const GroupRequest& request);
  Membership(std::vector<int64_t> ranks, uint64_t joined) : ranks_(std::move(ranks)), joined_(joined) {}
  ~Membership();
  Membership(const Membership&) = delete;

  // The world's ranks of these members; ArgumentError where one is not in the World.
  std::vector<int> world_ranks(const GroupRequest& request) const;

 private:
  const std::vector<int64_t> ranks_;  // torch's global ranks by the World's; empty: they are the same
  const uint64_t joined_;             // which joining of ours it was; 0: somebody else has joined
};

}  // namespace unisono::torch_backend
