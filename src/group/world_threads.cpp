// The two threads of a World. Neither runs user code, neither lets an exception out.
//
// The progress thread performs asynchronous calls of all groups while their owners compute. It sleeps on `progress_wanted_`
// while there is nothing to do and on the process's bell while it waits for peers.
// The control thread knows of deaths (death_watch.hpp) and, on rank 0, answers the door.
// Order: progress_wanted_ is added to after a call was queued, and progress_sleep_ is stored before the queues are looked at
// for the last time, both sequentially consistent, so either the poster sees the sleeper or the sleeper sees the call.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include "base/check.hpp"
#include "base/shortage.hpp"
#include "group/world.hpp"
#include "rendezvous/late_visitors.hpp"

namespace unisono {
namespace {

constexpr int64_t progress_spin_ns = 5'000;
constexpr int64_t progress_rest_ns = 1'000'000;  // while callers' threads do the work
constexpr int control_period_ms = 1000, control_period_with_hosts_ms = 250;

// Again and again until there is memory for it.
template <typename Step>
void insist(Step step) {
  constexpr timespec a_moment{0, 10'000'000};
  while (!or_out_of_memory([&] { return step(), Status::success(); }).ok()) nanosleep(&a_moment, nullptr);
}

constexpr int64_t control_token = -1, door_token = -2, sockets_token = -3, fabric_token = -4, visitor_token = -5;  // visitors: less their socket
constexpr int rest_ms = 100;                                             // of the door, when more knock than can be served

}  // namespace

// A thread of ours goes on when memory has run out: it rests and begins anew. Nothing else may be thrown in it.
template <typename Work>
void World::run_until_stopped(const char* name, Work work) {
  while (!stopping_.load(std::memory_order_acquire)) {
    try {
      insist(work);
    } catch (const std::exception& error) {
      return insist([&] { log_.write(LogLevel::error, fmt::format("the {} thread met a bug and stops: {}", name, error.what())); });
    }
  }
}

void World::wake_control() {
  constexpr uint64_t one = 1;
  if (wake_) static_cast<void>(!write(wake_.number(), &one, sizeof(one)));
}

void World::wake_progress() {
  progress_wanted_.fetch_add(1, std::memory_order_seq_cst);
  switch (progress_sleep_.load(std::memory_order_seq_cst)) {
    case ProgressSleep::idle: return futex_wake(progress_wanted_, 1);
    case ProgressSleep::on_bell: return ring_bell(head());
    case ProgressSleep::none: return;
  }
}

Group::Share World::progress_all(std::vector<std::shared_ptr<Group>>& groups, uint32_t& version) {
  if (uint32_t now = groups_version_.load(std::memory_order_acquire); now != version) {
    std::lock_guard lock(mutex_);
    groups.clear();
    for (auto& entry : groups_) groups.push_back(entry.second);
    version = now;
  }
  Group::Share most = Group::Share::idle;
  for (auto& group : groups) most = std::max(most, group->progress());
  return most;
}

void World::run_progress() {
  run_until_stopped("progress", [this] { progress_until_stopped(); });
}

void World::progress_until_stopped() {
  std::vector<std::shared_ptr<Group>> groups;
  uint32_t version = ~0u;
  int64_t spin_until = 0;
  while (!stopping_.load(std::memory_order_acquire)) {
    Group::Share share = progress_all(groups, version);
    if (share == Group::Share::progressed) {
      spin_until = 0;
      continue;
    }
    int64_t now = now_ns();
    if (spin_until == 0) spin_until = now + (policy_.crowded ? 0 : progress_spin_ns);
    if (now < spin_until) {
      relax();
      continue;
    }
    spin_until = 0;
    uint32_t wanted = progress_wanted_.load(std::memory_order_acquire);
    if (share <= Group::Share::resting) {
      progress_sleep_.store(ProgressSleep::idle, std::memory_order_seq_cst);
      share = progress_all(groups, version);
      const int64_t longest_ns = share == Group::Share::idle ? 1'000'000'000 : progress_rest_ns;
      if (share <= Group::Share::resting && !stopping_) futex_wait(progress_wanted_, wanted, longest_ns);
    } else {
      progress_sleep_.store(ProgressSleep::on_bell, std::memory_order_seq_cst);
      Sleeper sleeper(head(), policy_);
      if (progress_all(groups, version) == Group::Share::blocked && !stopping_) sleeper.sleep(longest_sleep_ns);
    }
    progress_sleep_.store(ProgressSleep::none, std::memory_order_seq_cst);
  }
}

Status World::watch_others() {
  RETURN_IF_ERROR(death_watch_->watch(joined_));
  RETURN_IF_ERROR(death_watch_->add(wake_.number(), control_token));
  if (sockets_) RETURN_IF_ERROR(death_watch_->add(sockets_->descriptor(), sockets_token));
  if (fabric_ && fabric_->descriptor() >= 0) RETURN_IF_ERROR(death_watch_->add(fabric_->descriptor(), fabric_token));
  return joined_.door.number() < 0 ? Status::success() : death_watch_->add(joined_.door.number(), door_token);
}

// However many knock: a bounded number is served, then the door rests, and deaths are told before the next is let in.
void World::run_control() {
  LateVisitors visitors(joined_, request_);
  Deadline door_rests;
  run_until_stopped("control", [&] { control_until_stopped(visitors, door_rests); });
}

void World::control_until_stopped(LateVisitors& visitors, Deadline& door_rests) {
  if (remotes_) hear_remotes();  // and arms what will come
  while (!stopping_.load(std::memory_order_acquire)) {
    if (fabric_) fabric_->look_after();
    const bool rests = door_rests.at_ns != never_ns;
    const bool looks_soon = rests || !doubts_.empty() || (sockets_ && sockets_->look_after_left());
    const DeathWatch::News news = death_watch_->wait(looks_soon ? rest_ms : remotes_ ? control_period_with_hosts_ms : control_period_ms);
    for (const DeathWatch::Loss& loss : news.losses) insist([&] { member_lost(loss.rank, loss.how); });
    head().beat_ns.store(now_ns(), std::memory_order_relaxed);
    if (remotes_) look_after_hosts();
    if (remotes_) tell_owed();
    if (door_rests.passed() && death_watch_->add(joined_.door.number(), door_token).ok()) door_rests = {};
    uint64_t woken = 0;
    for (int64_t token : news.tokens) {
      if (token == control_token) {
        static_cast<void>(!read(wake_.number(), &woken, sizeof(woken)));
        hear_remotes();
      }
      if (token == sockets_token) {
        sockets_->rang();
        ring_bell(head());
        hear_remotes();
      }
      if (token == fabric_token && fabric_->rang()) ring_bell(head());
      if (token <= visitor_token) {
        hear_remotes();  // whoever comes again may just have said that it left
        visitors.answer(static_cast<int>(visitor_token - token));
      }
      if (token != door_token) continue;
      for (int socket : visitors.welcome())
        static_cast<void>(death_watch_->add(socket, visitor_token - socket, DeathWatch::Often::once).ok());  // else its patience ends
      if (!joined_.door.is_crowded() && !joined_.door.is_exhausted()) continue;
      death_watch_->remove(joined_.door.number());
      door_rests = Deadline::in_seconds(rest_ms * 1e-3);
    }
    if (news.tokens.empty() || !doubts_.empty()) hear_remotes();  // a new connection that was refused at once rings no bell; last: what has come is let in
    if (remotes_) judge_doubts();
    visitors.dismiss_silent();
    if (news.losses.empty() && news.tokens.empty()) look_after_idle_groups();
  }
}

void World::member_lost(int peer, const std::string& how) {
  const auto index = static_cast<size_t>(peer);
  {
    std::lock_guard lock(mutex_);  // held throughout, so that no lane is given back meanwhile
    if (!lost_[index].empty()) return;  // several tell of one on another host
    if (!joined_.neighbours[index].is_here() && how == left_text)
      joined_.neighbours[index].head().goodbye.store(static_cast<uint32_t>(Goodbye::left), std::memory_order_release);
    for_each_group([peer](Group& group) {
      if (int member = group.index_of(peer); member >= 0) group.member_lost(member);
    });
    lost_[index] = how + last_words(peer);  // last: where memory ran out before, all of it is done again
  }
  if (remotes_ && joined_.neighbours[index].is_here()) {  // last: how far it came is known then
    Notice notice;
    notice.head = {.kind = NoticeHead::Kind::lost, .rank = peer};
    notice.add_text(how);
    remotes_->tell_all(notice);
  }
  if (options_.note_left && (how == left_text || how.starts_with(exited_text))) options_.note_left(peer);
  log_.info(fmt::format("rank {} ({}) {}", peer, joined_.neighbours[index].process(), how));
  ring_bell(head());  // whoever is waiting for it to make a group
}

// Watches go after `left_` was set, which the mutex orders.
bool World::has_ended(int rank) const {
  std::lock_guard lock(mutex_);
  const auto index = static_cast<size_t>(rank);
  if (left_ || !lost_[index].empty()) return !lost_[index].empty();
  const Watch& watch = joined_.watches[index];
  pollfd either[] = {{watch.process.number(), POLLIN, 0}, {watch.life.number(), POLLIN, 0}};  // -1 is passed over
  return poll(either, 2, 0) > 0;
}

void World::look_after_idle_groups() {
  sweep_retired();
  std::vector<std::shared_ptr<Group>> groups;
  {
    std::lock_guard lock(mutex_);
    for (auto& entry : groups_) groups.push_back(entry.second);
  }
  auto idle_ns = static_cast<int64_t>(settings().idle_s * 1e9);
  for (auto& group : groups) group->give_back_when_idle(idle_ns);
}

}  // namespace unisono
