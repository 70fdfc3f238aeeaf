// Leaving a group, and giving back what it has when it is idle or nobody uses it any more. See group.hpp.
//
// Order: `leaving` is stored before anything is given up, sequentially consistent, since peers that read our memory look at it
// afterwards; the marks of having left are stored with release after our last write to a lane.
#include "base/check.hpp"
#include "group/group.hpp"

namespace unisono {

// Asked once a period by the control thread: a group is idle when its calls have not moved on since long ago.
void Group::give_back_when_idle(int64_t idle_ns) {
  uint32_t finished = lanes_.mine().finished.load(std::memory_order_relaxed);
  if (finished != idle_since_call_) {
    idle_since_call_ = finished;
    idle_since_ns_ = now_ns();
  }
  if (now_ns() - idle_since_ns_ < idle_ns || !token_.try_take()) return;
  bool everybody_finished = !current_.call && !left_.load(std::memory_order_relaxed);
  for (int member = 0; member < size(); ++member)
    everybody_finished &= at_least(lanes_.control(member).finished.load(std::memory_order_acquire), number_);
  if (everybody_finished) lanes_.drop_tiles(arena_);
  give_token();
}

// What is queued fails; a call of the others that needs us fails there, naming us. Nobody is waited for.
void Group::leave() {
  if (left_.load(std::memory_order_relaxed)) return;  // the lane may be another group's by now
  lanes_.mine().leaving.store(1, std::memory_order_seq_cst);  // before anything is given up: peers may be reading it
  if (left_.exchange(true)) return;
  lanes_.wake_everyone();  // a thread of ours may sleep in a call, holding the token
  token_.want();
  while (!token_.try_take()) token_.rest([] { return false; });
  const Status gone = gone_status();
  mailbox_.leave(gone);
  if (current_.call) static_cast<void>(end(gone).ok());
  std::deque<std::shared_ptr<CallWork>> queue;
  {
    std::lock_guard lock(queue_mutex_);
    queue.swap(queue_);
    queued_.store(0, std::memory_order_release);
  }
  for (auto& work : queue) work->complete(gone);
  {
    std::scoped_lock lock(cause_mutex_, agree_mutex_);  // from here on nothing of ours writes to a lane: see break_group()
    for (int member = 0; member < size(); ++member) lanes_.left(member, me()).store(has_left, std::memory_order_release);
  }
  lanes_.wake_everyone();
  token_.unwant();
  token_.give();
}

bool Group::all_left() const {
  for (int member = 0; member < size(); ++member)
    if (lanes_.left(me(), member).load(std::memory_order_acquire) == still_here) return false;
  return true;
}

void Group::release_memory() {
  links_.close();
  mailbox_.close();
  lanes_.give_tiles_back(arena_);
  arena_.give_back(parts_.lane_offsets[static_cast<size_t>(me())]);
}

}  // namespace unisono
