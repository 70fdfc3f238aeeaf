// Numbering, announcing and performing calls. What goes wrong is trouble.cpp; how groups are made is world.cpp.
//
// Order of the announcement: the cell is written before the word is stored with release; see transport/lane.hpp.
#include "group/group.hpp"

#include <fmt/format.h>

#include <cstring>

#include "base/check.hpp"
#include "base/hash.hpp"
#include "group/world.hpp"

namespace unisono {
namespace {

constexpr uint32_t turns_between_looks = 16;  // but every turn where ranks are crowded, since each may be followed by a sleep

// Peers find their way in contiguous memory only. What an all_gather fills may be a list: nobody reads that.
bool peers_can_read(const Call& call) {
  return !call.input.is_list() && (!call.output.is_list() || call.kind == Collective::all_gather);
}

Likeness likeness_of(const Call& call) {
  const bool plain = !call.input.is_list() && !call.output.is_list() && !call.compare_shapes;
  return {call.kind, call.dtype, plain, call.op, call.root, call.count, call.input.bytes(), call.output.bytes()};
}

}  // namespace

Group::Group(GroupParts parts, Arena& arena)
    : parts_(std::move(parts)),
      arena_(arena),
      log_(parts_.world->log()),
      policy_(parts_.world->wait_policy(size())),
      lanes_(parts_.layout, parts_.me, parts_.members, parts_.lane_offsets),
      links_(lanes_, arena),
      exchange_(lanes_),
      run_(lanes_, links_),
      planner_(parts_.world->planner_rules()) {
  if (!policy_.global_barrier) lanes_.need_fences();
}

Group::~Group() = default;

int Group::index_of(int world_rank) const {
  for (size_t index = 0; index < parts_.ranks.size(); ++index)
    if (parts_.ranks[index] == world_rank) return static_cast<int>(index);
  return -1;
}

Status Group::usable() const {
  if (parts_.world->forked())
    return {ErrorCode::state, "this process was forked from a rank; only the process that joined may use the group"};
  if (left_.load(std::memory_order_relaxed)) return {ErrorCode::state, fmt::format("group \"{}\" was destroyed", name())};
  if (lanes_.mine().abort.load(std::memory_order_acquire) != 0) return broken_status();
  return Status::success();
}

Status Group::run(Call&& call) {
  if (queued_.load(std::memory_order_acquire) == 0 && token_.try_take()) {
    if (queued_.load(std::memory_order_relaxed) == 0 && !current_.call) {
      Status status = usable();
      if (status.ok()) status = perform_inline(call);
      give_token();
      return status;
    }
    give_token();
  }
  auto work = post(std::move(call), nullptr);
  return wait_for(*work, std::nullopt);
}

Status Group::perform_inline(const Call& call) {
  begin(call);
  Status status =
      wait_until_done(bed(), policy_, [this] { return turn(); }, [this] { return examine(); });
  return end(status);
}

// In a call that the last arriver ends for all, one wake-up for the whole group is better than one for each.
Bed Group::bed() const {
  return {lanes_.my_head(), current_.path == Path::combine && current_.refusal.ok() ? &lanes_.shared().released : nullptr};
}

// The progress thread goes back to sleep when it finds the token held, so whoever held it says when there is work left.
void Group::give_token() {
  token_.give();
  if (queued_.load(std::memory_order_seq_cst) != 0) parts_.world->wake_progress();
}

// Under the lock that leave() empties the queue with, so that nothing is left behind in it.
Status Group::enqueue(const std::shared_ptr<CallWork>& work) {
  std::lock_guard lock(queue_mutex_);
  RETURN_IF_ERROR(usable());
  queue_.push_back(work);
  queued_.fetch_add(1, std::memory_order_seq_cst);
  return Status::success();
}

std::shared_ptr<CallWork> Group::post(Call call, std::shared_ptr<void> keep_alive) {
  auto work = std::make_shared<CallWork>(shared_from_this(), std::move(call), std::move(keep_alive));
  if (Status status = enqueue(work); !status.ok())
    work->complete(status);
  else
    parts_.world->wake_progress();
  return work;
}

// A refusal is announced at once when nothing is before it, so that the others hear of it within this call.
Status Group::refuse(Collective kind, Status why) {
  Call call;
  call.kind = kind;
  auto work = std::make_shared<CallWork>(shared_from_this(), std::move(call), nullptr);
  work->refuse(why);
  RETURN_IF_ERROR(enqueue(work));
  if (token_.try_take()) {
    while (turn_queue() == Share::progressed) continue;
    give_token();
  } else {
    parts_.world->wake_progress();
  }
  return why;
}

void Group::begin(const Call& call) {
  current_.call = &call;
  current_.refusal = {};
  current_.announced = current_.warned = false;
  current_.number = ++number_;
  current_.started_ns = 0;
  // What this rank alone cannot do is a refusal too: the others hear of it in the same call and nobody waits in vain.
  if (Status status = plan(call); !status.ok()) [[unlikely]]
    return turn_into_refusal(status);
  current_.word = make_word(current_.number, current_.hash);
}

void Group::turn_into_refusal(const Status& why) {
  current_.refusal = why;
  current_.plan = nullptr;
  current_.announcement = announce_refusal(current_.call->kind, why.message());
  current_.word = make_word(current_.number, current_.announcement.hash());
}

// Chooses the path and takes what memory it needs, so that nothing can fail after the announcement but a fault.
Status Group::plan(const Call& call) {
  const Likeness likeness = likeness_of(call);
  if (!current_.plan || !likeness.plain || likeness != current_.likeness) RETURN_IF_ERROR(decide(call));
  current_.likeness = likeness;
  const Plan& plan = *current_.plan;
  if (plan.path == Path::slot) return Status::success();
  if (plan.path == Path::combine)
    return contribution_bytes(call, size()) > staged_bytes ? lanes_.ensure_tiles(arena_) : Status::success();
  if (plan.schedule->stage_slots > 0) RETURN_IF_ERROR(lanes_.ensure_tiles(arena_));
  return run_.prepare(call, {plan.schedule.get(), plan.tile_bytes, plan.window});
}

// The algorithm and the announcement. Most programs make the same call again and again: these are then kept.
Status Group::decide(const Call& call) {
  current_.plan = nullptr;
  auto chosen = planner_.plan({.collective = call.kind,
                               .ranks = size(),
                               .rank = me(),
                               .root = call.root,
                               .bytes = piece_bytes(call, size()),
                               .crowded = policy_.crowded,
                               .peer_reads = parts_.world->peer_reads() && peers_can_read(call),
                               .set_bytes = lanes_.set_bytes()});
  if (!chosen.ok()) return chosen.status();
  current_.plan = *chosen;
  current_.path = current_.plan->path;
  current_.announcement = announce(call, current_.plan->fingerprint());
  current_.hash = current_.announcement.hash();
  return Status::success();
}

// An entry of the announcement ring may be written again once everybody has left the call it spoke of; see lane.hpp.
bool Group::may_announce() {
  const uint32_t needed = current_.number - static_cast<uint32_t>(lanes_.ring()) + 1;
  if (at_least(seen_by_all_, needed)) return true;
  for (int member = 0; member < size(); ++member) {
    if (member == me()) continue;
    uint64_t word = lanes_.word(member, needed).load(std::memory_order_acquire);
    if (!at_least(call_of(word), needed)) return false;
    uint64_t ahead = ran_ahead_[needed % max_ring];
    if (call_of(ahead) == needed && call_of(word) == needed && word != ahead) turn_into_refusal(judge(member, needed));
  }
  seen_by_all_ = needed;
  return true;
}

void Group::write_announcement() {
  const Announcement& announcement = current_.announcement;
  size_t used = announcement.state == CallState::refused ? sizeof(Announcement)
                : announcement.dims >= 0                 ? offsetof(Announcement, text)
                                                         : offsetof(Announcement, shape);
  std::memcpy(lanes_.cell(me(), current_.number).bytes, &announcement, used);
  FAULT_POINT("before_announcement");
  if (parts_.world->peer_reads()) {
    lanes_.mine().input_address.store(reinterpret_cast<uint64_t>(current_.call->input.whole().data), std::memory_order_relaxed);
    lanes_.mine().output_address.store(reinterpret_cast<uint64_t>(current_.call->output.whole().data), std::memory_order_relaxed);
  }
  lanes_.word(me(), current_.number).store(current_.word, std::memory_order_release);
  current_.announced = true;
  FAULT_POINT("announced");
  if (announcement.state == CallState::refused) lanes_.wake_everyone();
}

Turn Group::turn() {
  if (!current_.announced) [[unlikely]] {
    if (!may_announce()) return Turn::blocked;
  }
  if (!current_.announced) {
    write_announcement();
    if (!current_.refusal.ok()) return Turn::done;  // it has been said
    if (current_.path == Path::schedule)
      run_.start(current_.word, tile_);
    else
      exchange_.start(*current_.call, exchange_mode(), current_.word, tile_);
  }
  return current_.path == Path::schedule ? run_.turn() : exchange_.turn();
}

// Who only gives may go on before the others have come, as far as the ring has room for announcements.
ExchangeMode Group::exchange_mode() const {
  if (current_.path == Path::combine) return ExchangeMode::combine;
  return lanes_.ring() > 2 && only_gives(*current_.call, me()) ? ExchangeMode::give : ExchangeMode::slot;
}

Status Group::end(Status status) {
  if (status.ok()) status = current_.refusal;
  if (status.ok() && current_.path == Path::slot && exchange_mode() == ExchangeMode::give) {
    ran_ahead_[current_.number % max_ring] = current_.word;
  } else if (status.ok()) {
    seen_by_all_ = current_.number;
    if (current_.path == Path::schedule) tile_ += static_cast<uint64_t>(run_.tiles());
    if (current_.path == Path::combine && exchange_.uses_tile()) tile_ += 1;
  }
  FAULT_POINT("before_finish");
  // A call that was given up because we leave is not finished: those who need us in it are to hear that we left.
  if (status.code() != ErrorCode::state) lanes_.mine().finished.store(current_.number, std::memory_order_release);
  current_.call = nullptr;
  if (current_.work) complete(std::exchange(current_.work, nullptr), status);
  return status;
}

void Group::complete(const std::shared_ptr<CallWork>& work, const Status& status) {
  work->complete(status);
  queued_.fetch_sub(1, std::memory_order_release);
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
    if (Status status = usable(); !status.ok()) {
      complete(work, status);
      continue;
    }
    current_.work = std::move(work);
    begin(current_.work->call());
    if (current_.work->is_refusal()) turn_into_refusal(current_.work->refusal());
    return true;
  }
}

