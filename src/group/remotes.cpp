// See remotes.hpp.
#include "group/remotes.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>

#include "base/legible.hpp"
#include "unisono/settings.hpp"

namespace unisono {
namespace {

constexpr size_t most_waiting = 4096;  // notices to one that does not listen; then what only helps is left out
constexpr uint64_t said_each = 32;     // notices after which it is said that they were heard

// Connections to one rank are numbered around. With two ends that open one each it is soon clear which is the later.
constexpr int numbers = most_sockets_per_peer;
SocketUse notices(int number) { return {.group = 0, .use = link_uses, .sealed = 1, .number = number, .of = numbers}; }  // beside those of groups
bool is_later(int number, int than) {
  const int ahead = (number - than + numbers) % numbers;
  return ahead != 0 && ahead < numbers / 2;
}

}  // namespace

Remotes::Remotes(std::span<const Neighbour> everybody, int me, const Ways& ways, std::function<void()> wake)
    : everybody_(everybody), me_(me), sockets_(ways.sockets), wake_(std::move(wake)), peers_(everybody.size()) {
  for (const Neighbour& other : everybody) {
    if (other.is_here()) continue;
    connect(other.rank, 0);
    ranks_.push_back(other.rank);
  }
}

void Remotes::connect(int rank, int number) {
  Peer& to = peer(rank);
  to.channel.reset();  // first: what it was to send lies in the notices
  to.channel = std::make_unique<StreamChannel>(socket_between(*sockets_, everybody_[static_cast<size_t>(me_)], everybody_[static_cast<size_t>(rank)], notices(number)));
  to.number = number;
  to.part = Peer::Part::none;
  to.hearing = {};
  to.has_ended = false;
}

// What the other end has heard need not be kept, once nothing of it is on its way any more.
void Remotes::move(Peer& peer) {
  peer.channel->turn();
  if (peer.channel->sending()) return;
  for (; peer.forgotten < peer.forgets; ++peer.forgotten) peer.telling.pop_front();
}

void Remotes::post(Peer& to, const Notice& kept) { to.channel->post_send(std::as_bytes(std::span(&kept.head, 1)), kept.body); }

void Remotes::say_heard(Peer& to) {
  const NoticeHead head{.kind = NoticeHead::Kind::heard, .group = to.heard};
  to.channel->post_send(std::as_bytes(std::span(&head, 1)), {});  // which copies it
  to.said = to.heard;
}

void Remotes::tell(int rank, const Notice& notice) {
  std::lock_guard lock(mutex_);
  Peer& to = peer(rank);
  if (!to.channel || (to.telling.size() >= most_waiting && is_repeated(notice.head.kind))) return;
  to.telling.push_back(notice);
  Notice& kept = to.telling.back();
  kept.head.bytes = static_cast<uint32_t>(kept.body.size());
  if (to.has_ended || to.resumes) return;  // it goes with what is told again
  post(to, kept);
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

// On a new connection all that the other end has not heard is told again.
Status Remotes::note_heard(Peer& to, uint64_t count) {
  if (count < to.forgets || count > to.forgotten + to.telling.size())
    return {ErrorCode::protocol, fmt::format("it has heard {} notices, after {} of {}", count, to.forgets, to.forgotten + to.telling.size())};
  to.forgets = count;
  if (!to.resumes) return Status::success();
  for (; to.forgotten < count; ++to.forgotten) to.telling.pop_front();
  to.resumes = false;
  for (const Notice& kept : to.telling) post(to, kept);
  return Status::success();
}

// One notice, if all of it is there.
bool Remotes::hear(int rank, News& news) {
  Peer& from = peer(rank);
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
  const bool is_count = from.hearing.head.kind == NoticeHead::Kind::heard;
  if (from.resumes && !is_count) return end(from, {ErrorCode::protocol, "it does not say how many notices it has heard"});
  if (is_count) {
    if (from.resumes) news.back.push_back(rank);  // first: where there is no memory for it, all is as it was; and so below
    if (const Status status = note_heard(from, from.hearing.head.group); !status.ok()) return end(from, status);
  } else {
    news.heard.emplace_back();
    news.heard.back() = {rank, std::move(from.hearing)};
    ++from.heard;
    if (from.heard - from.said >= said_each) say_heard(from);
  }
  from.part = Peer::Part::none;
  from.hearing = {};
  return true;
}

// Whose connection has ended for the other end, and not for this one as yet.
void Remotes::take_arrived() {
  for (const SocketKey& key : sockets_->waiting(link_uses)) {
    const bool is_member = std::ranges::find(ranks_, key.from) != ranks_.end();
    if (is_member && peer(key.from).channel && key.number == peer(key.from).number) continue;  // it is fetched by whom it is for
    if (!is_member || !peer(key.from).channel || !is_later(key.number, peer(key.from).number)) {
      static_cast<void>(sockets_->arrived(key));  // which closes it
      continue;
    }
    connect(key.from, key.number);
    peer(key.from).resumes = true;
    say_heard(peer(key.from));
  }
}

void Remotes::listen(News& news) {
  std::lock_guard lock(mutex_);
  take_arrived();
  for (int rank : ranks_) {
    Peer& from = peer(rank);
    if (!from.channel || from.has_ended) continue;
    while (hear(rank, news)) continue;
    if (!from.channel) {
      news.ended.push_back({rank, std::move(from.why)});
      from = {};
    } else if (!from.channel->state().ok()) {
      news.ended.push_back({rank, ""});
      from.has_ended = true;
    } else {
      from.channel->arm();  // no turn since it was heard: that might have received the rest of a notice, which nobody would look at
    }
  }
}

bool Remotes::has_ended(int rank) {
  std::lock_guard lock(mutex_);
  const Peer& of = peer(rank);
  return !of.channel || of.has_ended || of.resumes;
}

bool Remotes::is_opening(int rank) {
  std::lock_guard lock(mutex_);
  const Peer& of = peer(rank);
  return of.channel && of.resumes && !of.has_ended && !everybody_[static_cast<size_t>(rank)].where.out_of_reach;
}

void Remotes::reopen(int rank) {
  std::lock_guard lock(mutex_);
  Peer& to = peer(rank);
  const bool rests = to.rests_until.at_ns != never_ns && !to.rests_until.passed();
  if (!to.channel || !to.has_ended || rests) return;
  to.rests_until = Deadline::in_seconds(0.1);
  connect(rank, (to.number + 1) % numbers);
  to.resumes = true;
  say_heard(to);
  move(to);
  to.channel->arm();
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
    all &= to.has_ended || !to.channel->state().ok() || !(to.resumes || to.channel->sending());
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
