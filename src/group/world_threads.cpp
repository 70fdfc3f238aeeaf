// The two threads of a World. Neither runs user code, neither lets an exception out.
//
// The progress thread performs asynchronous calls of all groups while their owners compute. It sleeps on `progress_wanted_`
// while there is nothing to do and on the process's bell while it waits for peers.
// The control thread knows of deaths: one descriptor a peer becomes readable when that process is gone.
// Order: progress_wanted_ is added to after a call was queued, and progress_sleep_ is stored before the queues are looked at
// for the last time, both sequentially consistent, so either the poster sees the sleeper or the sleeper sees the call.
#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include <cstring>

#include "base/check.hpp"
#include "group/world.hpp"
#include "rendezvous/late_visitors.hpp"

namespace unisono {
namespace {

constexpr int64_t progress_spin_ns = 5'000;
constexpr int64_t progress_rest_ns = 1'000'000;  // while callers' threads do the work
constexpr int control_period_ms = 1000;

// Linux 6.13's struct pidfd_info, first published form; Debian 12's headers do not have it yet.
struct PidfdInfo {
  uint64_t mask = 1 << 3;  // the exit status, which the kernel knows once the process has been reaped
  uint64_t cgroup = 0;
  uint32_t ids[11] = {};
  int32_t exit_code = 0;
};

std::string exit_text(int status) {
  if (WIFSIGNALED(status)) return fmt::format("was killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  return fmt::format("exited with {}", WEXITSTATUS(status));
}

// How a process ended, as far as anybody but its parent can know.
std::string how_it_ended(int watch, uint32_t goodbye) {
  if ((goodbye & 0xff) == static_cast<uint32_t>(Goodbye::exiting)) return fmt::format("exited with {}", goodbye >> 8 & 0xff);
  if ((goodbye & 0xff) == static_cast<uint32_t>(Goodbye::left)) return "left";
  PidfdInfo info;
  if (ioctl(watch, _IOWR(0xff, 11, PidfdInfo), &info) == 0 && info.mask & 1 << 3) return exit_text(info.exit_code);
  return "died, cause unknown (its launcher knows)";
}

}  // namespace

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

void World::run_progress() try {
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
} catch (const std::exception& error) {
  log_.write(LogLevel::error, fmt::format("the progress thread met a bug and stops: {}", error.what()));
}

void World::run_control() try {
  Descriptor epoll(epoll_create1(EPOLL_CLOEXEC));
  auto add = [&](int descriptor, int64_t token, uint32_t events = EPOLLIN) {
    epoll_event event{events, {.u64 = static_cast<uint64_t>(token)}};
    if (descriptor >= 0) epoll_ctl(epoll.number(), EPOLL_CTL_ADD, descriptor, &event);
  };
  const int64_t stop_token = -1, listener_token = -2, visitor_token = -3;  // visitors: less their socket
  add(stop_.number(), stop_token);
  add(joined_.listener.number(), listener_token);
  for (int peer = 0; peer < size(); ++peer) add(joined_.watches[static_cast<size_t>(peer)].number(), peer);
  LateVisitors visitors(joined_, request_);
  while (!stopping_.load(std::memory_order_acquire)) {
    epoll_event events[16];
    int count = epoll_wait(epoll.number(), events, 16, control_period_ms);
    for (int index = 0; index < count; ++index) {
      auto token = static_cast<int64_t>(events[index].data.u64);
      if (token == listener_token)
        for (int socket : visitors.welcome()) add(socket, visitor_token - socket, EPOLLIN | EPOLLONESHOT);
      if (token <= visitor_token) visitors.answer(static_cast<int>(visitor_token - token));
      if (token < 0) continue;
      epoll_ctl(epoll.number(), EPOLL_CTL_DEL, joined_.watches[static_cast<size_t>(token)].number(), nullptr);
      member_died(static_cast<int>(token));
    }
    visitors.dismiss_silent();
    if (count == 0) look_after_idle_groups();
  }
} catch (const std::exception& error) {
  log_.write(LogLevel::error, fmt::format("the control thread met a bug and stops: {}", error.what()));
}

void World::member_died(int peer) {
  const auto index = static_cast<size_t>(peer);
  std::string how = how_it_ended(joined_.watches[index].number(), joined_.neighbours[index].head().goodbye.load(std::memory_order_acquire));
  log_.info(fmt::format("rank {} (pid {}) {}", peer, joined_.neighbours[index].pid, how));
  {
    std::lock_guard lock(mutex_);  // held throughout, so that no lane is given back meanwhile
    lost_[index] = how;
    auto tell = [peer](Group& group) {
      if (int member = group.index_of(peer); member >= 0) group.member_lost(member);
    };
    for (auto& entry : groups_) tell(*entry.second);
    for (auto& group : retired_) tell(*group);
  }
  ring_bell(head());  // whoever is waiting for it to make a group
}

// Watches go after `left_` was set, which the mutex orders.
bool World::has_ended(int rank) const {
  std::lock_guard lock(mutex_);
  const auto index = static_cast<size_t>(rank);
  if (left_ || !lost_[index].empty()) return !lost_[index].empty();
  pollfd watch{joined_.watches[index].number(), POLLIN, 0};
  return poll(&watch, 1, 0) == 1;
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
