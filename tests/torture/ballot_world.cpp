// See ballot_world.hpp.
#include "tests/torture/ballot_world.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace unisono::testing {
namespace {

constexpr int storm_actions = 1500, calm_actions = 60'000;

std::vector<int> layout(Dice& dice, int members) {
  const int hosts = dice.between(1, std::min(members, 5));
  std::vector<int> host_of;
  for (int member = 0; member < members; ++member) host_of.push_back(dice.between(0, hosts - 1));
  return host_of;
}

std::vector<int> listed(const MemberSet& set, int members) {
  std::vector<int> list;
  for (int member = 0; member < members; ++member)
    if (set.contains(member)) list.push_back(member);
  return list;
}

}  // namespace

BallotWorld::BallotWorld(uint64_t seed, Flaw flaw) : dice_(seed), flaw_(flaw), members_(dice_.between(2, 8)), hosts_(layout(dice_, members_)), may_cut_(dice_.chance(60)), hasty_(dice_.chance(40)), contrary_(dice_.chance(40)) {
  const auto hosts = static_cast<size_t>(hosts_.count());
  const int agrees = dice_.between(0, contrary_ ? 20 : 4);
  records_.assign(hosts, HostRecord(members_));
  votes_.resize(static_cast<size_t>(members_));
  cut_.assign(hosts * hosts, false);
  processes_.resize(static_cast<size_t>(members_));
  for (int member = 0; member < members_; ++member) {
    Process& each = process(member);
    each.host = hosts_.of(member);
    each.known = records_;
    each.votes = votes_;
    each.gone = MemberSet(members_);
    each.given_up.assign(hosts, false);
    each.agrees_left = agrees;  // all make the same calls
    each.topic = each.agrees_left > 0 ? Topic::agree : Topic::shrink;
    vote(member, each.topic == Topic::agree && dice_.chance(80));
  }
}

void BallotWorld::run() {
  for (int action = 0; action < storm_actions && found_.empty(); ++action) act();
  is_calm_ = true;
  cut_.assign(cut_.size(), false);
  for (Process& each : processes_) each.stopped = false;
  auto waits = [](const Process& each) { return each.alive && each.state == State::voting; };
  for (int action = 0; action < calm_actions && found_.empty() && std::ranges::any_of(processes_, waits); ++action) act();
  auto has_given_up = [](const Process& each) { return each.alive && (each.state == State::revoked || each.state == State::failed); };
  if (ever_cut_ || !found_.empty() || std::ranges::any_of(processes_, has_given_up)) return;  // who waits for one that gave up has a deadline
  for (int member = 0; member < members_; ++member)
    if (waits(process(member))) wrong(fmt::format("rank {} waits for ever", member));
}

void BallotWorld::act() {
  const int member = dice_.between(0, members_ - 1);
  Process& me = process(member);
  const int what = dice_.between(0, 99);
  if (what < 50) return deliver();
  if (what >= 97 && !is_calm_) return break_something();
  if (!me.alive || me.stopped) return;
  if (what < 75) return look(member);
  if (what < 85) return notice_ends(member);
  if (me.state != State::voting) return;
  const int other = dice_.between(0, members_ - 1);  // who waits asks, and is answered
  send(member, other);
  send(other, member);
}

void BallotWorld::send(int from, int to) {
  if (!process(from).alive || process(from).stopped || process(from).host == process(to).host) return;
  Message message{from, to, record(process(from).host), {}};
  for (int mate = 0; mate < members_; ++mate)
    if (process(mate).host == process(from).host) message.votes.push_back({mate, votes_[static_cast<size_t>(mate)]});
  wire_.push_back(std::move(message));
}

void BallotWorld::tell_all(int from) {
  for (int to = 0; to < members_; ++to) send(from, to);
}

void BallotWorld::deliver() {
  if (wire_.empty()) return;
  const auto at = static_cast<size_t>(dice_.below(static_cast<int64_t>(wire_.size())));
  const Message message = wire_[at];
  Process& to = process(message.to);
  if (to.alive && to.stopped) return;  // it lies in its socket
  if (!dice_.chance(is_calm_ ? 0 : 8)) {   // or comes again
    wire_[at] = std::move(wire_.back());
    wire_.pop_back();
  }
  const int from_host = process(message.from).host;
  if (!to.alive || is_cut(from_host, to.host) || to.given_up[static_cast<size_t>(from_host)] || dice_.chance(is_calm_ ? 0 : 8)) return;
  HostRecord& known = to.known[static_cast<size_t>(from_host)];
  if (message.record.version >= known.version) {
    const HostRecord before = known;
    known = message.record;
    if (flaw_ == Flaw::bare_testimony && !(known.gone == before.gone)) known.ballots = before.ballots;
  }
  for (const auto& [mate, words] : message.votes)
    for (size_t topic = 0; topic < topics; ++topic)
      for (size_t place = 0; place < 2; ++place) {
        uint64_t& word = to.votes[static_cast<size_t>(mate)][topic][place];
        word = std::max(word, words[topic][place]);
      }
  for (int other = 0; other < members_; ++other)
    if (message.record.gone.contains(other)) to.gone.add(other);
  if (dice_.chance(70)) look(message.to);
}