// One turn of whatever is first in the queue.
Group::Share Group::turn_queue() {
  if (!current_.work && !take_next()) return Share::idle;
  Turn outcome = turn();
  if (outcome == Turn::progressed) return Share::progressed;
  Status status;
  if (outcome == Turn::blocked && (policy_.crowded || ++blocked_turns_ % turns_between_looks == 0)) status = examine();
  if (outcome == Turn::blocked && status.ok()) return Share::blocked;
  static_cast<void>(end(status).ok());  // the Work has it
  return Share::progressed;
}

Group::Share Group::progress() {
  if (queued_.load(std::memory_order_acquire) == 0) return Share::idle;
  if (token_.wanted() || !token_.try_take()) return Share::idle;
  Share share = turn_queue();
  token_.give();
  return share;
}

// Waits for a posted call: turns the engine itself when it can, otherwise sleeps until the token comes free.
Status Group::wait_for(CallWork& work, std::optional<double> timeout_s) {
  const Deadline deadline = timeout_s ? Deadline::in_seconds(*timeout_s) : Deadline{};
  auto expired = [&] {
    return Status(ErrorCode::timeout, fmt::format("wait({}) expired; {} on group \"{}\" is still running and may be waited for "
                                                  "again", *timeout_s, name_of(work.call().kind), name()));
  };
  token_.want();
  Status status;
  while (!work.is_completed() && status.ok()) {
    if (deadline.passed()) {
      status = expired();
    } else if (token_.try_take()) {
      status = wait_until_done(
          lanes_.my_head(), policy_,
          [&] {
            if (work.is_completed()) return Turn::done;
            return turn_queue() == Share::progressed ? Turn::progressed : Turn::blocked;
          },
          [&] { return deadline.passed() ? expired() : Status::success(); }, deadline);
      token_.give();
    } else {
      token_.rest([&] { return work.is_completed(); }, deadline.remaining_ns());
    }
  }
  token_.unwant();
  if (queued_.load(std::memory_order_relaxed) != 0) parts_.world->wake_progress();
  return work.is_completed() ? work.exception() : status;
}

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
  if (left_.exchange(true)) return;
  lanes_.wake_everyone();  // a thread of ours may sleep in a call, holding the token
  token_.want();
  while (!token_.try_take()) token_.rest([] { return false; });
  const Status gone = gone_status();
  if (current_.call) static_cast<void>(end(gone).ok());
  std::deque<std::shared_ptr<CallWork>> queue;
  {
    std::lock_guard lock(queue_mutex_);
    queue.swap(queue_);
    queued_.store(0, std::memory_order_release);
  }
  for (auto& work : queue) work->complete(gone);
  {
    std::lock_guard lock(cause_mutex_);  // from here on nothing of ours writes to a lane: see break_group()
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
  uint64_t tiles = lanes_.mine().tiles.load(std::memory_order_relaxed);
  if (tiles != 0) arena_.give_back(static_cast<int64_t>(tiles));
  arena_.give_back(parts_.lane_offsets[static_cast<size_t>(me())]);
}

bool CallWork::wait(std::optional<double> timeout_s) {
  throw_if_error(is_completed() ? exception() : group_->wait_for(*this, timeout_s));
  return true;
}

void CallWork::complete(const Status& status) {
  status_ = status;
  keep_alive_.reset();
  done_.store(1, std::memory_order_release);
}

}  // namespace unisono
