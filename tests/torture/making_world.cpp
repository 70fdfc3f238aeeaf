// See making_world.hpp.
#include "tests/torture/making_world.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace unisono::testing {
namespace {

constexpr int storm_actions = 600, most_rounds = 3000, most_tries = 3, most_last_tries = 12;

std::string text_of(const std::string& name, const std::vector<int>& ranks) { return fmt::format("\"{}\" of [{}]", name, fmt::join(ranks, ", ")); }

}  // namespace

MakingWorld::MakingWorld(uint64_t seed, MakingFlaw flaw) : dice_(seed), flaw_(flaw), is_clean_(dice_.chance(25)) {
  const int size = dice_.between(2, 5), hosts = dice_.between(1, size);
  in_small_part_.assign(static_cast<size_t>(hosts), false);
  for (int one = 0; one < size; ++one) {
    ranks_.push_back(std::make_unique<Rank>());
    rank(one).host = dice_.between(0, hosts - 1);
    for (int other = 0; other < size; ++other) {
      Neighbour board;
      board.rank = other;
      board.mirror = Mapping::of_nobody(sizeof(ArenaHead));
      rank(one).boards.push_back(std::move(board));
    }
  }
  planned_ = static_cast<size_t>(dice_.between(1, 6));
  for (size_t index = 0; index < planned_; ++index) {
    Task task{dice_.chance(70) ? "a" : "b", dice_.some_below(size, dice_.between(1, size))};
    for (int one = 0; one < size; ++one) {
      if (std::ranges::find(task.ranks, one) == task.ranks.end()) continue;
      Task mine = task;
      if (!is_clean_ && dice_.chance(5)) {  // it means another group, which has it, too
        mine.ranks = dice_.some_below(size, dice_.between(1, size));
        if (std::ranges::find(mine.ranks, one) == mine.ranks.end()) mine.ranks.push_back(one);
      }
      if (is_clean_ || !dice_.chance(3)) rank(one).tasks.push_back(std::move(mine));
    }
  }
}

void MakingWorld::run() {
  for (int action = 0; action < storm_actions && found_.empty(); ++action) act();
  for (auto& each : ranks_) each->stopped = false;
  come_to_rest();
  check_made();
  check_waiting();
  if (is_clean_) check_clean();
  let_deadlines_pass();
  if (found_.empty()) make_last_groups();
}

void MakingWorld::act() {
  const int one = dice_.between(0, count() - 1), other = dice_.between(0, count() - 1), what = dice_.between(0, 99);
  if (what < 45) {
    if (one != other) deliver(one, other);
  } else if (what < 85) {
    if (rank(one).alive && !rank(one).stopped) turn(one);
  } else if (what < 92) {
    if (rank(one).alive && !rank(one).stopped) notice_losses(one);
  } else if (is_clean_) {
    rank(one).stopped = dice_.chance(50);
  } else {
    break_something();
  }
}

void MakingWorld::break_something() {
  const int one = dice_.between(0, count() - 1);
  Rank& victim = rank(one);
  switch (dice_.between(0, 5)) {
    case 0:
      if (!dice_.chance(15)) break;
      victim.alive = false;
      for (int to = 0; to < count(); ++to)  // what it had said last does not get out
        if (auto& wire = wires_[{one, to}]; !wire.empty() && dice_.chance(50)) wire.resize(static_cast<size_t>(dice_.below(static_cast<int64_t>(wire.size()))));
      break;
    case 1: victim.stopped = !victim.stopped; break;
    case 2:
      if (was_cut_ || !dice_.chance(8)) break;
      was_cut_ = true;
      for (size_t host = 0; host < in_small_part_.size(); ++host) in_small_part_[host] = dice_.chance(40);
      for (auto& [ends, wire] : wires_)
        if (is_apart(ends.first, ends.second)) wire.resize(static_cast<size_t>(dice_.below(static_cast<int64_t>(wire.size()) + 1)));
      break;
    case 3:
      if (victim.alive && victim.parts && dice_.chance(40)) fail(one, {ErrorCode::timeout, "its time is over", victim.parts->ranks[std::min(victim.found, victim.parts->ranks.size() - 1)]});
      break;
    default:
      if (victim.alive && !victim.made.empty()) leave(one, victim.made[static_cast<size_t>(dice_.below(static_cast<int64_t>(victim.made.size())))]);
  }
}