void BallotWorld::vote(int member, bool flag) {
  Process& me = process(member);
  const auto topic = static_cast<size_t>(me.topic);
  const uint64_t number = ++me.number[topic];
  votes_[static_cast<size_t>(member)][topic][number % 2] = vote_word(number, flag);
}

BallotView BallotWorld::view_of(int member, Tally& tally, bool opens) {
  Process& me = process(member);
  BallotView view{hosts_, members_, me.host, me.known, MemberSet(members_), MemberSet(members_)};
  for (int mate = 0; mate < members_; ++mate)
    if (process(mate).host == me.host && me.gone.contains(mate)) view.ended.add(mate);
  if (flaw_ == Flaw::silence_is_death) view.disregarded = me.gone;
  if (me.state != State::voting) return view;
  const auto topic = static_cast<size_t>(me.topic);
  const uint64_t number = record(me.host).ballots[topic].decided + 1;
  auto vote_of = [&](int other) {
    const auto& words = (process(other).host == me.host ? votes_ : me.votes)[static_cast<size_t>(other)];
    return vote_in(words[topic][number % 2], number);
  };
  tally = count_votes(members_, vote_of, [&](int other) { return me.gone.contains(other); });
  if (contrary_ && me.topic == Topic::agree && tally.outcome) tally.outcome->flag = dice_.chance(50);
  if (number <= me.number[topic]) view.wishes[topic] = {tally.outcome, opens};
  return view;
}

bool BallotWorld::in_minority(int member, const BallotView& view) const {
  const Process& me = processes_[static_cast<size_t>(member)];
  std::vector<bool> speaks(static_cast<size_t>(hosts_.count()));
  for (int other = 0; other < members_; ++other)
    if (!me.gone.contains(other)) speaks[static_cast<size_t>(hosts_.of(other))] = true;
  return !is_majority(view, speaks, known_gone(view, records_[static_cast<size_t>(me.host)]));
}

void BallotWorld::look(int member) {
  Process& me = process(member);
  if (flaw_ == Flaw::lost_updates && !me.has_read) {
    me.torn = record(me.host);
    me.has_read = true;
    return;
  }
  HostRecord mine = flaw_ == Flaw::lost_updates ? me.torn : record(me.host);
  me.has_read = false;
  Tally tally;
  const BallotView view = view_of(member, tally, dice_.chance(is_calm_ ? 1 : hasty_ ? 50 : 10));
  HostRecord next = next_record(mine, view);
  plant(next, mine, view);
  if (next != mine) {
    next.version = record(me.host).version + 1;
    record(me.host) = next;
    tell_all(member);
  }
  if (me.state != State::voting) return;
  learn(member);
  if (me.state == State::voting && flaw_ != Flaw::silence_is_death && in_minority(member, view)) me.state = State::revoked;
}

// Those flaws that lie in the rules themselves.
void BallotWorld::plant(HostRecord& next, const HostRecord& before, const BallotView& view) const {
  for (size_t topic = 0; topic < topics; ++topic) {
    Ballots& mine = next.ballots[topic];
    if (mine.decided != before.ballots[topic].decided) continue;
    const auto hosts = static_cast<uint64_t>(hosts_.count());
    const bool proposed = mine.accepted > before.ballots[topic].accepted && (mine.accepted - 1) % hosts == static_cast<uint64_t>(view.host);
    if (flaw_ == Flaw::ignores_accepted && proposed && view.wishes[topic].proposal) mine.proposal = *view.wishes[topic].proposal;
  }
}

void BallotWorld::learn(int member) {
  Process& me = process(member);
  const auto topic = static_cast<size_t>(me.topic);
  const Ballots& ballots = record(me.host).ballots[topic];
  if (const uint64_t number = me.number[topic]; ballots.decided >= number) {
    const uint64_t since = ballots.decided - number;
    if (since >= kept_flags || (me.topic == Topic::shrink && since > 0)) {
      me.state = State::failed;
      return;
    }
    learnt(member, (ballots.flags >> since & 1) != 0, since == 0 ? &ballots.members : nullptr);
  } else if (me.topic == Topic::agree && dice_.chance(1)) {  // its deadline has passed: it does not ask again, and shrinks
    me.agrees_left = 1;
    next_call(member);
  }
}

