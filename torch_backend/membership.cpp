// Joining and leaving the World; see membership.hpp.
#include "torch_backend/membership.hpp"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <mutex>
#include <numeric>

#include "torch_backend/of_this_process.hpp"
#include "torch_backend/store.hpp"

namespace unisono::torch_backend {

struct Current {
  std::mutex mutex;
  std::shared_ptr<Membership::Joining> joining;  // the last one
};

namespace {

Current& current() { return of_this_process<Current>(); }

// Not so in a forked child, where its parent's is to be seen and not to be used, and another one may be joined.
bool is_in_a_world() {
  if (!distributed::is_initialized()) return false;
  try {
    return distributed::get_rank() >= 0;
  } catch (const StateError&) {
    return false;
  }
}

void require_same_world(const GroupRequest& request) {
  const int rank = distributed::get_rank(), size = distributed::get_world_size();
  if (!request.ranks.empty() || (rank == request.group_rank && size == request.group_size)) return;
  throw StateError(Status(ErrorCode::state, c10::str("this process has joined a world already, as rank ", rank, " of ", size,
                                                     ", and torch's default group would have it be rank ", request.group_rank, " of ",
                                                     request.group_size, "; leave that world first, or use the same ranks")));
}

}  // namespace

std::unique_ptr<Membership> Membership::for_group(const GroupRequest& request) {
  Current& here = current();
  std::lock_guard lock(here.mutex);
  const bool is_there = is_in_a_world();
  if (!is_there || !here.joining || here.joining->stays == 0) {
    auto joining = std::make_shared<Joining>();
    if (is_there) {
      require_same_world(request);
    } else {
      distributed::init_process_group({.rank = request.group_rank,
                                       .world_size = request.group_size,
                                       .timeout_s = request.timeout_s,
                                       .store = std::make_shared<TorchStore>(request.store)});
      joining->ranks = request.ranks;
      joining->is_ours = true;
    }
    here.joining = std::move(joining);
  }
  return std::unique_ptr<Membership>(new Membership(here.joining));
}

// The World that is there now may be another one, where somebody else has left the one that was joined here, or this is a
// forked child of the process that did.
Membership::~Membership() {
  Current& here = current();
  std::lock_guard lock(here.mutex);
  if (--joining_->stays > 0 || !joining_->is_ours || joining_ != here.joining) return;
  try {
    if (is_in_a_world()) distributed::destroy_process_group();
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
  const std::vector<int64_t>& ranks = joining_->ranks;
  for (int64_t rank : request.ranks) {
    const auto found = std::find(ranks.begin(), ranks.end(), rank);
    const int64_t member = ranks.empty() ? rank : found - ranks.begin();
    if (member < 0 || member >= distributed::get_world_size())
      throw ArgumentError(Status(ErrorCode::argument,
                                 c10::str("group \"", request.name, "\": rank ", rank, " is not in the world that this process has joined, of ",
                                          distributed::get_world_size(), " ranks",
                                          ranks.empty() ? std::string() : c10::str(": ", c10::IntArrayRef(ranks)),
                                          "; make the default group with the backend unisono, so that all ranks are in it")));
    members.push_back(static_cast<int>(member));
  }
  return members;
}

}  // namespace unisono::torch_backend
