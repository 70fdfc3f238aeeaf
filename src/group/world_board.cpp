// How the members of a group find each other. Every arena has a board, with an entry for each group that its rank makes.
//
//   The first time that these members make a group of this name is matched with the others' first time, and so on. Who tried in
//   vain without the others is ahead of them. Whoever is behind goes on to the latest time that another speaks of: it finds that
//   one waiting there, or hears, once, that it gave up, and is no longer behind.
//   Two ranks that make a name with different members, each counting on the other, would wait for ever: a mismatch.
//   Whoever gives up says so in its entry, and whoever still waits for it then gives up too.
//   To ranks on other hosts entries are told (world_remotes.cpp), and they are read in mirrors of their owners' boards. One that gave up
//   tells so in any case, and who had found it there before takes it for a member that has left.
//
// Who writes: a rank writes entries of its own board only; the others read them. Order: the lane is ready, and everything in
// the entry stored, before the key; a reader loads the key with acquire first, and believes what it read if the key is still
// the same afterwards. Between publishing and looking at the others' entries, and between giving up and the same, there is
// a fence: either they see that we gave up, or we see that they came and tell them in their lane.
#include <fmt/format.h>

#include <algorithm>

#include "base/check.hpp"
#include "base/hash.hpp"
#include "base/interrupt.hpp"
#include "base/shortage.hpp"
#include "group/world.hpp"