// Whether anything came of it.
bool MakingWorld::turn(int one) {
  Rank& me = rank(one);
  sweep(one);
  if (!me.parts) return begin(one);
  Search search{*me.parts,
                [&](int other) { return me.lost.contains(other) && flaw_ != MakingFlaw::waits_for_the_lost ? std::string("was lost") : std::string(); },
                [&](size_t member) { return me.early.contains({me.parts->ranks[member], me.parts->board_key.key}); }, me.found};
  const bool all_came = Making::find(search);
  Status status = all_came ? Making::check(*me.parts) : me.making.examine(search);
  const bool found_more = search.found != me.found;
  me.found = search.found;
  if (!status.ok()) return fail(one, status), true;
  if (all_came) return succeed(one), true;
  return found_more;
}

bool MakingWorld::begin(int one) {
  Rank& me = rank(one);
  if (me.tasks.empty()) return false;
  const Task& task = me.tasks.front();
  for (Made& made : me.made)
    if (made.task.name == task.name && !made.is_left) leave(one, made);
  GroupParts parts;
  parts.name = task.name;
  parts.ranks = task.ranks;
  parts.me = static_cast<int>(std::ranges::find(task.ranks, one) - task.ranks.begin());
  for (int member : task.ranks) parts.members.push_back(me.boards[static_cast<size_t>(member)]);
  parts.places.resize(task.ranks.size());
  me.making.take_time(parts);
  if (flaw_ == MakingFlaw::never_catches_up) {
    parts.time = ++me.times[parts.ranks];
    parts.board_key = board_key(parts.name, parts.ranks, parts.time);
  }
  ArenaHead& mine = me.boards[static_cast<size_t>(one)].head();
  if (!is_clean_ && !task.is_last && dice_.chance(4)) {
    const BoardEntry* entry = Making::refuse(mine, parts, ErrorCode::argument);
    if (!entry) return wrong(fmt::format("rank {} has no place left", one)), false;
    tell_entry(one, *entry, parts.ranks);
    return task_failed(one), true;
  }
  parts.my_place = ++me.lanes;
  const BoardEntry* entry = Making::enter(mine, parts, {.lane = parts.my_place});
  if (!entry) return wrong(fmt::format("rank {} has no place left", one)), false;
  tell_entry(one, *entry, parts.ranks);
  me.parts = std::move(parts);
  me.found = 0;
  return true;
}

void MakingWorld::fail(int one, const Status& why) {
  Rank& me = rank(one);
  const BoardEntry& entry = Making::give_up(me.boards[static_cast<size_t>(one)].head(), *me.parts, why);
  if (flaw_ != MakingFlaw::gives_up_silently) tell_entry(one, entry, me.parts->ranks);
  const bool goes_on = me.parts->moved_on;
  me.failed.push_back({std::move(*me.parts)});
  for (int other : me.failed.back().parts.ranks)  // who gave it up before had told so
    if (Making::has_given_up(me.boards[static_cast<size_t>(other)], me.failed.back().parts.board_key)) me.failed.back().left.insert(other);
  me.parts.reset();
  if (!goes_on) task_failed(one);
}

// It tries again, or goes on without the group.
void MakingWorld::task_failed(int one) {
  Rank& me = rank(one);
  ++me.tries;
  const bool again = me.tasks.front().is_last ? me.tries < most_last_tries : me.tries < most_tries && dice_.chance(50);
  if (again) return;
  me.tasks.pop_front();
  me.tries = 0;
}

void MakingWorld::succeed(int one) {
  Rank& me = rank(one);
  Made made{me.parts->board_key, me.tasks.front()};
  for (int other : made.task.ranks) {
    const bool gave_up = other != one && Making::has_given_up(me.boards[static_cast<size_t>(other)], made.key);
    if (gave_up || me.early.contains({other, made.key.key})) made.left.insert(other);
  }
  me.made.push_back(std::move(made));
  me.tasks.pop_front();
  me.parts.reset();
  me.tries = 0;
  ++made_;
}

void MakingWorld::leave(int one, Made& made) {
  if (made.is_left) return;
  made.is_left = true;
  tell(one, {.left = made.key.key}, made.task.ranks);
}

