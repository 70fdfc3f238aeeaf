// Agreeing on one answer, also after a fault.
//
//   every member writes its number and flag into its own lane
//   whoever sees that everybody has done so, or is gone, writes the outcome into the first member's lane, if none stands there
//
// Two members may see different sets, when somebody dies in the middle: the compare-and-swap decides which outcome holds, and
// both take that. The first lane stays mapped when its owner dies.
//
// Who writes: a member its own voice; anybody, once for each number, the outcome. Order: voices are stored with release
// before the others are woken; the outcome is swapped with acquire-release and loaded with acquire. Two places are enough:
// nobody can speak of number n + 2 before everybody who is left has spoken of n + 1, and so has read the outcome of n; but for who
// gave up at its deadline, whose voice is then ahead and counts as no.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/check.hpp"
#include "group/group.hpp"
#include "group/world.hpp"

namespace unisono {
namespace {

constexpr uint64_t said(uint64_t number, bool flag) { return number << 1 | (flag ? 1 : 0); }
constexpr uint64_t number_of(uint64_t word) { return word >> 1; }

}  // namespace

std::vector<int> Group::survivors() const {
  std::vector<int> ranks;
  for (int member = 0; member < size(); ++member)
    if (member == me() || lanes_.left(me(), member).load(std::memory_order_acquire) == still_here) ranks.push_back(world_rank(member));
  return ranks;
}

Result<std::vector<int>> Group::failed_ranks() const {
  if (Status status = intact(); status.code() == ErrorCode::state) return status;
  const std::vector<int> here = survivors();
  std::vector<int> ranks;
  for (int rank : parts_.ranks)
    if (std::find(here.begin(), here.end(), rank) == here.end() || (rank != world_rank(me()) && parts_.world->has_ended(rank)))
      ranks.push_back(rank);
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

Result<bool> Group::agree(bool flag, std::optional<double> timeout_s) {
  RETURN_IF_ERROR(outside_interrupt_check());
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
  std::atomic<uint64_t>& outcome = lanes_.shared().agreed[number % 2];
  lanes_.mine().voices[number % 2].store(said(number, flag), std::memory_order_release);
  FAULT_POINT("agree_said");
  lanes_.wake_everyone();
  std::vector<int> missing;
  auto turn_once = [&] {
    if (number_of(outcome.load(std::memory_order_acquire)) == number) return Turn::done;
    missing.clear();
    bool all = true;
    for (int member = 0; member < size(); ++member) {
      const bool gone = member != me() && lanes_.left(me(), member).load(std::memory_order_acquire) != still_here;
      const uint64_t voice = lanes_.control(member).voices[number % 2].load(std::memory_order_acquire);
      if (number_of(voice) == number)
        all &= (voice & 1) != 0;
      else if (number_of(voice) > number)
        all = false;  // it has spoken, and given up since
      else if (!gone)
        missing.push_back(world_rank(member));
    }
    if (!missing.empty()) return Turn::blocked;
    uint64_t before = outcome.load(std::memory_order_acquire);
    while (number_of(before) < number)  // later ones stand when this rank has left in the meantime
      if (outcome.compare_exchange_weak(before, said(number, all), std::memory_order_acq_rel, std::memory_order_acquire)) break;
    lanes_.wake_everyone();
    return Turn::done;
  };
  auto examine_once = [&]() -> Status {
    if (interrupts.tripped()) return interrupted();
    if (left_.load(std::memory_order_relaxed)) return gone_status();
    if (!deadline.passed()) return Status::success();
    return {ErrorCode::timeout, fmt::format("group \"{}\": rank {} waited {:.1f} s to agree, and rank{} {} did not come. Nothing is broken: agree again, or "
                                            "shrink the group if they are stuck", name(),
                                            world_rank(me()), timeout_s.value_or(parts_.timeout_s), missing.size() == 1 ? "" : "s",
                                            fmt::join(missing, ", "))};
  };
  WaitPolicy policy = parts_.world->wait_policy();
  RETURN_IF_ERROR(wait_until_done(lanes_.my_head(), policy, turn_once, examine_once, deadline));
  return (outcome.load(std::memory_order_acquire) & 1) != 0;
}

}  // namespace unisono
