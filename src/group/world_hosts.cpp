// Hosts that fall silent: who watches them (host_watch.hpp), and how all ranks hear of it. The watchers of a host are the two lowest ranks that are there and whose control
// threads look around: one may stop at any time, and where it does so for two seconds, the next one watches, too. More of them do no harm: each says what it sees.
//
// Who writes: each rank its own beat and its own bits, which the others of its host read. Order: none is needed, a bit is the whole message.
#include <fmt/format.h>

#include "group/world.hpp"

namespace unisono {
namespace {

constexpr int64_t beats_within_ns = 2'000'000'000;
constexpr int watchers = 2;

}  // namespace

bool World::is_silent(int rank) const {
  std::lock_guard lock(mutex_);
  return silent_hosts_.contains(hosts().of(rank));
}

bool World::is_watcher() const {
  const int64_t now = now_ns();
  int before_me = 0;
  for (int mate : hosts().ranks_on(hosts().of(rank()))) {
    if (mate == rank() || before_me == watchers) break;
    const bool beats = now - joined_.neighbours[static_cast<size_t>(mate)].head().beat_ns.load(std::memory_order_relaxed) < beats_within_ns;
    before_me += beats && how_lost(mate).empty();
  }
  return before_me < watchers;
}

void World::look_after_hosts() {
  const int words = (hosts().count() + 63) / 64;
  for (int mate : hosts().ranks_on(hosts().of(rank()))) {
    if (mate == rank()) continue;
    for (int word = 0; word < words; ++word) {
      uint64_t bits = joined_.neighbours[static_cast<size_t>(mate)].head().silent_hosts[word].load(std::memory_order_relaxed);
      for (; bits != 0; bits &= bits - 1) host_silent(64 * word + std::countr_zero(bits), mate);
    }
  }
  auto is_lost = [this](int rank) { return !how_lost(rank).empty(); };
  for (const HostWatch::News& news : host_watch_->look(is_watcher(), is_lost)) {
    const std::span<const int> ranks = hosts().ranks_on(news.host);
    const Neighbour& first = joined_.neighbours[static_cast<size_t>(ranks.front())];
    if (news.kind == HostWatch::News::Kind::late)
      log_.warning(fmt::format("the machine of ranks [{}] ({}) has not answered for {:.0f} s; if it stays so, they count as silent after {} s",
                               fmt::join(ranks, ", "), first.process(), news.quiet_s, HostWatch::silent_ns / 1'000'000'000));
    if (news.kind == HostWatch::News::Kind::back)
      log_.warning(fmt::format("the machine of ranks [{}] ({}) answers again", fmt::join(ranks, ", "), first.process()));
    if (news.kind == HostWatch::News::Kind::silent) host_silent(news.host, rank());
  }
}

// Told on by whoever has seen it itself; a mate's word is read here, and one of another host has told everybody.
void World::host_silent(int host, int seen_by) {
  if (host >= hosts().count() || hosts().of(seen_by) == host) return;
  if (host == hosts().of(rank())) {
    log_.warning(fmt::format("rank {} says that the machine of this rank is silent; has the network been cut in two?", seen_by));
    return;
  }
  if (is_silent(seen_by) || is_silent(hosts().ranks_on(host).front())) return;
  if (seen_by == rank()) {
    head().silent_hosts[host / 64].fetch_or(uint64_t{1} << host % 64, std::memory_order_relaxed);
    Notice notice;
    notice.head = {.kind = NoticeHead::Kind::silent, .rank = hosts().ranks_on(host).front()};
    remotes_->tell_all(notice);
  }
  const std::string how = how_silent(host, seen_by);
  for (int other : hosts().ranks_on(host)) {
    remotes_->give_up(other);
    doubts_.erase(other);
    if (how_lost(other).empty()) member_lost(other, how);
  }
  std::lock_guard lock(mutex_);
  host_watch_->forget(host);
  silent_hosts_.insert(host);  // last: where memory ran out before, all of it is done again
}

std::string World::how_silent(int host, int seen_by) const {
  const std::span<const int> ranks = hosts().ranks_on(host);
  std::string how = fmt::format("is silent: its machine, with rank{} {}, has answered nothing for {} s, as rank {} saw", ranks.size() == 1 ? "" : "s",
                                fmt::join(ranks, ", "), HostWatch::silent_ns / 1'000'000'000, seen_by);
  int left = 0;
  for (int other = 0; other < size(); ++other) left += hosts().of(other) != host && !host_watch_->is_late(hosts().of(other)) && how_lost(other).empty();
  if (2 * left > size()) return how;
  return how + fmt::format("; {} of {} ranks are left on this side, which may be the smaller side of a network that was cut in two", left, size());
}

}  // namespace unisono