// What nobody needs any more, of groups that were left and of tries in vain.
void MakingWorld::sweep(int one) {
  Rank& me = rank(one);
  ArenaHead& mine = me.boards[static_cast<size_t>(one)].head();
  auto is_done = [&](const std::set<int>& left, int other) { return other == one || left.contains(other) || me.lost.contains(other); };
  std::erase_if(me.made, [&](const Made& made) {
    if (!made.is_left || !std::ranges::all_of(made.task.ranks, [&](int other) { return is_done(made.left, other); })) return false;
    BoardEntry* entry = find_entry(mine, made.key);
    entry->key.store(0, std::memory_order_release);
    tell_entry(one, *entry, made.task.ranks);
    return true;
  });
  std::erase_if(me.failed, [&](Failed& failed) {
    BoardEntry* entry = find_entry(mine, failed.parts.board_key);
    const bool has_lane = entry->lane.load(std::memory_order_relaxed) != 0;
    const Making::Others others{[&](size_t member) { return me.lost.contains(failed.parts.ranks[member]); }, [&](size_t member) { return failed.left.contains(failed.parts.ranks[member]); }};
    if (has_lane && flaw_ != MakingFlaw::forgets_at_once && Making::may_be_known(*entry, failed.parts, others)) return false;
    bool is_gone = me.making.forget(*entry, failed.parts, has_lane);
    if (flaw_ == MakingFlaw::forgets_at_once) entry->key.store(0, std::memory_order_release), is_gone = true;
    if (has_lane || is_gone) tell_entry(one, *entry, failed.parts.ranks);
    return is_gone;
  });
}

void MakingWorld::tell_entry(int one, const BoardEntry& entry, const std::vector<int>& to) {
  tell(one, {.entry = Making::told(rank(one).boards[static_cast<size_t>(one)].head(), entry), .members = to}, to);
}

void MakingWorld::tell(int one, const Told& told, const std::vector<int>& to) {
  for (int other : to) {
    if (other == one || is_apart(one, other)) continue;
    wires_[{one, other}].push_back(told);
    if (rank(one).host == rank(other).host) deliver(one, other);
  }
}

bool MakingWorld::deliver(int from, int to) {
  auto& wire = wires_[{from, to}];
  const bool is_here = rank(from).host == rank(to).host;
  if (wire.empty() || (rank(to).stopped && !is_here)) return false;
  const Told told = std::move(wire.front());
  wire.pop_front();
  if (rank(to).alive) heard(from, to, told);
  return true;
}

void MakingWorld::heard(int from, int to, const Told& told) {
  Rank& me = rank(to);
  auto of = [](uint64_t key) { return [key](const Made& made) { return made.key.key == key; }; };
  if (told.left != 0) {
    const auto made = std::ranges::find_if(me.made, of(told.left));
    if (made != me.made.end()) made->left.insert(from);
    else me.early.insert({from, told.left});
    return;
  }
  const Neighbour& board = me.boards[static_cast<size_t>(from)];
  me.making.hear(board, told.entry, told.members);
  if (told.entry.key == 0 || gave_up_with(told.entry.making) == ErrorCode::ok || flaw_ == MakingFlaw::unheard_leaving) return;
  if (const auto made = std::ranges::find_if(me.made, of(told.entry.key)); made != me.made.end()) made->left.insert(from);
  for (Failed& failed : me.failed)
    if (failed.parts.board_key.key == told.entry.key) failed.left.insert(from);
}

// An end is believed when all has been heard that the one who ended had said.
bool MakingWorld::notice_losses(int one) {
  bool any = false;
  for (int other = 0; other < count(); ++other)
    if (other != one && (!rank(other).alive || is_apart(one, other)) && wires_[{other, one}].empty()) any |= rank(one).lost.insert(other).second;
  return any;
}

void MakingWorld::come_to_rest() {
  for (int round = 0; found_.empty(); ++round) {
    if (round == most_rounds) return wrong("it never comes to rest");
    bool any = false;
    for (int one = 0; one < count(); ++one)
      for (int other = 0; other < count(); ++other) any |= dice_.chance(70) && deliver(one, other);
    for (int one = 0; one < count(); ++one) {
      if (!rank(one).alive) continue;
      any |= notice_losses(one);
      any |= turn(one);
    }
    if (!any && std::ranges::all_of(wires_, [](const auto& each) { return each.second.empty(); })) return;
  }
}

void MakingWorld::let_deadlines_pass() {
  for (int round = 0; found_.empty() && round < most_rounds; ++round) {
    std::vector<int> waiting;
    for (int one = 0; one < count(); ++one)
      if (rank(one).alive && rank(one).parts) waiting.push_back(one);
    if (waiting.empty()) return;
    const int one = dice_.pick(waiting);
    const GroupParts& parts = *rank(one).parts;
    fail(one, {ErrorCode::timeout, "its time is over", parts.ranks[std::min(rank(one).found, parts.ranks.size() - 1)]});
    come_to_rest();
  }
}

