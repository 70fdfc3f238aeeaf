// See remotes.hpp.
#include "group/remotes.hpp"

#include <poll.h>

#include "base/legible.hpp"

namespace unisono {
namespace {

constexpr SocketUse notices{.group = 0, .use = link_uses, .sealed = 1};  // beside those of groups
constexpr size_t most_waiting = 4096;                       // notices to one that does not listen; then what only helps is left out

}  // namespace

Remotes::Remotes(std::span<const Neighbour> everybody, int me, const Ways& ways, std::function<void()> wake)
    : wake_(std::move(wake)), peers_(everybody.size()) {
  for (const Neighbour& other : everybody) {
    if (other.is_here()) continue;
    auto stream = socket_between(*ways.sockets, everybody[static_cast<size_t>(me)], other, notices);
    peer(other.rank).channel = std::make_unique<StreamChannel>(std::move(stream));
    ranks_.push_back(other.rank);
  }
}

// Whatever has left need not be kept any more.
void Remotes::move(Peer& peer) {
  peer.channel->turn();
  for (; peer.left < peer.channel->sent(); ++peer.left) peer.telling.pop_front();
}

void Remotes::tell(int rank, const Notice& notice) {
  std::lock_guard lock(mutex_);
  Peer& to = peer(rank);
  if (!to.channel || (to.telling.size() >= most_waiting && is_repeated(notice.head.kind))) return;
  to.telling.push_back(notice);
  Notice& kept = to.telling.back();
  kept.head.bytes = static_cast<uint32_t>(kept.body.size());
  to.channel->post_send(std::as_bytes(std::span(&kept.head, 1)), kept.body);
  move(to);
  if (to.channel->sending() || to.channel->receiving()) to.channel->arm();  // perhaps it was connected just now
  if (to.part != Peer::Part::none && !to.channel->receiving()) wake_();      // a turn may also receive
}

void Remotes::tell_all(const Notice& notice) {
  for (int rank : ranks_) tell(rank, notice);
}

// What cannot be ends the connection: the rest would be read wrongly.
bool Remotes::end(Peer& from, const Status& why) {
  from.channel.reset();
  from.why = legible(why.message());
  return false;
}

// One notice, if all of it is there.
bool Remotes::hear(Peer& from, std::deque<Heard>& heard, int rank) {
  Channel& channel = *from.channel;
  const auto head = std::as_writable_bytes(std::span(&from.hearing.head, 1));
  if (from.part == Peer::Part::none) {
    channel.post_receive(head);
    from.part = Peer::Part::head;
  }
  move(from);
  if (channel.receiving()) return false;
  if (from.part == Peer::Part::head) {
    if (const Status status = check_head(from.hearing.head); !status.ok()) return end(from, status);
    from.hearing.body.resize(from.hearing.head.bytes);
    from.part = Peer::Part::body;
    channel.post_receive(from.hearing.body);
    move(from);
    if (channel.receiving()) return false;
  }
  if (const Status status = check_notice(from.hearing, static_cast<int>(peers_.size())); !status.ok()) return end(from, status);
  heard.emplace_back();  // where there is no memory for it, all is as it was
  heard.back() = {rank, std::move(from.hearing)};
  from.part = Peer::Part::none;
  from.hearing = {};
  return true;
}

void Remotes::listen(News& news) {
  std::lock_guard lock(mutex_);
  for (int rank : ranks_) {
    Peer& from = peer(rank);
    if (!from.channel) continue;
    while (hear(from, news.heard, rank)) continue;
    if (!from.channel || !from.channel->state().ok()) {
      news.ended.push_back({rank, std::move(from.why)});
      from = {};
    } else {
      from.channel->arm();
    }
  }
}

bool Remotes::has_ended(int rank) {
  std::lock_guard lock(mutex_);
  return !peer(rank).channel;
}

void Remotes::give_up(int rank) {
  std::lock_guard lock(mutex_);
  peer(rank) = {};
}

bool Remotes::all_is_told() {
  std::lock_guard lock(mutex_);
  bool all = true;
  for (int rank : ranks_) {
    Peer& to = peer(rank);
    if (!to.channel) continue;
    move(to);
    all &= to.telling.empty() || !to.channel->state().ok();
  }
  return all;
}

void Remotes::finish(const std::function<void()>& let_in, const Deadline& by) {
  constexpr double patience_s = 2;
  constexpr int look_again_ms = 1;
  for (const Deadline deadline = earlier(Deadline::in_seconds(patience_s), by); !all_is_told() && !deadline.passed(); let_in()) poll(nullptr, 0, look_again_ms);
}

void Remotes::close() {
  std::lock_guard lock(mutex_);
  for (int rank : ranks_) peer(rank) = {};
}

}  // namespace unisono
