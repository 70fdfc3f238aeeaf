// Making and ending groups. The members find each other on a board: every arena has one, with an entry a group.
//
// Who writes: a rank writes entries of its own board only; the others read them. Order: the lane is ready before its place
// and then the key are stored with release; a reader loads the key with acquire first.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "base/check.hpp"
#include "base/hash.hpp"
#include "group/world.hpp"

namespace unisono {
namespace {

constexpr int board_probes = 64;  // an entry lies within this many places of where its key points

BoardEntry& board_place(ArenaHead& head, uint64_t key, int probe) {
  return head.board[(key + static_cast<uint64_t>(probe)) % board_entries];
}

BoardEntry* find_entry(ArenaHead& head, uint64_t key) {
  for (int probe = 0; probe < board_probes; ++probe)
    if (BoardEntry& entry = board_place(head, key, probe); entry.key.load(std::memory_order_acquire) == key) return &entry;
  return nullptr;
}

uint64_t members_mark(const std::vector<int>& ranks, int ring) {
  uint64_t hash = hash_bytes(ranks.data(), ranks.size() * sizeof(int), static_cast<uint64_t>(ring));
  return hash << 16 | ranks.size();
}

Status check_ranks(const std::string& name, const std::vector<int>& ranks, int me, int world_size) {
  auto wrong = [&](const std::string& what) {
    return Status(ErrorCode::argument, fmt::format("group \"{}\" of ranks [{}]: {}", name, fmt::join(ranks, ", "), what));
  };
  if (name.empty()) return wrong("a group needs a name");
  if (ranks.empty()) return wrong("a group needs at least one rank");
  std::set<int> seen;
  for (int rank : ranks) {
    if (rank < 0 || rank >= world_size) return wrong(fmt::format("rank {} is not in the world of {}", rank, world_size));
    if (!seen.insert(rank).second) return wrong(fmt::format("rank {} is there twice", rank));
  }
  if (!seen.contains(me)) return wrong(fmt::format("this rank, {}, is not a member", me));
  return Status::success();
}

}  // namespace

Status World::board_publish(uint64_t key, int64_t lane, uint64_t mark) {
  std::lock_guard lock(mutex_);
  for (int probe = 0; probe < board_probes; ++probe) {
    BoardEntry& entry = board_place(head(), key, probe);
    if (entry.key.load(std::memory_order_relaxed) != 0) continue;
    entry.lane.store(static_cast<uint64_t>(lane), std::memory_order_relaxed);
    entry.members.store(mark, std::memory_order_relaxed);
    entry.key.store(key, std::memory_order_release);
    return Status::success();
  }
  return {ErrorCode::resource, "too many groups exist at once; destroy some"};
}

// Waits until every member's entry is there; gives up when one died or time is over.
Status World::board_collect(GroupParts& parts, const Deadline& deadline) {
  size_t found = 0;
  auto turn = [&] {
    for (; found < parts.members.size(); ++found) {
      BoardEntry* entry = find_entry(parts.members[found].head(), parts.board_key);
      if (!entry) return Turn::blocked;
      parts.lane_offsets[found] = static_cast<int64_t>(entry->lane.load(std::memory_order_relaxed));
      if (entry->members.load(std::memory_order_relaxed) != members_mark(parts.ranks, parts.layout.ring)) return Turn::done;
    }
    return Turn::done;
  };
  auto examine = [&]() -> Status {
    int missing = parts.ranks[found];
    if (std::string how = how_lost(missing); !how.empty())
      return {ErrorCode::peer_lost, fmt::format("rank {} {} while group \"{}\" was being made", missing, how, parts.name), missing};
    if (!deadline.passed()) return Status::success();
    return {ErrorCode::timeout, fmt::format("group \"{}\" of ranks [{}] was not made: rank {} has not come", parts.name,
                                            fmt::join(parts.ranks, ", "), missing), missing};
  };
  WaitPolicy policy = policy_;
  RETURN_IF_ERROR(wait_until_done(head(), policy, turn, examine));
  if (found == parts.members.size()) return Status::success();
  BoardEntry* entry = find_entry(parts.members[found].head(), parts.board_key);
  return {ErrorCode::mismatch,
          fmt::format("group \"{}\": rank {} makes it of {} members, [{}]; rank {} makes it of {} and other ones", parts.name,
                      rank(), parts.ranks.size(), fmt::join(parts.ranks, ", "), parts.ranks[found],
                      entry ? entry->members.load(std::memory_order_relaxed) & 0xffff : 0),
          parts.ranks[found]};
}

Result<std::shared_ptr<Group>> World::create_group(const std::string& name, std::vector<int> ranks, GroupOptions options) {
  if (forked()) return Status(ErrorCode::state, "this process was forked from a rank; it has no World");
  RETURN_IF_ERROR(check_ranks(name, ranks, rank(), size()));
  if (options.run_ahead < 0 || options.run_ahead > max_ring - 2)
    return Status(ErrorCode::argument, fmt::format("run_ahead is {}; it may be 0 to {}", options.run_ahead, max_ring - 2));
  GroupParts parts;
  {
    std::lock_guard lock(mutex_);
    if (left_) return Status(ErrorCode::state, "the world was left; join it again first");
    if (groups_.contains(name)) return Status(ErrorCode::argument, fmt::format("group \"{}\" exists already; destroy it first", name));
    parts.board_key = hash_combine(hash_text(name), static_cast<uint64_t>(++generations_[name])) | 1;
  }
  sweep_retired();
  parts.world = shared_from_this();
  parts.name = name;
  parts.ranks = std::move(ranks);
  parts.me = static_cast<int>(std::find(parts.ranks.begin(), parts.ranks.end(), rank()) - parts.ranks.begin());
  parts.layout = {static_cast<int>(parts.ranks.size()), options.run_ahead + 2};
  parts.timeout_s = options.timeout_s > 0 ? options.timeout_s : settings().timeout_s;
  for (int member : parts.ranks) parts.members.push_back(joined_.neighbours[static_cast<size_t>(member)]);
  parts.lane_offsets.resize(parts.ranks.size());
  auto lane = arena_->take(parts.layout.bytes(), "the lane of a group");
  if (!lane.ok()) return lane.status();
  RETURN_IF_ERROR(board_publish(parts.board_key, *lane, members_mark(parts.ranks, parts.layout.ring)));
  FAULT_POINT("group_published");
  for (const Neighbour& member : parts.members) ring_bell(member.head());
  RETURN_IF_ERROR(board_collect(parts, Deadline::in_seconds(parts.timeout_s)));
  auto group = std::make_shared<Group>(std::move(parts), *arena_);
  std::lock_guard lock(mutex_);
  groups_[name] = group;
  groups_version_.fetch_add(1, std::memory_order_release);
  return group;
}

std::shared_ptr<Group> World::find_group(const std::string& name) const {
  std::lock_guard lock(mutex_);
  auto entry = groups_.find(name);
  return entry == groups_.end() ? nullptr : entry->second;
}

std::string World::name_for(const std::vector<int>& ranks) {
  std::string stem = fmt::format("ranks {}", fmt::join(ranks, ","));
  std::lock_guard lock(mutex_);
  return fmt::format("{} #{}", stem, ++generations_["name of " + stem]);
}

Status World::destroy_group(const std::string& name) {
  std::shared_ptr<Group> group;
  {
    std::lock_guard lock(mutex_);
    auto entry = groups_.find(name);
    if (entry == groups_.end()) return {ErrorCode::state, fmt::format("there is no group \"{}\"", name)};
    group = entry->second;
    groups_.erase(entry);
    groups_version_.fetch_add(1, std::memory_order_release);
  }
  group->leave();
  {
    std::lock_guard lock(mutex_);
    retired_.push_back(std::move(group));
  }
  sweep_retired();
  return Status::success();
}

// A lane may be used again only after all members have left: until then somebody may still read from it.
void World::sweep_retired() {
  std::lock_guard lock(mutex_);
  std::erase_if(retired_, [this](const std::shared_ptr<Group>& group) {
    if (!group->all_left()) return false;
    if (BoardEntry* entry = find_entry(head(), group->board_key())) entry->key.store(0, std::memory_order_release);
    group->release_memory();
    return true;
  });
}

}  // namespace unisono
