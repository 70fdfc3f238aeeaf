// Calls that wait their turn: posting them, turning the engine for them, waiting for them. See group.hpp.
#include <fmt/format.h>

#include "base/check.hpp"
#include "base/interrupt.hpp"
#include "base/shortage.hpp"
#include "group/group.hpp"
#include "group/world.hpp"

namespace unisono {
namespace {

constexpr uint32_t turns_between_looks = 16;  // but every turn where ranks are crowded, since each may be followed by a sleep

}  // namespace

// The progress thread goes back to sleep when it finds the token held, so whoever held it says when there is work left.
void Group::give_token() {
  token_.give();
  if (queued_ != 0) parts_.world->wake_progress();
}

// Under the lock that leave() empties the queue with, so that nothing is left behind in it.
Status Group::enqueue(std::initializer_list<std::shared_ptr<CallWork>> works) {
  std::lock_guard lock(queue_mutex_);
  RETURN_IF_ERROR(usable());
  queue_.insert(queue_.end(), works);
  queued_ += static_cast<int>(works.size());
  return Status::success();
}

// What `make` makes, once it is in the queue. Memory that runs out before that is told to the others in the call's place.
template <typename Make>
std::shared_ptr<CallWork> Group::post_made(Collective kind, Make make) {
  try {
    auto [before, work] = make();
    if (before) work->follow(before);
    if (Status status = before ? enqueue({before, work}) : enqueue({work}); !status.ok())
      work->complete(status);
    else
      parts_.world->wake_progress();
    return work;
  } catch (const std::bad_alloc&) {
    static_cast<void>(refuse(kind, out_of_memory()).ok());
    throw;
  }
}

std::shared_ptr<CallWork> Group::post(Call call, std::shared_ptr<void> keep_alive) {
  return post_made(call.kind, [&] {
    auto work = std::make_shared<CallWork>(shared_from_this(), std::move(call), std::move(keep_alive));
    return std::pair(std::shared_ptr<CallWork>(), std::move(work));
  });
}

std::shared_ptr<CallWork> Group::post(Call first, Call second, std::shared_ptr<void> keep_alive) {
  return post_made(first.kind, [&] {
    auto before = std::make_shared<CallWork>(shared_from_this(), std::move(first), keep_alive);
    auto work = std::make_shared<CallWork>(shared_from_this(), std::move(second), std::move(keep_alive));
    return std::pair(std::move(before), std::move(work));
  });
}

std::shared_ptr<CallWork> Group::post(const std::shared_ptr<StandingCall>& standing) {
  return post_made(standing->call.kind, [&] {
    std::shared_ptr<CallWork> before;
    if (standing->before) before = std::make_shared<CallWork>(shared_from_this(), standing, *standing->before);
    return std::pair(std::move(before), std::make_shared<CallWork>(shared_from_this(), standing, standing->call));
  });
}

// A refusal is announced at once when nothing is before it, so that the others hear of it within this call.
// Where there is no memory for that, the group is given up: a call that took no number would put the ranks out of step.
Status Group::refuse(Collective kind, Status why) {
  try {
    Call call;
    call.kind = kind;
    auto work = std::make_shared<CallWork>(shared_from_this(), std::move(call), nullptr);
    work->refuse(why);
    RETURN_IF_ERROR(enqueue({std::move(work)}));
  } catch (const std::bad_alloc&) {
    spread_break(out_of_memory());
    throw;
  }
  if (token_.try_take()) {
    const AtEnd given([this] { give_token(); });
    while (turn_queue() == Share::progressed) continue;
  } else {
    parts_.world->wake_progress();
  }
  return why;
}

void Group::complete(const std::shared_ptr<CallWork>& work, const Status& status) {
  work->complete(status);
  queued_ -= 1;
  token_.stir();
}

// On a broken group nothing more is announced: ranks may disagree on which call was the last to move data, and so on where
// the next one's lies.
bool Group::take_next() {
  while (true) {
    std::shared_ptr<CallWork> work;
    {
      std::lock_guard lock(queue_mutex_);
      if (queue_.empty()) return false;
      work = std::move(queue_.front());
      queue_.pop_front();
    }
    Status status = or_out_of_memory([this] { return usable(); });
    if (status.ok()) status = work->prerequisite();
    if (!status.ok()) {
      complete(work, status);
      continue;
    }
    current_.work = std::move(work);
    status = fenced([this] {
      begin(current_.work->call(), current_.work->standing_decision());
      if (current_.work->is_refusal()) turn_into_refusal(current_.work->refusal());
      return Status::success();
    });
    if (status.ok()) return true;
    static_cast<void>(end(status).ok());  // the Work has it
  }
}

// One turn of whatever is first in the queue.
Group::Share Group::turn_queue() {
  if (!current_.work && !take_next()) return Share::idle;
  Turn outcome = Turn::blocked;
  Status status = fenced([&] {
    outcome = turn();
    const bool looks = outcome == Turn::blocked && (policy_.crowded || ++blocked_turns_ % turns_between_looks == 0);
    return looks ? examine() : Status::success();
  });
  if (outcome == Turn::progressed) return Share::progressed;
  if (outcome == Turn::blocked && status.ok()) return Share::blocked;
  static_cast<void>(end(status).ok());  // the Work has it
  return Share::progressed;
}

Group::Share Group::progress() { return std::max(mailbox_.progress(), progress_queue()); }

Group::Share Group::progress_queue() {
  if (queued_ == 0) return Share::idle;
  if (token_.wanted() || !token_.try_take()) return Share::idle;
  const AtEnd given([this] {
    turned_by_library_ = false;
    token_.give();
  });
  turned_by_library_ = true;
  const Share share = turn_queue();
  if (Alarm* const alarm = router_.alarm(); alarm && share == Share::blocked) alarm->set();
  return share;
}

// Waits for a posted call: turns the engine itself when it can, otherwise sleeps until the token comes free.
Status Group::wait_for(CallWork& work, std::optional<double> timeout_s) {
  const Deadline deadline = timeout_s ? Deadline::in_seconds(*timeout_s) : Deadline{};
  auto expired = [&] {
    return Status(ErrorCode::timeout, fmt::format("wait({}) expired; {} on group \"{}\" is still running and may be waited for "
                                                  "again", *timeout_s, name_of(work.call().kind), name()));
  };
  if (parts_.world->forked()) return usable();
  RETURN_IF_ERROR(outside_interrupt_check());
  auto hold = [&] {
    auto turn_once = [&] {
      if (work.is_completed()) return Turn::done;
      return turn_queue() == Share::progressed ? Turn::progressed : Turn::blocked;
    };
    return wait_until_done(members_.bed(false, router_.alarm()), policy_, turn_once,
                           [&] { return deadline.passed() ? expired() : Status::success(); }, deadline).ok();
  };
  InterruptWatch interrupts;  // of this thread, which may not be the one that turns the engine
  Status interrupted;
  auto over = [&] {
    if (!work.is_completed() && interrupts.tripped())
      interrupted = break_interrupted(fmt::format("group \"{}\", waiting for {}", name(), name_of(work.call().kind)));
    return work.is_completed();
  };
  token_.wait_until(over, hold, deadline);
  if (queued_ != 0) parts_.world->wake_progress();
  if (!interrupted.ok()) return interrupted;  // also where the call was over before it heard of it
  return work.is_completed() ? work.exception() : expired();
}

bool CallWork::wait(std::optional<double> timeout_s) {
  throw_if_error(is_completed() ? exception() : group_->wait_for(*this, timeout_s));
  return true;
}

void CallWork::complete(const Status& status) {
  status_ = status;
  keep_alive_.reset();
  call_.op.user_defined.reset();  // before anybody is told: whoever completes it may hold this work a moment longer
  completion_.end();
}

}  // namespace unisono
