// See breaking_world.hpp. What the ranks do in all this: breaking_calls.cpp.
#include "tests/torture/breaking_world.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "tests/torture/breaking_rank.hpp"

namespace unisono::testing {
namespace {

constexpr int storm_actions = 500, most_rounds = 3000;
constexpr uint64_t group_key = 4711;
constexpr int64_t runs = std::numeric_limits<int64_t>::max() / 2, does_not_run = -runs;  // as beats of a control thread

std::vector<int> random_hosts(Dice& dice) {
  const int size = dice.between(2, 7), hosts = dice.chance(20) ? 1 : dice.between(2, std::min(size, 4));
  std::vector<int> host_of_rank;
  for (int one = 0; one < size; ++one) host_of_rank.push_back(one < hosts ? one : dice.between(0, hosts - 1));
  return host_of_rank;
}

}  // namespace

BreakingWorld::BreakingWorld(uint64_t seed, BreakingFlaw flaw) : dice_(seed), flaw_(flaw), hosts_(random_hosts(dice_)) {
  const int kind = dice_.between(0, 99);
  trouble_ = kind < 12 ? Trouble::none : kind < 70 ? Trouble::one : Trouble::many;
  in_small_part_.assign(static_cast<size_t>(hosts_.hosts().count()), false);
  for (int one = 0; one < hosts_.ranks(); ++one) {
    hosts_.head(one).beat_ns = runs;
    ranks_.push_back(std::make_unique<Rank>(*this, one, hosts_.host_of(one)));
    rank(one).members = std::make_unique<Members>(hosts_.layout(), one, hosts_.neighbours_of(one), hosts_.hosts(), &rank(one));
    rank(one).members->met(hosts_.places(), group_key, 1);
  }
  const int calls = dice_.between(2, 10);
  for (int call = 0; call < calls; ++call) shapes_.push_back({dice_.one_of({Shape::Way::everybody, Shape::Way::from_root, Shape::Way::to_root}), dice_.between(0, count() - 1)});
}

BreakingWorld::~BreakingWorld() = default;

bool BreakingWorld::is_apart(int one, int other) { return in_small_part_[static_cast<size_t>(rank(one).host)] != in_small_part_[static_cast<size_t>(rank(other).host)]; }
bool BreakingWorld::can_act(int one) { return rank(one).alive && !rank(one).stopped && !rank(one).left; }

uint64_t BreakingWorld::word_of(uint32_t call, const Shape& shape) const {
  return make_word(call, 1 + static_cast<uint32_t>(shape.way) * 64 + static_cast<uint32_t>(shape.root));
}

int BreakingWorld::broken() const {
  return static_cast<int>(std::ranges::count_if(ranks_, [](const auto& each) { return each->members->is_broken(); }));
}

void BreakingWorld::run() {
  for (int action = 0; action < storm_actions && found_.empty(); ++action) act();
  const bool some_stay_stopped = dice_.chance(30);
  for (int one = 0; one < count(); ++one)
    if (!some_stay_stopped || dice_.chance(50)) stop(one, false);
  come_to_rest();
  if (differs_) let_deadlines_pass();
  check();
}

void BreakingWorld::act() {
  const int one = dice_.between(0, count() - 1), other = dice_.between(0, count() - 1), what = dice_.between(0, 99);
  if (what < 35) {
    if (one != other) deliver(one, other);
  } else if (what < 75) {
    turn(one);
  } else if (what < 84) {
    notice_losses(one);
  } else if (what < 88) {
    ask(one);
  } else if (what < 92) {
    stop(one, dice_.chance(50));
  } else if (what < 96) {
    react(one);
  } else if (dice_.chance(trouble_ == Trouble::many ? 25 : 20)) {
    cause_something();
  }
}

void BreakingWorld::cause_something() {
  if (trouble_ == Trouble::none || (trouble_ == Trouble::one && !culprits_.empty())) return;
  const int one = dice_.between(0, count() - 1);
  const Cause what = dice_.chance(35) ? Cause::abort : static_cast<Cause>(dice_.between(0, 5));
  const bool breaks_nothing_on_one_host = what == Cause::refusal || what == Cause::difference;
  if (can_act(one) && (rank(one).members->span_hosts() || !breaks_nothing_on_one_host)) cause(what, one);
}

void BreakingWorld::cause(Cause what, int one) {
  Rank& culprit = rank(one);
  if (what != Cause::cut) culprits_.insert(one);
  switch (what) {
    case Cause::abort:
      if (dice_.chance(70)) culprit.ends_after = dice_.between(0, 2);
      culprit.is_only_stopped = dice_.chance(40);
      static_cast<void>(break_group(one, ErrorCode::revoked, fmt::format("rank {} aborted", one), {one}));
      return fail(one);
    case Cause::death: {
      auto can_tell = [&](const auto& each) { return each->me != one && each->host == culprit.host; };
      died_at_the_end_ = trouble_ == Trouble::one && !culprit.waits && culprit.number == shapes_.size() && std::ranges::any_of(ranks_, can_tell);
      return die(one);
    }
    case Cause::refusal: culprit.refuses_next = true; return;
    case Cause::difference: culprit.differs_next = true; return;
    case Cause::leaving: return leave(one);
    case Cause::cut: return cut();
  }
}

void BreakingWorld::cut() {
  if (was_cut_ || in_small_part_.size() < 2) return;
  was_cut_ = true;
  for (size_t host = 0; host < in_small_part_.size(); ++host) in_small_part_[host] = dice_.chance(50);
  for (auto& [ends, wire] : wires_)
    if (is_apart(ends.first, ends.second)) wire.clear();
  for (auto& [ends, wire] : data_)
    if (is_apart(ends.first, ends.second)) wire.clear();
  for (int one = 0; one < count(); ++one) culprits_.insert(one);
}

// What becomes of a rank whose group is broken: it is killed, before or after it heard of it. Where one thing alone is to have gone wrong, somebody of its host has to be left to tell.
void BreakingWorld::react(int one) {
  Rank& me = rank(one);
  if (!me.alive || !me.members->is_broken() || !dice_.chance(30)) return;
  const Rank& first = **std::ranges::find_if(ranks_, [&](const auto& each) { return each->host == me.host; });
  if (trouble_ == Trouble::one && (first.me == one || culprits_.contains(first.me))) return;
  die(one);
}

void BreakingWorld::stop(int one, bool is_stopped) {
  Rank& me = rank(one);
  me.stopped = is_stopped;
  hosts_.head(one).beat_ns = is_stopped ? does_not_run : runs;
  for (; !is_stopped && !me.held.empty(); me.held.pop_front()) me.tell(me.held.front().first, me.held.front().second);
}

// What it had said last may not get out; frames that it has sent do.
void BreakingWorld::die(int one) {
  Rank& victim = rank(one);
  if (!victim.alive) return;
  victim.alive = false;
  if (trouble_ == Trouble::one && !culprits_.contains(one)) return;
  for (int to = 0; to < count(); ++to)
    if (auto& wire = wires_[{one, to}]; !wire.empty() && dice_.chance(50)) wire.resize(static_cast<size_t>(dice_.below(static_cast<int64_t>(wire.size()))));
}

// True where something has changed but for what was told.
bool BreakingWorld::turn_all() {
  bool any = false;
  for (int one = 0; one < count(); ++one)
    for (int other = 0; other < count(); ++other)
      if (dice_.chance(70)) deliver(one, other);
  for (int one = 0; one < count(); ++one) {
    any |= notice_losses(one);
    any |= turn(one);
  }
  return any;
}

// Who waits asks now and then. When nothing comes of that, either, what may still have been on its way is not; and when nothing comes of that, all is said.
void BreakingWorld::come_to_rest() {
  for (int round = 0, in_vain = 0; found_.empty() && in_vain < 3; ++round) {
    for (int one = 0; one < count(); ++one) ask(one);
    is_quiet_ = in_vain == 2;
    bool any = false;
    auto is_on_its_way = [this](const auto& each) { return !each.second.empty() && !rank(each.first.second).stopped; };
    do {
      if (++round > most_rounds) return wrong("it never comes to rest");
      any |= turn_all();
    } while (std::ranges::any_of(wires_, is_on_its_way));
    in_vain = any ? 0 : in_vain + 1;
  }
  is_quiet_ = false;
}

void BreakingWorld::let_deadlines_pass() {
  for (int one = 0; one < count() && found_.empty(); ++one) {
    if (!can_act(one) || !rank(one).waits) continue;
    met_deadlines_ = true;
    static_cast<void>(break_group(one, ErrorCode::timeout, fmt::format("the time of rank {} is over in call {}", one, rank(one).number), {}));
    fail(one);
    come_to_rest();
  }
}

void BreakingWorld::check() {
  std::map<int, std::string> fault_of_host;
  const bool somebody_is_stopped = std::ranges::any_of(ranks_, [](const auto& each) { return each->alive && each->stopped; });
  auto can_say = [&](int one, const Rank& other) { return can_act(other.me) && !is_apart(one, other.me) && other.members->is_broken(); };
  for (int one = 0; one < count(); ++one) {
    const Rank& me = rank(one);
    if (!me.alive) continue;
    if (me.waits && can_act(one) && (!somebody_is_stopped || std::ranges::any_of(ranks_, [&](const auto& each) { return can_say(one, *each); })))
      wrong(fmt::format("rank {} waits in call {}", one, me.number));
    if (!me.members->is_broken()) continue;
    const std::string fault = me.members->fault().message();
    const auto seen = reported_.find(fault);
    if (seen == reported_.end()) wrong(fmt::format("rank {} has a fault that nobody saw: {}", one, fault));
    if (fault_of_host.try_emplace(me.host, fault).first->second != fault) wrong(fmt::format("rank {} has another fault than its host: {}", one, fault));
    if (trouble_ == Trouble::none || died_at_the_end_) wrong(fmt::format("rank {} has a fault, and nothing was wrong: {}", one, fault));
    if (trouble_ != Trouble::one || seen == reported_.end() || seen->second.empty()) continue;
    if (std::ranges::none_of(culprits_, [&](int culprit) { return seen->second.contains(culprit) && (!was_cut_ || is_apart(culprit, one)); }))
      wrong(fmt::format("rank {} has the fault \"{}\", and only rank {} did something wrong", one, fault, fmt::join(culprits_, ", ")));
  }
  for (int one = 0; one < count(); ++one)
    if (const Rank& me = rank(one); trouble_ == Trouble::none && !somebody_is_stopped && (me.number != shapes_.size() || me.waits)) wrong(fmt::format("rank {} has not finished, and nothing was wrong", one));
}

void BreakingWorld::wrong(std::string what) {
  if (!found_.empty()) return;
  std::vector<int> hosts;
  for (const auto& each : ranks_) hosts.push_back(each->host);
  found_ = fmt::format("hosts {}: {}", fmt::join(hosts, ","), std::move(what));
}

}  // namespace unisono::testing
