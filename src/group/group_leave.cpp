// Leaving a group, and giving back what it has when it is idle or nobody uses it any more. See group.hpp.
#include "base/check.hpp"
#include "group/group.hpp"

namespace unisono {

// Asked once a period by the control thread: a group is idle when its calls have not moved on since long ago.
void Group::give_back_when_idle(int64_t idle_ns) {
  const uint32_t finished = members_.finished(me());
  if (finished != idle_since_call_) {
    idle_since_call_ = finished;
    idle_since_ns_ = now_ns();
  }
  if (now_ns() - idle_since_ns_ < idle_ns || !token_.try_take()) return;
  if (!current_.call) run_.drop_private_memory();
  if (!current_.call && !left_ && members_.everybody_finished(number_)) run_.drop_stage();
  give_token();
}

// What is queued fails; a call of the others that needs us fails there, naming us. Nobody is waited for.
void Group::leave() {
  if (left_ || !members_.say_leaving()) return;  // left: its memory may be another group's by now
  left_ = true;
  members_.wake_everyone();  // a thread of ours may sleep in a call, holding the token
  token_.want();
  while (!token_.try_take()) token_.rest([] { return false; });
  const Status gone = gone_status();
  mailbox_.leave(gone);
  if (current_.call) static_cast<void>(end(gone).ok());
  std::deque<std::shared_ptr<CallWork>> queue;
  {
    std::lock_guard lock(queue_mutex_);
    queue.swap(queue_);
    queued_ = 0;
  }
  for (auto& work : queue) work->complete(gone);
  router_.finish();
  {
    std::lock_guard lock(agree_mutex_);  // from here on nothing of ours writes to what is the others'
    members_.say_left();
  }
  members_.wake_everyone();
  token_.unwant();
  token_.give();
}

bool Group::all_left() const { return members_.all_left(); }

void Group::release_memory() {
  router_.close();
  mailbox_.close();
  run_.give_stage_back();
  arena_.give_back(parts_.places[static_cast<size_t>(me())]);
}

}  // namespace unisono
