// What the ranks of a BreakingWorld do: calls as a group makes them, and what is heard from others. Who is to blame for what, and what is looked for in the end: breaking_world.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "group/owed.hpp"
#include "tests/torture/breaking_rank.hpp"

namespace unisono::testing {

// What a group does of a call at a time. False where nothing has changed.
bool BreakingWorld::turn(int one) {
  Rank& me = rank(one);
  if (!can_act(one) || me.failed) {
    if (can_act(one) && dice_.chance(3)) return leave(one), true;
    return false;
  }
  if (!me.waits) {
    if (me.number == shapes_.size()) {
      if (trouble_ == Trouble::one && culprits_.empty() && dice_.chance(2)) return cause(Cause::death, one), true;
      if (!dice_.chance(5)) return false;
      return leave(one), true;
    }
    if (me.members->is_broken()) return fail(one), true;
    me.waits = true;
    me.announced = false;
    me.shape = shapes_[me.number];
    ++me.number;
    me.got.clear();
    me.asked.clear();
    if (std::exchange(me.differs_next, false)) {
      differs_ = true;
      me.shape.root = (me.shape.root + 1) % count();
    }
    me.has_refused = std::exchange(me.refuses_next, false);
    me.word = me.has_refused ? make_word(me.number, 9999) : word_of(me.number, me.shape);
  }
  if (!me.announced && begin(one)) return true;
  if (me.announced && receive(one)) return true;
  if (!me.alive || examine(one).ok()) return false;
  fail(one);
  return true;
}

bool BreakingWorld::begin(int one) {
  Rank& me = rank(one);
  for (int mate : me.members->mates())
    if (!at_least(call_of(me.members->word(mate, me.number - 1)), me.number - 1)) return false;
  Announcement announcement{};
  announcement.state = me.has_refused ? CallState::refused : CallState::entered;
  me.members->write(me.number, announcement);
  me.members->announce(me.number, me.word);
  me.announced = true;
  if (me.has_refused) {
    static_cast<void>(break_group(one, ErrorCode::peer_argument, fmt::format("rank {} refused call {}", one, me.number), {one}));
    fail(one);
    return true;
  }
  me.history = (me.history ^ me.word) * 0x9e3779b97f4a7c15;
  for (int other = 0; other < count(); ++other)
    if (needs(me.shape, other, one) && !is_apart(one, other)) data_[{one, other}].push_back({me.word, me.history});
  return true;
}

// Frames of other calls are left where they are, and examined.
bool BreakingWorld::receive(int one) {
  Rank& me = rank(one);
  bool any = false, all = true;
  for (int other = 0; other < count(); ++other) {
    if (!needs(me.shape, one, other) || me.got.contains(other)) continue;
    auto& wire = data_[{other, one}];
    if (!wire.empty() && wire.front().word == me.word && wire.front().history == me.history) {
      wire.pop_front();
      me.got.insert(other);
      any = true;
    } else {
      all = false;
    }
  }
  if (!all) return any;
  me.waits = false;
  me.members->finish(me.number);
  return true;
}

// In the order of Group::examine().
Status BreakingWorld::examine(int one) {
  Rank& me = rank(one);
  Members& members = *me.members;
  const bool broken = flaw_ == BreakingFlaw::own_word_alone ? members.is_broken() : members.learn_fault();
  if (broken) return members.fault();
  for (int other = 0; other < count() && me.announced; ++other)
    if (const uint64_t word = members.word(other, me.number); call_of(word) == me.number && word != me.word) {
      if (members.announcement(other, me.number).state == CallState::refused)
        return break_group(one, ErrorCode::peer_argument, fmt::format("rank {} refused call {}", other, me.number), {other});
      return break_group(one, ErrorCode::mismatch, fmt::format("ranks {} and {} differ in call {}", one, other, me.number), {one, other});
    }
  for (int other = 0; other < count() && me.announced; ++other) {
    const auto& wire = data_[{other, one}];
    if (!needs(me.shape, one, other) || me.got.contains(other) || wire.empty()) continue;
    if (const uint64_t word = wire.front().word; call_of(word) != me.number || word == me.word)
      return break_group(one, ErrorCode::mismatch, fmt::format("ranks {} and {} have differed, before call {}", one, other, me.number), {});
    if (me.asked.insert(other).second) members.ask_about(me.number, other, {});
    if (is_quiet_) return break_group(one, ErrorCode::mismatch, fmt::format("rank {} differs from rank {} in call {}, and does not say how", other, one, me.number), {one, other});
  }
  for (int other = 0; other < count(); ++other) {
    if (other == one || members.presence(other) == Presence::here || !is_needed(one, other)) continue;
    const bool left = members.presence(other) == Presence::left;
    return break_group(one, ErrorCode::peer_lost, fmt::format("rank {} {}, as rank {} sees in call {}", other, left ? "left" : "died", one, me.number), {other});
  }
  for (int other = 0; other < count(); ++other)  // whose connection has ended, which nobody sees where the wire is cut
    if (is_quiet_ && me.announced && is_awaited(one, other) && members.presence(other) != Presence::here && !is_apart(one, other))
      return break_group(one, ErrorCode::peer_lost, fmt::format("the way to rank {} is lost, as rank {} sees in call {}", other, one, me.number), differs_ ? std::set<int>() : std::set{other});
  return Status::success();
}

// Nothing of it has come, nor is it on its way.
bool BreakingWorld::is_awaited(int one, int other) {
  return needs(rank(one).shape, one, other) && !rank(one).got.contains(other) && data_[{other, one}].empty();
}

// As Group::owed_by_gone().
bool BreakingWorld::is_needed(int one, int other) {
  const Members& members = *rank(one).members;
  const bool knows = members.knows_how_far(other);
  return owed_by({.is_here = members.is_here(other),
                  .knows_how_far = knows,
                  .has_finished = knows && at_least(members.finished(other), rank(one).number),
                  .is_silent = is_apart(one, other),
                  .is_awaited = rank(one).announced && is_awaited(one, other),
                  .has_no_more = data_[{other, one}].empty(),
                  .has_been_waited_for = is_quiet_}) != Owed::nothing;
}

Status BreakingWorld::break_group(int one, ErrorCode code, const std::string& what, std::set<int> named) {
  Rank& me = rank(one);
  std::vector<int> unaware;
  for (int mate : me.members->mates())
    if (!rank(mate).members->is_broken()) unaware.push_back(mate);
  reported_.emplace(what, std::move(named));
  if (!me.members->revoke({code, what, one})) wrong(fmt::format("rank {} could not break the group", one));
  if (me.ends_after == 0 && !me.members->span_hosts()) me.is_only_stopped ? stop(one, true) : die(one);
  if (!me.alive || me.stopped) {  // that was meanwhile; perhaps before it had told its mates
    for (int mate : unaware)
      if (dice_.chance(50)) hosts_.lane(mate).abort.store(0);
  }
  return me.members->fault();
}

// The call is over, with an error.
void BreakingWorld::fail(int one) {
  Rank& me = rank(one);
  if (!me.alive || me.stopped) return;  // it was stopped while it told: it hears of it later
  if (me.waits) me.members->finish(me.number);
  me.waits = false;
  me.failed = true;
  if (dice_.chance(40)) leave(one);
}

void BreakingWorld::leave(int one) {
  Rank& me = rank(one);
  if (me.left || !me.alive) return;
  me.telling = Rank::Telling::leaving;
  me.members->say_leaving();
  me.members->say_left();
  me.telling = Rank::Telling::call;
  me.left = true;
  me.waits = false;
}

void BreakingWorld::ask(int one) {
  Rank& me = rank(one);
  if (!can_act(one) || !me.waits || !me.members->span_hosts()) return;
  if (me.announced) me.members->tell_call(me.number, {});
  else me.members->ask_occupations();
}

bool BreakingWorld::deliver(int from, int to) {
  auto& wire = wires_[{from, to}];
  if (wire.empty() || (rank(to).stopped && rank(to).alive)) return false;
  const Notice notice = std::move(wire.front());
  wire.pop_front();
  if (rank(to).alive) told(from, to, notice);
  return true;
}

// As World and Group pass them on.
void BreakingWorld::told(int from, int to, const Notice& notice) {
  Rank& me = rank(to);
  me.telling = Rank::Telling::answer;
  const int about = notice.head.rank;
  switch (notice.head.kind) {
    case NoticeHead::Kind::announced: me.members->told_call(about < 0 ? from : about, notice); break;
    case NoticeHead::Kind::left: me.members->told_left(from, notice); break;
    case NoticeHead::Kind::ballots: me.members->told_ballots(from, notice); break;
    case NoticeHead::Kind::ended: me.members->told_how_far(about, notice); break;
    case NoticeHead::Kind::fault: me.members->told_fault(notice); break;
    case NoticeHead::Kind::lost: me.told_lost.insert(about); break;
    default: wrong("a notice that nobody tells");
  }
  me.telling = Rank::Telling::call;
}

// An end is believed when all has been heard that the one who ended had said, and what its mates say of it.
bool BreakingWorld::notice_losses(int one) {
  Rank& me = rank(one);
  if (!me.alive || me.stopped) return false;
  bool any = false;
  for (int other = 0; other < count() && me.alive; ++other) {
    if (other == one || me.lost.contains(other) || (rank(other).alive && !is_apart(one, other))) continue;
    const bool is_here = rank(other).host == me.host;
    auto may_tell = [&](const auto& each) { return each->alive && each->host == rank(other).host && !is_apart(one, each->me); };
    if (!is_here && (!wires_[{other, one}].empty() || (!me.told_lost.contains(other) && std::ranges::any_of(ranks_, may_tell)))) continue;
    any = true;
    me.lost.insert(other);
    me.telling = Rank::Telling::death;
    me.members->mark_died(other);
    me.telling = Rank::Telling::call;
    Notice lost;
    lost.head = {.kind = NoticeHead::Kind::lost, .rank = other};
    for (int third = 0; is_here && third < count(); ++third)
      if (rank(third).host != me.host) me.tell(third, lost);
  }
  return any;
}

}  // namespace unisono::testing