void BallotWorld::next_call(int member) {
  Process& me = process(member);
  if (--me.agrees_left == 0) me.topic = Topic::shrink;
  vote(member, me.topic == Topic::agree && dice_.chance(80));
}

void BallotWorld::learnt(int member, bool flag, const MemberSet* members) {
  Process& me = process(member);
  check(me.topic, me.number[static_cast<size_t>(me.topic)], flag, members);
  if (me.topic == Topic::agree) return next_call(member);
  if (flag) {
    me.state = me.made ? State::done : State::failed;
    if (!me.made) return;
    if (world_.empty()) world_ = me.members;
    if (world_ != me.members) wrong(fmt::format("rank {} is in a world of [{}], others in one of [{}]", member, fmt::join(me.members, ", "), fmt::join(world_, ", ")));
    return;
  }
  me.members = listed(*members, members_);
  if (!members->contains(member)) {
    me.state = State::failed;
    return;
  }
  const bool all_live = std::ranges::all_of(me.members, [&](int other) { return process(other).alive; });
  me.made = dice_.chance(all_live ? 90 : 40);  // who died while the group was made may have come for some and not for others
  vote(member, me.made);
}

void BallotWorld::check(Topic topic, uint64_t number, bool flag, const MemberSet* members) {
  const std::pair key(static_cast<int>(topic), number);
  if (const auto [at, is_new] = flags_.try_emplace(key, flag); !is_new && at->second != flag) wrong(fmt::format("two answers for number {} of topic {}", number, key.first));
  if (!members) return;
  const auto [at, is_new] = outcomes_.try_emplace(key, unisono::Outcome{flag, *members});
  if (!is_new && !(at->second == unisono::Outcome{flag, *members})) wrong(fmt::format("two memberships for number {} of topic {}", number, key.first));
}

void BallotWorld::kill(int member) {
  Process& victim = process(member);
  victim.alive = false;
  if (flaw_ == Flaw::memory_dies) {
    const uint64_t version = record(victim.host).version;
    const MemberSet gone = record(victim.host).gone;
    record(victim.host) = HostRecord(members_);
    record(victim.host).version = version + 1;
    record(victim.host).gone = gone;
  }
}

void BallotWorld::break_something() {
  const int member = dice_.between(0, members_ - 1), host = dice_.between(0, hosts_.count() - 1), other = dice_.between(0, hosts_.count() - 1);
  const auto alive = std::ranges::count_if(processes_, &Process::alive);
  switch (dice_.between(0, 5)) {
    case 0:
    case 1:
      if (alive > 1 && dice_.chance(40)) kill(member);
      break;
    case 2: process(member).stopped = !process(member).stopped; break;
    case 3:
      for (Process& each : processes_)
        if (each.host == host) each.stopped = !each.stopped;
      break;
    case 4:
      if (!may_cut_ || host == other) break;
      ever_cut_ = true;
      cut_[static_cast<size_t>(host * hosts_.count() + other)] = true;
      if (dice_.chance(70)) cut_[static_cast<size_t>(other * hosts_.count() + host)] = true;
      break;
    case 5: cut_.assign(cut_.size(), false); break;
  }
}

// What a process sees of the end of others: of its host by the kernel; of another that nobody lives on, that is cut off, or that has given this process up, by silence.
void BallotWorld::notice_ends(int member) {
  Process& me = process(member);
  const int other = dice_.between(0, members_ - 1);
  const Process& them = process(other);
  if (them.host == me.host) {
    if (!them.alive) me.gone.add(other);
    return;
  }
  const bool nobody_lives = std::ranges::none_of(processes_, [&](const Process& each) { return each.host == them.host && each.alive; });
  const bool is_silent = nobody_lives || is_cut(them.host, me.host) || is_cut(me.host, them.host);
  if (is_silent && dice_.chance(30)) {
    me.given_up[static_cast<size_t>(them.host)] = true;
    for (int each = 0; each < members_; ++each)
      if (process(each).host == them.host) me.gone.add(each);
  }
  if (them.alive && them.given_up[static_cast<size_t>(me.host)]) me.gone.add(other);
}

void BallotWorld::wrong(std::string what) {
  if (found_.empty()) found_ = fmt::format("hosts {}: {}", hosts_.text(), std::move(what));
}

}  // namespace unisono::testing
