// Joining and leaving the World; see membership.hpp.
#include "torch_backend/membership.hpp"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <mutex>
#include <numeric>

#include "torch_backend/store.hpp"

namespace unisono::torch_backend {
namespace {

struct Current {
  std::mutex mutex;
  std::weak_ptr<Membership> membership;
  uint64_t joinings = 0;  // how often a membership has joined here
};

Current& current() {
  static auto* const the_current = new Current;  // outlives the backends that static objects hold
  return *the_current;
}

void require_same_world(const GroupRequest& request) {
  const int rank = distributed::get_rank(), size = distributed::get_world_size();
  if (!request.ranks.empty() || (rank == request.group_rank && size == request.group_size)) return;
  throw StateError(Status(ErrorCode::state, c10::str("this process has joined a world already, as rank ", rank, " of ", size,
                                                     ", and torch's default group would have it be rank ", request.group_rank, " of ",
                                                     request.group_size, "; leave that world first, or use the same ranks")));
}

}  // namespace

std::shared_ptr<Membership> Membership::for_group(const GroupRequest& request) {
  std::shared_ptr<Membership> found;  // let go of after the lock, which its end would take
  std::lock_guard lock(current().mutex);
  const bool is_there = distributed::is_initialized();
  found = current().membership.lock();
  if (found && is_there) return found;
  if (is_there) {
    require_same_world(request);
  } else {
    distributed::init_process_group({.rank = request.group_rank,
                                     .world_size = request.group_size,
                                     .timeout_s = request.timeout_s,
                                     .store = std::make_shared<TorchStore>(request.store)});
  }
  auto membership = is_there ? std::make_shared<Membership>(std::vector<int64_t>(), 0)
                             : std::make_shared<Membership>(request.ranks, ++current().joinings);
  current().membership = membership;
  return membership;
}

// The World that is there now may be another one, where somebody else has left the one that was joined here.
Membership::~Membership() {
  std::lock_guard lock(current().mutex);
  if (joined_ == 0 || joined_ != current().joinings) return;
  try {
    if (distributed::is_initialized()) distributed::destroy_process_group();
  } catch (const Error&) {  // somebody else has left it: as good
  }
}

std::vector<int> Membership::world_ranks(const GroupRequest& request) const {
  std::vector<int> members = request.members;
  if (!members.empty()) return members;
  if (request.ranks.empty()) {
    members.resize(static_cast<size_t>(request.group_size));
    std::iota(members.begin(), members.end(), 0);
    return members;
  }
  for (int64_t rank : request.ranks) {
    const auto found = std::find(ranks_.begin(), ranks_.end(), rank);
    const int64_t member = ranks_.empty() ? rank : found - ranks_.begin();
    if (member < 0 || member >= distributed::get_world_size())
      throw ArgumentError(Status(ErrorCode::argument,
                                 c10::str("group \"", request.name, "\": rank ", rank, " is not in the world that this process has joined, of ",
                                          distributed::get_world_size(), " ranks",
                                          ranks_.empty() ? std::string() : c10::str(": ", c10::IntArrayRef(ranks_)),
                                          "; make the default group with the backend unisono, so that all ranks are in it")));
    members.push_back(static_cast<int>(member));
  }
  return members;
}

}  // namespace unisono::torch_backend