// By each part of the network, of those who are left there, and by a name that was used before.
void MakingWorld::make_last_groups() {
  for (bool small : {false, true}) {
    Task task{"a", {}, true};
    for (int one = 0; one < count(); ++one)
      if (rank(one).alive && in_small_part_[static_cast<size_t>(rank(one).host)] == small) task.ranks.push_back(one);
    for (int one : task.ranks) rank(one).tasks.push_back(task);
  }
  for (int round = 0; round < most_last_tries && found_.empty(); ++round) {
    come_to_rest();
    bool again = false;
    for (int one = 0; one < count(); ++one) {  // its first call would fail, and it would make the group anew
      Rank& me = rank(one);
      if (!me.alive || me.made.empty() || !me.made.back().task.is_last || me.made.back().left.empty()) continue;
      me.tasks.push_back(me.made.back().task);
      again = true;
    }
    if (!again) break;
  }
  check_last();
}

void MakingWorld::check_made() {
  for (int one = 0; one < count(); ++one)
    for (const Made& made : rank(one).made) {
      if (!rank(one).alive || made.is_left) continue;
      for (int other : made.task.ranks) {
        const bool is_gone = made.left.contains(other) || rank(one).lost.contains(other);
        const bool has_it = std::ranges::any_of(rank(other).made, [&](const Made& each) { return each.key.key == made.key.key && !each.is_left; });
        if (!is_gone && !has_it) wrong(fmt::format("rank {} has group {}, rank {} has not, and rank {} does not know it", one, text_of(made.task.name, made.task.ranks), other, one));
      }
    }
}

void MakingWorld::check_waiting() {
  for (int one = 0; one < count(); ++one) {
    Rank& me = rank(one);
    if (!me.alive || !me.parts) continue;
    const std::string what = fmt::format("rank {} waits for group {} at time {}", one, text_of(me.parts->name, me.parts->ranks), me.parts->time);
    for (int other : me.parts->ranks) {
      if (other == one) continue;
      if (!rank(other).alive || is_apart(one, other)) wrong(fmt::format("{}, though rank {} is lost", what, other));
      if (Making::has_given_up(rank(other).boards[static_cast<size_t>(other)], me.parts->board_key)) wrong(fmt::format("{}, though rank {} gave it up", what, other));
      const auto& theirs = rank(other).parts;
      const bool counts_on_me = theirs && theirs->name == me.parts->name && std::ranges::find(theirs->ranks, one) != theirs->ranks.end();
      if (counts_on_me && theirs->ranks == me.parts->ranks && theirs->time != me.parts->time) wrong(fmt::format("{}, rank {} at time {}", what, other, theirs->time));
      if (counts_on_me && theirs->ranks != me.parts->ranks) wrong(fmt::format("{}, rank {} for [{}]", what, other, fmt::join(theirs->ranks, ", ")));
    }
  }
}

void MakingWorld::check_clean() {
  for (int one = 0; one < count(); ++one)
    if (rank(one).parts || !rank(one).tasks.empty()) wrong(fmt::format("rank {} has not made its groups, and nothing was wrong", one));
  for (int one = 0; one < count(); ++one)
    if (!rank(one).failed.empty()) wrong(fmt::format("rank {} tried in vain, and nothing was wrong", one));
}

void MakingWorld::check_last() {
  for (int one = 0; one < count(); ++one) {
    Rank& me = rank(one);
    if (!me.alive || !found_.empty()) continue;
    if (me.parts || !me.tasks.empty() || me.made.empty() || !me.made.back().task.is_last) return wrong(fmt::format("rank {} does not come to the last group", one));
    const Made& mine = me.made.back();
    if (!mine.left.empty()) return wrong(fmt::format("rank {} has a last group that others have left", one));
    for (int other : mine.task.ranks)
      if (rank(other).made.empty() || rank(other).made.back().key.key != mine.key.key) return wrong(fmt::format("ranks {} and {} have different last groups", one, other));
  }
}

void MakingWorld::wrong(std::string what) {
  if (!found_.empty()) return;
  std::vector<int> hosts;
  for (const auto& each : ranks_) hosts.push_back(each->host);
  found_ = fmt::format("hosts {}: {}", fmt::join(hosts, ","), std::move(what));
}

}  // namespace unisono::testing