namespace unisono {
namespace {

constexpr int board_probes = 64;  // an entry lies within this many places of where its name points

BoardEntry& board_place(ArenaHead& head, uint64_t name, int probe) {
  return head.board[(name + static_cast<uint64_t>(probe)) % board_entries];
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
std::vector<int> members_of(const Neighbour& neighbour, const BoardEntry& entry) {
  const auto count = static_cast<int>(entry.members.load(std::memory_order_relaxed) & 0xffff);
  const uint64_t lane = entry.lane.load(std::memory_order_relaxed);
  if (!lane_fits(*neighbour.mapping, lane, {count, 2})) return {};
  const auto* at = reinterpret_cast<std::atomic<int32_t>*>(neighbour.mapping->data() + lane + LaneLayout::ranks_at());
  std::vector<int> members;
  for (int index = 0; index < count; ++index) members.push_back(at[index].load(std::memory_order_relaxed));
  return members;
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

// Which time it is that these members make a group of this name: one more than this rank's last, or the time at which another
// waits just now, after having tried in vain without this one.
Status World::board_take_time(GroupParts& parts) {
  std::lock_guard lock(mutex_);
  if (left_) return Status(ErrorCode::state, "the world was left; join it again first");
  int& time = times_made_[{parts.name, parts.ranks}];
  time = board_time(parts, time + 1);
  parts.time = time;
  parts.board_key = board_key(parts.name, parts.ranks, time);
  parts.moved_on = false;
  parts.peer_reads = true;
  parts.crowded = false;
  return Status::success();
}

// `at_least`, or the latest time that a member's entries speak of which has none for that one, or gave it up.
int World::board_time(const GroupParts& parts, int at_least) const {
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

BoardEntry* World::board_free_place(uint64_t name) {
  for (int probe = 0; probe < board_probes; ++probe)
    if (BoardEntry& entry = board_place(head(), name, probe); entry.key.load(std::memory_order_relaxed) == 0) return &entry;
  return nullptr;
}

Status World::board_publish(const GroupParts& parts, int64_t lane) {
  std::lock_guard lock(mutex_);
  BoardEntry* entry = board_free_place(parts.board_key.name);
  if (!entry)
    return {ErrorCode::resource, fmt::format("the {} places where a group \"{}\" could be entered are taken; destroy some groups, or choose "
                                             "another name", board_probes, parts.name)};
  auto* members = reinterpret_cast<std::atomic<int32_t>*>(arena_->mapping()->data() + lane + LaneLayout::ranks_at());
  for (size_t index = 0; index < parts.ranks.size(); ++index) members[index].store(parts.ranks[index], std::memory_order_relaxed);
  entry->name.store(parts.board_key.name, std::memory_order_relaxed);
  entry->lane.store(static_cast<uint64_t>(lane), std::memory_order_relaxed);
  entry->members.store(members_mark(parts), std::memory_order_relaxed);
  const bool reads = std::all_of(parts.ranks.begin(), parts.ranks.end(), [this](int member) { return may_read(member); });
  entry->making.store(static_cast<uint64_t>(parts.time) << 24 | (reads ? 0 : stages_only) | (policy_.crowded ? is_crowded : 0),
                      std::memory_order_relaxed);
  if (sockets_) sockets_->expect(parts.board_key.key);
  entry->key.store(parts.board_key.key, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const Status told = or_out_of_memory([&] { return tell_entry(*entry, parts.ranks), Status::success(); });
  if (!told.ok()) entry->key.store(0, std::memory_order_release);  // who saw it hears next that this rank refuses
  return told;
}

// An entry of a group that this rank cannot make: it has no lane, and those who wait for it give up.
void World::board_refuse(const GroupParts& parts, const Status& why) {
  {
    std::lock_guard lock(mutex_);
    BoardEntry* entry = board_free_place(parts.board_key.name);
    if (!entry) return;  // the others wait for their deadline then
    entry->name.store(0, std::memory_order_relaxed);  // no conflict with any other group
    entry->lane.store(0, std::memory_order_relaxed);
    entry->members.store(0, std::memory_order_relaxed);
    entry->making.store(static_cast<uint64_t>(parts.time) << 24 | static_cast<uint64_t>(rank() + 1) << 8 | static_cast<uint64_t>(why.code()),
                        std::memory_order_relaxed);
    entry->key.store(parts.board_key.key, std::memory_order_release);
    tell_entry(*entry, parts.ranks);
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (const Neighbour& member : parts.members) ring_bell(member.head());
}

void World::board_remove(const BoardKey& key, const std::vector<int>& ranks) {
  BoardEntry* entry = find_entry(head(), key);
  if (!entry) return;
  entry->key.store(0, std::memory_order_release);
  tell_entry(*entry, ranks);
}

// Waits until every member's entry is there; gives up when one died, gave up or makes another group, or time is over.
Status World::board_collect(GroupParts& parts, const Deadline& deadline) {
  size_t found = 0;
  auto turn = [&] {
    for (; found < parts.members.size(); ++found) {
      BoardEntry* entry = find_entry(parts.members[found].head(), parts.board_key);
      if (!entry) return Turn::blocked;
      parts.places[found] = static_cast<int64_t>(entry->lane.load(std::memory_order_relaxed));
      parts.peer_reads &= (entry->making.load(std::memory_order_relaxed) & stages_only) == 0;
      parts.crowded |= (entry->making.load(std::memory_order_relaxed) & is_crowded) != 0;
    }
    return Turn::done;
  };
  InterruptWatch interrupts;
  auto examine = [&]() -> Status {
    if (interrupts.tripped())
      return {ErrorCode::revoked, fmt::format("rank {} was interrupted while group \"{}\" was being made", rank(), parts.name), rank()};
    const int missing = parts.ranks[found];
    const bool behind = board_time(parts, parts.time) > parts.time;  // looked for first: who is ahead has shown before that where it differs
    RETURN_IF_ERROR(board_check(parts));
    for (size_t index = 0; index < parts.ranks.size(); ++index) {  // all of them: who is missing first may be late, and for nothing
      const std::string how = how_lost(parts.ranks[index]);
      if (how.empty() || has_made(parts, index)) continue;
      if (turn() == Turn::done) return Status::success();  // all had come, and one has made the group and left since the last look
      RETURN_IF_ERROR(board_check(parts));  // it may have given up, because of another, and left
      return {ErrorCode::peer_lost, fmt::format("rank {} {} while group \"{}\" was being made", parts.ranks[index], how, parts.name),
              parts.ranks[index]};
    }
    for (size_t member = found; member < parts.members.size(); ++member) RETURN_IF_ERROR(board_conflict(parts, member));
    if (behind) {
      parts.moved_on = true;
      return {ErrorCode::timeout, "the others have moved on to a later attempt"};
    }
    if (!deadline.passed()) return Status::success();
    return {ErrorCode::timeout, fmt::format("group \"{}\" of ranks [{}] was not made: rank {} has not come", parts.name,
                                            fmt::join(parts.ranks, ", "), missing), missing};
  };
  WaitPolicy policy = policy_;
  Status status = or_out_of_memory([&] {
    RETURN_IF_ERROR(wait_until_done(head(), policy, turn, examine, deadline));
    return board_check(parts);
  });
  for (size_t member = 0; member < parts.members.size() && status.ok(); ++member)
    if (parts.members[member].is_here() &&
        !lane_fits(*parts.members[member].mapping, static_cast<uint64_t>(parts.places[member]), parts.layout))
      status = {ErrorCode::protocol, fmt::format("group \"{}\" of ranks [{}] was not made: rank {}'s lane is at an impossible place", parts.name,
                                                 fmt::join(parts.ranks, ", "), parts.ranks[member]), parts.ranks[member]};
  if (!status.ok()) board_give_up(parts.moved_on ? GroupParts(parts) : std::move(parts), status);
  return status;
}

// Where news takes longer to some than to others: whether a member had found everybody, and has left the group since.
bool World::has_made(const GroupParts& parts, size_t member) const {
  if (!remotes_) return false;
  const auto* left = reinterpret_cast<const std::atomic<uint32_t>*>(arena_->mapping()->data() + parts.my_place + parts.layout.left_at());
  if (parts.members[member].is_here()) return left[member].load(std::memory_order_acquire) == has_left;
  std::lock_guard lock(mutex_);
  return std::any_of(early_.begin(), early_.end(), [&](const Remotes::Heard& heard) {
    return heard.rank == parts.ranks[member] && heard.notice.head.group == parts.board_key.key;
  });
}

// Whether those who came are still there and mean the same group.
Status World::board_check(GroupParts& parts) const {
  for (size_t index = 0; index < parts.members.size(); ++index) {
    const int peer = parts.ranks[index];
    const BoardEntry* entry = find_entry(parts.members[index].head(), parts.board_key);
    if (!entry || peer == rank()) continue;
    const uint64_t making = entry->making.load(std::memory_order_relaxed);
    const ErrorCode code = gave_up_with(making);
    if (code == moved_on) {
      parts.moved_on = true;
      return {ErrorCode::timeout, "the others have moved on to a later attempt"};
    }
    if (const int blamed = gave_up_on(making); code != ErrorCode::ok)
      return {code == ErrorCode::argument ? ErrorCode::peer_argument : code,
              fmt::format("rank {} gave up making group \"{}\" of ranks [{}]: rank {} {}", peer, parts.name,
                                fmt::join(parts.ranks, ", "), blamed, what_became_of_it(code)), blamed == rank() ? peer : blamed};
    if (entry->members.load(std::memory_order_relaxed) != members_mark(parts))
      return {ErrorCode::mismatch, fmt::format("group \"{}\": rank {} and rank {} make it with different run_ahead, or UNISONO_FIRST_CALL", parts.name,
                                               rank(), peer), peer};
  }
  return Status::success();
}

// A rank that makes the name with other members, me among them, waits for me as I wait for it, and neither will come. Of several
// such tries, one after the other, each is met once: the earliest that was not.
Status World::board_conflict(GroupParts& parts, size_t member) {
  const Neighbour& neighbour = parts.members[member];
  std::vector<int> theirs;
  int time = 0;
  for (int probe = 0; probe < board_probes; ++probe) {
    const BoardEntry& entry = board_place(neighbour.head(), parts.board_key.name, probe);
    const uint64_t key = entry.key.load(std::memory_order_acquire);
    if (key == 0 || key == parts.board_key.key || entry.name.load(std::memory_order_relaxed) != parts.board_key.name) continue;
    const uint64_t making = entry.making.load(std::memory_order_relaxed);
    std::vector<int> members = neighbour.is_here() ? members_of(neighbour, entry) : told_members(neighbour.rank, key);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (entry.key.load(std::memory_order_relaxed) != key) continue;
    const ErrorCode code = gave_up_with(making);
    const bool counts_on_me = std::find(members.begin(), members.end(), rank()) != members.end();
    if (!counts_on_me || members == parts.ranks || (code != ErrorCode::ok && code != ErrorCode::mismatch)) continue;
    std::lock_guard lock(mutex_);
    auto met = times_made_.find({parts.name, members});
    if (met != times_made_.end() && met->second >= time_of(making)) continue;  // that one I came to
    if (time != 0 && time <= time_of(making)) continue;
    time = time_of(making);
    theirs = std::move(members);
  }
  if (time == 0) return Status::success();
  RETURN_IF_ERROR(board_check(parts));  // that rank may have given up this group, and gone on to the next of that name
  std::lock_guard lock(mutex_);
  times_made_[{parts.name, theirs}] = time;  // that one has now failed, here as there
  return {ErrorCode::mismatch,
          fmt::format("group \"{}\": rank {} makes it of {} members, [{}]; rank {} makes it of {}, [{}]", parts.name, rank(),
                      parts.ranks.size(), fmt::join(parts.ranks, ", "), neighbour.rank, theirs.size(), fmt::join(theirs, ", ")),
          neighbour.rank};
}

// The entry and its lane stay where they are, since others may have seen them: see sweep_failed().
void World::board_give_up(GroupParts&& parts, const Status& why) {
  BoardEntry* mine = find_entry(head(), parts.board_key);
  CHECK(mine);
  const auto blamed = static_cast<uint64_t>(why.peer() + 1) & 0xffff;
  mine->making.fetch_or(static_cast<uint64_t>(parts.moved_on ? moved_on : why.code()) | blamed << 8, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  tell_entry(*mine, parts.ranks);
  if (sockets_) sockets_->forget(parts.board_key.key);
  for (const Neighbour& member : parts.members) {
    if (!member.is_here()) continue;
    const BoardEntry* entry = find_entry(member.head(), parts.board_key);
    const uint64_t offset = entry ? entry->lane.load(std::memory_order_relaxed) : 0;
    if (entry && entry->members.load(std::memory_order_relaxed) == members_mark(parts) && lane_fits(*member.mapping, offset, parts.layout)) {
      std::byte* lane = member.mapping->data() + offset;
      reinterpret_cast<std::atomic<uint32_t>*>(lane + parts.layout.left_at())[parts.me].store(has_left, std::memory_order_release);
    }
    ring_bell(member.head());
  }
  std::lock_guard lock(mutex_);
  parts.world.reset();
  try {
    failed_.push_back(std::move(parts));
  } catch (const std::bad_alloc&) {  // its lane is lost, and nothing else
  }
}

// A lane of a try in vain is given back when nobody can know it any more: each other member has said that it will not touch it, is
// lost, or has no entry of that time. One that enters its own later finds that we gave up, or nothing, and goes on to a later time.
// The entry of the last try stays, without a lane, so that who is behind learns how far we are.
void World::sweep_failed() {
  std::lock_guard lock(mutex_);
  std::erase_if(failed_, [this](GroupParts& parts) {
    BoardEntry* mine = find_entry(head(), parts.board_key);
    if (!mine) return true;  // a neighbour wrote over it: the lane is lost, and nothing else
    const auto times = times_made_.find({parts.name, parts.ranks});  // absent: a name that does not come again
    const bool is_last = times != times_made_.end() && times->second == parts.time;
    auto* left = reinterpret_cast<std::atomic<uint32_t>*>(arena_->mapping()->data() + parts.my_place + parts.layout.left_at());
    const bool mismatch = gave_up_with(mine->making.load(std::memory_order_relaxed)) == ErrorCode::mismatch;
    const bool has_lane = mine->lane.load(std::memory_order_relaxed) != 0;
    for (size_t member = 0; member < parts.members.size() && has_lane; ++member) {
      if (static_cast<int>(member) == parts.me || !lost_[static_cast<size_t>(parts.ranks[member])].empty()) continue;
      if (mismatch && differs_still(parts.members[member], parts.board_key)) return false;
      const bool may_know = find_entry(parts.members[member].head(), parts.board_key) != nullptr;
      if (may_know && left[member].load(std::memory_order_acquire) == still_here) return false;
    }
    if (has_lane) {
      for (auto* word : {&mine->name, &mine->members, &mine->lane}) word->store(0, std::memory_order_relaxed);
      arena_->give_back(std::exchange(parts.my_place, 0));
    }
    if (!is_last) mine->key.store(0, std::memory_order_release);
    if (has_lane || !is_last) tell_entry(*mine, parts.ranks);
    return !is_last;
  });
}

}  // namespace unisono
