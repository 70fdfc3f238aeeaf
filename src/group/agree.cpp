// Agreeing on one answer, also after a fault.
//
//   every member says its number and flag
//   whoever sees that everybody has done so, or is gone, settles the outcome, unless it is settled
//
// Two members may see different sets, when somebody dies in the middle: the first outcome stands, and both take that. Who gave up at
// its deadline may be ahead with its voice: it counts as no.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/check.hpp"
#include "group/group.hpp"
#include "group/world.hpp"

namespace unisono {

std::vector<int> Group::survivors() const {
  std::vector<int> ranks;
  for (int member = 0; member < size(); ++member)
    if (members_.presence(member) == Presence::here) ranks.push_back(world_rank(member));
  return ranks;
}

Result<std::vector<int>> Group::failed_ranks() const {
  if (Status status = intact(); status.code() == ErrorCode::state) return status;
  const std::vector<int> here = survivors();
  std::vector<int> ranks;
  const Status fault = members_.is_broken() ? members_.fault() : Status();
  for (int rank : parts_.ranks) {
    const bool is_here = std::find(here.begin(), here.end(), rank) != here.end();
    const bool is_blamed = fault.code() == ErrorCode::peer_lost && fault.peer() == rank;  // others may know of its end before this rank does
    if (!is_here || is_blamed || (rank != world_rank(me()) && parts_.world->has_ended(rank))) ranks.push_back(rank);
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

Result<bool> Group::agree(bool flag, std::optional<double> timeout_s) {
  RETURN_IF_ERROR(outside_interrupt_check());
  if (members_.span_hosts())
    return Status(ErrorCode::argument, fmt::format("group \"{}\" spans hosts ({}), and ranks agree within one host only so far", name(), parts_.hosts.text()));
  const Deadline deadline = Deadline::in_seconds(timeout_s.value_or(parts_.timeout_s));
  InterruptWatch interrupts;
  auto interrupted = [&] {
    return Status(ErrorCode::revoked, fmt::format("group \"{}\": rank {} was interrupted while it waited to agree. Nothing is broken",
                                                  name(), world_rank(me())), world_rank(me()));
  };
  std::unique_lock lock(agree_mutex_, std::defer_lock);
  while (!lock.try_lock_for(std::chrono::milliseconds(50))) {  // another thread of this rank agrees
    if (interrupts.tripped()) return interrupted();
    if (deadline.passed())
      return Status(ErrorCode::timeout, fmt::format("group \"{}\": another thread of rank {} waits to agree since before; agree "
                                                    "from one thread at a time", name(), world_rank(me())));
  }
  if (Status status = usable(); status.code() == ErrorCode::state) return status;  // a broken group may agree
  const uint64_t number = ++agreements_;
  members_.say(number, flag);
  FAULT_POINT("agree_said");
  members_.wake_everyone();
  std::vector<int> missing;
  bool all = true;
  auto turn_once = [&] {
    if (members_.outcome(number)) return Turn::done;
    missing.clear();
    all = true;
    for (int member = 0; member < size(); ++member) {
      const bool gone = members_.presence(member) != Presence::here;  // looked at first: what it said before counts
      const Members::Voice voice = members_.voice(member, number);
      if (voice == Members::Voice::none && !gone) missing.push_back(world_rank(member));
      if (voice == Members::Voice::no || voice == Members::Voice::later) all = false;
    }
    if (!missing.empty()) return Turn::blocked;
    members_.settle(number, all);
    members_.wake_everyone();
    return Turn::done;
  };
  auto examine_once = [&]() -> Status {
    if (interrupts.tripped()) return interrupted();
    if (left_) return gone_status();
    if (!deadline.passed()) return Status::success();
    return {ErrorCode::timeout, fmt::format("group \"{}\": rank {} waited {:.1f} s to agree, and rank{} {} did not come. Nothing is broken: agree again, or "
                                            "shrink the group if they are stuck", name(),
                                            world_rank(me()), timeout_s.value_or(parts_.timeout_s), missing.size() == 1 ? "" : "s",
                                            fmt::join(missing, ", "))};
  };
  WaitPolicy policy = parts_.world->wait_policy();
  RETURN_IF_ERROR(wait_until_done(members_.bed(), policy, turn_once, examine_once, deadline));
  return members_.outcome(number).value_or(all);  // none: the others have left, and settled later ones
}

}  // namespace unisono
