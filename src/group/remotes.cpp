// See remotes.hpp.
#include "group/remotes.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>

#include "base/clock.hpp"
#include "base/legible.hpp"

namespace unisono {
namespace {

constexpr size_t most_waiting = 4096;  // notices to one that does not listen; then what only helps is left out
constexpr uint64_t said_each = 32;     // notices after which it is said that they were heard
constexpr double rests_s = 0.1;        // between two attempts to open a connection
constexpr double least_patience_s = 1, most_patience_s = 60;  // with one: its other end may not know any more that there is one, or not run

SocketUse notices(int number) { return {.group = 0, .use = link_uses, .sealed = 1, .number = number}; }  // beside those of groups

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
  const Neighbour& me = everybody_[static_cast<size_t>(me_)];
  to.channel = std::make_unique<StreamChannel>(socket_between(*sockets_, me, everybody_[static_cast<size_t>(rank)], notices(number)));
  to.number = number;
  to.latest = std::max(to.latest, number);
  to.part = Peer::Part::none;
  to.hearing = {};
}

// What was refused before says nothing of now.
void Remotes::note_unheard(int rank) {
  Peer& of = peer(rank);
  if (of.unheard_ns != 0) return;
  of.unheard_ns = now_ns();
  sockets_->with_proofs([rank](Proofs& proofs) { proofs.forget_refusals(rank); });
}

// What the channel before it was to send lies in the notices. Where memory runs out on the way, nobody can speak by it, and it is tried again.
void Remotes::resume(int rank, int number) {
  Peer& to = peer(rank);
  note_unheard(rank);
  to.has_ended = to.resumes = true;
  to.patience_s = std::clamp(2 * to.patience_s, least_patience_s, most_patience_s);
  to.speaks_by = Deadline::in_seconds(to.patience_s);
  connect(rank, number);
  say_heard(to);
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
  try {
    post(to, kept);
  } catch (const std::bad_alloc&) {
    to.telling.pop_back();  // whoever wanted it told does it again
    throw;
  }
  move(to);
  if (!to.channel->state().ok()) return wake_();  // else nobody would look before something comes
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
  to.has_ended = true;  // where memory runs out for one of them, the rest cannot go by this connection
  for (const Notice& kept : to.telling) post(to, kept);
  to.has_ended = to.resumes = false;
  to.spoken = to.number;
  to.patience_s = 0;
  to.unheard_ns = 0;
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
  bool says_heard = false;
  if (from.resumes && !is_count) return end(from, {ErrorCode::protocol, "it does not say how many notices it has heard"});
  if (is_count) {
    if (from.resumes) news.back.push_back(rank);  // first: where there is no memory for it, all is as it was; and so below
    if (const Status status = note_heard(from, from.hearing.head.group); !status.ok()) return end(from, status);
  } else {
    const bool is_goodbye = from.hearing.head.kind == NoticeHead::Kind::goodbye;
    news.heard.emplace_back();
    news.heard.back() = {rank, std::move(from.hearing)};
    ++from.heard;
    from.has_left |= is_goodbye;
    says_heard = is_goodbye || from.heard - from.said >= said_each;
  }
  from.part = Peer::Part::none;
  from.hearing = {};
  if (says_heard) say_heard(from);  // last: where there is no memory for it, it is said with the next
  return true;
}

// Whether a connection with that number is to take the place of this one; `fetches`: it comes to this one, or to none while this one is on its way.
bool Remotes::wants(int rank, int number, bool& fetches) {
  const Peer& to = peer(rank);
  const bool is_alive = !to.has_ended && to.channel->state().ok();
  const bool only_waits = to.resumes && everybody_[static_cast<size_t>(rank)].where.out_of_reach;
  fetches = is_alive && (number == to.number || (to.resumes && !only_waits && number > to.spoken));
  return number > to.number || (!fetches && (!is_alive || only_waits) && number > to.spoken);
}

// Whose connection has ended for the other end, and not for this one as yet.
void Remotes::take_arrived() {
  for (const SocketKey& key : sockets_->waiting(link_uses)) {
    const bool is_member = std::ranges::find(ranks_, key.from) != ranks_.end();
    bool fetches = false;
    if (is_member && peer(key.from).channel && wants(key.from, key.number, fetches)) resume(key.from, key.number);
    else if (!fetches) static_cast<void>(sockets_->arrived(key));  // which closes it
  }
}

void Remotes::hear_all(int rank, News& news) {
  Peer& from = peer(rank);
  while (!from.has_ended && hear(rank, news)) continue;
  if (!from.channel || from.has_ended || from.channel->state().ok()) return;
  from.has_ended = true;
  note_unheard(rank);
}

void Remotes::listen(News& news) {
  std::lock_guard lock(mutex_);
  take_arrived();
  for (int rank : ranks_) {
    Peer& from = peer(rank);
    if (!from.channel) continue;
    hear_all(rank, news);
    if (!from.channel) {
      news.ended.push_back({rank, true, std::move(from.why)});
      from = {};
    } else if (from.has_ended) {
      news.ended.push_back({rank, false, from.channel->state().message()});
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

int64_t Remotes::unheard_ns(int rank) {
  std::lock_guard lock(mutex_);
  return peer(rank).unheard_ns;
}

size_t Remotes::kept(int rank) {
  std::lock_guard lock(mutex_);
  return peer(rank).telling.size();
}

bool Remotes::is_refused(int rank) const {
  return sockets_->with_proofs([rank](const Proofs& proofs) { return proofs.is_refused(rank); });
}

// Also where an address was refused and another has not answered yet: whether the first is refused again tells whether the rank is there. And where somebody answers, and then
// says nothing for a while: what was reset for that end alone, this one does not hear of.
void Remotes::try_again(int rank) {
  Peer& to = peer(rank);
  const bool rests = to.rests_until.at_ns != never_ns && !to.rests_until.passed();
  const bool hangs = to.resumes && (is_refused(rank) || to.speaks_by.passed()) && !everybody_[static_cast<size_t>(rank)].where.out_of_reach;
  const bool is_asked = to.has_ended || hangs;
  if (!to.channel || rests || !is_asked) return;
  to.rests_until = Deadline::in_seconds(rests_s);
  resume(rank, to.latest + 1);
  move(to);
  to.channel->arm();
}

void Remotes::reopen(int rank) {
  std::lock_guard lock(mutex_);
  try_again(rank);
}

void Remotes::give_up(int rank) {
  std::lock_guard lock(mutex_);
  peer(rank) = {};
}

// Who has said goodbye wants to know nothing more; whom its kernel refuses is not there.
bool Remotes::is_told(int rank) {
  Peer& to = peer(rank);
  if (!to.channel || to.has_left) return true;
  if (to.has_ended || to.resumes) return sockets_->with_proofs([rank](const Proofs& proofs) { return proofs.is_refused_again(rank); });
  return !to.channel->sending() && to.channel->is_delivered();
}

bool Remotes::all_is_told() {
  std::lock_guard lock(mutex_);
  take_arrived();
  bool all = true;
  for (int rank : ranks_) {
    News unheard;
    if (peer(rank).channel) hear_all(rank, unheard);
    const bool is_told = this->is_told(rank);
    if (!is_told) try_again(rank);
    all &= is_told;
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
