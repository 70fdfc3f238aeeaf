// Order: see making.hpp.
#include "group/making.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.hpp"
#include "base/hash.hpp"

namespace unisono {
namespace {

BoardEntry& board_place(ArenaHead& head, uint64_t name, int probe) {
  return head.board[(name + static_cast<uint64_t>(probe)) % board_entries];
}

BoardEntry* free_place(ArenaHead& mine, uint64_t name) {
  for (int probe = 0; probe < board_probes; ++probe)
    if (BoardEntry& entry = board_place(mine, name, probe); entry.key.load(std::memory_order_relaxed) == 0) return &entry;
  return nullptr;
}

constexpr auto moved_on = static_cast<ErrorCode>(0x7f);  // beside the codes of those who gave up: to a later time
constexpr uint64_t is_crowded = uint64_t{1} << 63;  // beside the time: that rank shares its core
constexpr uint64_t stages_only = 1 << 7;  // that rank may not read the memory of every member, so nobody in the group does
int gave_up_on(uint64_t making) { return static_cast<int>(making >> 8 & 0xffff) - 1; }  // the rank to blame, or -1
int time_of(uint64_t making) { return static_cast<int>(making >> 24); }

std::string_view what_became_of_it(ErrorCode code) {
  if (code == ErrorCode::peer_lost) return "was lost";
  if (code == ErrorCode::argument) return "refused its arguments";
  if (code == ErrorCode::revoked) return "was interrupted";
  if (code == ErrorCode::resource || code == ErrorCode::memory) return "has no room for it";
  return code == ErrorCode::timeout ? "has not come" : "does not mean the same group";
}

Status go_on_later(GroupParts& parts) {
  parts.moved_on = true;
  return {ErrorCode::timeout, "the others have moved on to a later attempt"};
}

// Whether that rank has a group of this name with other members, or makes one: then it has still to see ours, and that they differ.
bool differs_still(const Neighbour& other, const BoardKey& ours) {
  for (int probe = 0; probe < board_probes; ++probe) {
    const BoardEntry& entry = board_place(other.head(), ours.name, probe);
    const uint64_t key = entry.key.load(std::memory_order_acquire);
    if (key == 0 || key == ours.key || entry.name.load(std::memory_order_relaxed) != ours.name) continue;
    if (gave_up_with(entry.making.load(std::memory_order_relaxed)) == ErrorCode::ok) return true;
  }
  return false;
}

uint64_t members_mark(const GroupParts& parts) {
  const uint64_t numbering = hash_combine(static_cast<uint64_t>(parts.run_ahead), parts.first_call);
  uint64_t hash = hash_bytes(parts.ranks.data(), parts.ranks.size() * sizeof(int), numbering);
  return hash << 16 | parts.ranks.size();
}

// Whom an entry is for, as its owner, on this host, wrote it into the lane.
std::vector<int> members_in_lane(const Neighbour& neighbour, const BoardEntry& entry) {
  const auto count = static_cast<int>(entry.members.load(std::memory_order_relaxed) & 0xffff);
  const uint64_t lane = entry.lane.load(std::memory_order_relaxed);
  if (!lane_fits(*neighbour.mapping, lane, {count, 2})) return {};
  const auto* at = reinterpret_cast<std::atomic<int32_t>*>(neighbour.mapping->data() + lane + LaneLayout::ranks_at());
  std::vector<int> members;
  for (int index = 0; index < count; ++index) members.push_back(at[index].load(std::memory_order_relaxed));
  return members;
}

std::string name_of_number(const std::vector<int>& ranks, int number) {
  return fmt::format("ranks {} #{}", fmt::join(ranks, ","), number);
}

}  // namespace

BoardEntry* find_entry(ArenaHead& head, const BoardKey& wanted) {
  for (int probe = 0; probe < board_probes; ++probe)
    if (BoardEntry& entry = board_place(head, wanted.name, probe); entry.key.load(std::memory_order_acquire) == wanted.key)
      return &entry;
  return nullptr;
}

BoardKey board_key(const std::string& name, const std::vector<int>& ranks, int time) {
  const uint64_t name_key = hash_text(name), members = hash_bytes(ranks.data(), ranks.size() * sizeof(int));
  return {name_key, hash_combine(hash_combine(name_key, members), static_cast<uint64_t>(time)) | 1};
}

void Making::take_time(GroupParts& parts) {
  std::lock_guard lock(mutex_);
  int& time = times_made_[{parts.name, parts.ranks}];
  time = latest_time(parts, time + 1);
  parts.time = time;
  parts.board_key = board_key(parts.name, parts.ranks, time);
  parts.moved_on = false;
  parts.peer_reads = true;
  parts.crowded = false;
}

// `at_least`, or the latest time that a member's entries speak of which has none for that one, or gave it up.
int Making::latest_time(const GroupParts& parts, int at_least) {
  const BoardKey wanted = board_key(parts.name, parts.ranks, at_least);
  int time = at_least;
  for (const Neighbour& member : parts.members) {
    int latest = at_least;
    for (int probe = 0; probe < board_probes; ++probe) {
      const BoardEntry& entry = board_place(member.head(), wanted.name, probe);
      const uint64_t key = entry.key.load(std::memory_order_acquire), making = entry.making.load(std::memory_order_relaxed);
      if (key == 0 || key != board_key(parts.name, parts.ranks, time_of(making)).key) continue;
      latest = std::max(latest, time_of(making) + (gave_up_with(making) == moved_on ? 1 : 0));
    }
    const BoardEntry* there = find_entry(member.head(), wanted);  // looked for afterwards: it was entered before any later one
    if (!there || gave_up_with(there->making.load(std::memory_order_relaxed)) != ErrorCode::ok) time = std::max(time, latest);
  }
  return time;
}

BoardEntry* Making::enter(ArenaHead& mine, const GroupParts& parts, const Entered& as) {
  BoardEntry* entry = free_place(mine, parts.board_key.name);
  if (!entry) return nullptr;
  entry->name.store(parts.board_key.name, std::memory_order_relaxed);
  entry->lane.store(static_cast<uint64_t>(as.lane), std::memory_order_relaxed);
  entry->members.store(members_mark(parts), std::memory_order_relaxed);
  entry->making.store(static_cast<uint64_t>(parts.time) << 24 | (as.reads ? 0 : stages_only) | (as.crowded ? is_crowded : 0), std::memory_order_relaxed);
  entry->key.store(parts.board_key.key, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return entry;
}

BoardEntry* Making::refuse(ArenaHead& mine, const GroupParts& parts, ErrorCode why) {
  BoardEntry* entry = free_place(mine, parts.board_key.name);
  if (!entry) return nullptr;
  const auto me = static_cast<uint64_t>(parts.ranks[static_cast<size_t>(parts.me)]);
  entry->name.store(0, std::memory_order_relaxed);  // no conflict with any other group
  entry->lane.store(0, std::memory_order_relaxed);
  entry->members.store(0, std::memory_order_relaxed);
  entry->making.store(static_cast<uint64_t>(parts.time) << 24 | (me + 1) << 8 | static_cast<uint64_t>(why), std::memory_order_relaxed);
  entry->key.store(parts.board_key.key, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return entry;
}

BoardEntry& Making::give_up(ArenaHead& mine, const GroupParts& parts, const Status& why) {
  BoardEntry* entry = find_entry(mine, parts.board_key);
  CHECK(entry);
  const auto blamed = static_cast<uint64_t>(why.peer() + 1) & 0xffff;
  entry->making.fetch_or(static_cast<uint64_t>(parts.moved_on ? moved_on : why.code()) | blamed << 8, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return *entry;
}

bool Making::is_same(const BoardEntry& entry, const GroupParts& parts) { return entry.members.load(std::memory_order_relaxed) == members_mark(parts); }

bool Making::may_be_known(const BoardEntry& mine, const GroupParts& parts, const Others& others) {
  const bool mismatch = gave_up_with(mine.making.load(std::memory_order_relaxed)) == ErrorCode::mismatch;
  for (size_t member = 0; member < parts.members.size(); ++member) {
    if (static_cast<int>(member) == parts.me || others.is_lost(member)) continue;
    if (mismatch && differs_still(parts.members[member], parts.board_key)) return true;
    if (find_entry(parts.members[member].head(), parts.board_key) && !others.has_left(member)) return true;
  }
  return false;
}

bool Making::forget(BoardEntry& mine, const GroupParts& parts, bool had_lane) const {
  if (had_lane)
    for (auto* word : {&mine.name, &mine.members, &mine.lane}) word->store(0, std::memory_order_relaxed);
  std::lock_guard lock(mutex_);
  const auto times = times_made_.find({parts.name, parts.ranks});  // absent: a name that does not come again
  const bool is_last = times != times_made_.end() && times->second == parts.time;
  if (!is_last) mine.key.store(0, std::memory_order_release);
  return !is_last;
}

bool Making::find(Search& search) {
  GroupParts& parts = search.parts;
  for (; search.found < parts.members.size(); ++search.found) {
    const BoardEntry* entry = find_entry(parts.members[search.found].head(), parts.board_key);
    if (!entry) return false;
    parts.places[search.found] = static_cast<int64_t>(entry->lane.load(std::memory_order_relaxed));
    parts.peer_reads &= (entry->making.load(std::memory_order_relaxed) & stages_only) == 0;
    parts.crowded |= (entry->making.load(std::memory_order_relaxed) & is_crowded) != 0;
  }
  return true;
}

Status Making::examine(Search& search) {
  GroupParts& parts = search.parts;
  const bool behind = latest_time(parts, parts.time) > parts.time;  // looked for first: who is ahead has shown before that where it differs
  RETURN_IF_ERROR(check(parts));
  for (size_t index = 0; index < parts.ranks.size(); ++index) {  // all of them: who is missing first may be late, and for nothing
    const std::string how = search.how_lost(parts.ranks[index]);
    if (how.empty() || search.has_made(index)) continue;
    if (find(search)) return Status::success();  // all had come, and one has made the group and left since the last look
    RETURN_IF_ERROR(check(parts));  // it may have given up, because of another, and left
    return {ErrorCode::peer_lost, fmt::format("rank {} {} while group \"{}\" was being made", parts.ranks[index], how, parts.name), parts.ranks[index]};
  }
  for (size_t member = search.found; member < parts.members.size(); ++member) RETURN_IF_ERROR(conflict(parts, member));
  return behind ? go_on_later(parts) : Status::success();
}

Status Making::check(GroupParts& parts) {
  const int me = parts.ranks[static_cast<size_t>(parts.me)];
  for (size_t index = 0; index < parts.members.size(); ++index) {
    const int peer = parts.ranks[index];
    const BoardEntry* entry = find_entry(parts.members[index].head(), parts.board_key);
    if (!entry || peer == me) continue;
    const uint64_t making = entry->making.load(std::memory_order_relaxed);
    const ErrorCode code = gave_up_with(making);
    if (code == moved_on) return go_on_later(parts);
    if (const int blamed = gave_up_on(making); code != ErrorCode::ok)
      return {code == ErrorCode::argument ? ErrorCode::peer_argument : code,
              fmt::format("rank {} gave up making group \"{}\" of ranks [{}]: rank {} {}", peer, parts.name,
                                fmt::join(parts.ranks, ", "), blamed, what_became_of_it(code)), blamed == me ? peer : blamed};
    if (!is_same(*entry, parts))
      return {ErrorCode::mismatch, fmt::format("group \"{}\": rank {} and rank {} make it with different run_ahead, or UNISONO_FIRST_CALL", parts.name,
                                               me, peer), peer};
  }
  return Status::success();
}

// A rank that makes the name with other members, me among them, waits for me as I wait for it, and neither will come. Of several
// such tries, one after the other, each is met once: the earliest that was not.
Status Making::conflict(GroupParts& parts, size_t member) {
  const int me = parts.ranks[static_cast<size_t>(parts.me)];
  const Neighbour& neighbour = parts.members[member];
  std::vector<int> theirs;
  int time = 0;
  for (int probe = 0; probe < board_probes; ++probe) {
    const BoardEntry& entry = board_place(neighbour.head(), parts.board_key.name, probe);
    const uint64_t key = entry.key.load(std::memory_order_acquire);
    if (key == 0 || key == parts.board_key.key || entry.name.load(std::memory_order_relaxed) != parts.board_key.name) continue;
    const uint64_t making = entry.making.load(std::memory_order_relaxed);
    std::vector<int> members = members_of(neighbour, entry, key);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (entry.key.load(std::memory_order_relaxed) != key) continue;
    const ErrorCode code = gave_up_with(making);
    const bool counts_on_me = std::find(members.begin(), members.end(), me) != members.end();
    if (!counts_on_me || members == parts.ranks || (code != ErrorCode::ok && code != ErrorCode::mismatch)) continue;
    std::lock_guard lock(mutex_);
    auto met = times_made_.find({parts.name, members});
    if (met != times_made_.end() && met->second >= time_of(making)) continue;  // that one I came to
    if (time != 0 && time <= time_of(making)) continue;
    time = time_of(making);
    theirs = std::move(members);
  }
  if (time == 0) return Status::success();
  RETURN_IF_ERROR(check(parts));  // that rank may have given up this group, and gone on to the next of that name
  if (find_entry(neighbour.head(), parts.board_key)) return Status::success();  // or have made it, left it and gone on, while others' news is still on its way to us
  std::lock_guard lock(mutex_);
  times_made_[{parts.name, theirs}] = time;  // that one has now failed, here as there
  return {ErrorCode::mismatch,
          fmt::format("group \"{}\": rank {} makes it of {} members, [{}]; rank {} makes it of {}, [{}]", parts.name, me,
                      parts.ranks.size(), fmt::join(parts.ranks, ", "), neighbour.rank, theirs.size(), fmt::join(theirs, ", ")),
          neighbour.rank};
}

std::vector<int> Making::members_of(const Neighbour& neighbour, const BoardEntry& entry, uint64_t key) const {
  if (neighbour.is_here()) return members_in_lane(neighbour, entry);
  std::lock_guard lock(mutex_);
  const auto found = told_members_.find({neighbour.rank, key});
  return found == told_members_.end() ? std::vector<int>{} : found->second;
}

bool Making::has_given_up(const Neighbour& member, const BoardKey& key) {
  const BoardEntry* entry = find_entry(member.head(), key);
  return entry && gave_up_with(entry->making.load(std::memory_order_relaxed)) != ErrorCode::ok;
}

ToldEntry Making::told(const ArenaHead& mine, const BoardEntry& entry) {
  return {.index = static_cast<uint64_t>(&entry - mine.board),
          .key = entry.key.load(std::memory_order_relaxed),
          .name = entry.name.load(std::memory_order_relaxed),
          .lane = entry.lane.load(std::memory_order_relaxed),
          .members = entry.members.load(std::memory_order_relaxed),
          .making = entry.making.load(std::memory_order_relaxed)};
}

void Making::hear(const Neighbour& from, const ToldEntry& told, std::vector<int> members) {
  std::lock_guard lock(mutex_);
  BoardEntry& entry = from.head().board[told.index];
  told_members_.erase({from.rank, entry.key.load(std::memory_order_relaxed)});
  entry.key.store(0, std::memory_order_release);
  entry.name.store(told.name, std::memory_order_relaxed);
  entry.lane.store(told.lane, std::memory_order_relaxed);
  entry.members.store(told.members, std::memory_order_relaxed);
  entry.making.store(told.making, std::memory_order_relaxed);
  entry.key.store(told.key, std::memory_order_release);
  if (told.key != 0) told_members_[{from.rank, told.key}] = std::move(members);
}

std::string Making::numbered_name(const std::vector<int>& ranks) {
  std::lock_guard lock(mutex_);
  int& times = times_made_[{"", ranks}];
  std::string name = name_of_number(ranks, times + 1);
  ++times;
  return name;
}

// A number is not given back if another thread was given the next one meanwhile: a name that was made must not come again.
void Making::end_of_name(const std::string& name, const std::vector<int>& ranks, bool was_made) {
  std::lock_guard lock(mutex_);
  try {
    int& times = times_made_[{"", ranks}];
    if (was_made) times_made_.erase({name, ranks});
    if (!was_made && name == name_of_number(ranks, times)) --times;
  } catch (const std::bad_alloc&) {  // then a count stays behind
  }
}

}  // namespace unisono
