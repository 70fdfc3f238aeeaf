// Making and ending groups. How the members find each other: world_board.cpp.
//
// Order: groups_version_ is added to with release after the map was changed; the progress thread loads it with acquire.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/check.hpp"
#include "group/world.hpp"

namespace unisono {

Status World::check_members(const std::string& name, const std::vector<int>& ranks) const {
  auto wrong = [&](const std::string& what) {
    return Status(ErrorCode::argument, fmt::format("group \"{}\" of ranks [{}]: {}", name, fmt::join(ranks, ", "), what));
  };
  if (ranks.empty()) return wrong("a group needs at least one rank");
  std::set<int> seen;
  for (int rank : ranks) {
    if (rank < 0 || rank >= size()) return wrong(fmt::format("rank {} is not in the world of {}", rank, size()));
    if (!seen.insert(rank).second) return wrong(fmt::format("rank {} is there twice", rank));
  }
  return Status::success();
}

Result<std::shared_ptr<Group>> World::create_group(const std::string& name, std::vector<int> ranks, GroupOptions options) {
  if (forked()) return Status(ErrorCode::state, "this process was forked from a rank; it has no World");
  RETURN_IF_ERROR(check_members(name, ranks));
  auto wrong = [&](const std::string& what) { return Status(ErrorCode::argument, fmt::format("group \"{}\": {}", name, what)); };
  if (name.empty()) return wrong("a group needs a name");
  if (std::find(ranks.begin(), ranks.end(), rank()) == ranks.end())
    return wrong(fmt::format("this rank, {}, is not a member", rank()));
  if (options.run_ahead < 0 || options.run_ahead > max_ring - 2)
    return wrong(fmt::format("run_ahead is {}; it may be 0 to {}", options.run_ahead, max_ring - 2));
  GroupParts parts;
  {
    std::lock_guard lock(mutex_);
    if (left_) return Status(ErrorCode::state, "the world was left; join it again first");
    if (groups_.contains(name)) return Status(ErrorCode::argument, fmt::format("group \"{}\" exists already; destroy it first", name));
    parts.time = ++times_made_[{name, ranks}];
    parts.board_key = board_key(name, ranks, parts.time);
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
  if (Status status = board_publish(parts, *lane); !status.ok()) {
    arena_->give_back(*lane);
    return status;
  }
  FAULT_POINT("group_published");
  for (const Neighbour& member : parts.members) ring_bell(member.head());
  const bool has_deadline = options.made_by.at_ns != never_ns;
  RETURN_IF_ERROR(board_collect(parts, has_deadline ? options.made_by : Deadline::in_seconds(parts.timeout_s)));
  auto group = std::make_shared<Group>(std::move(parts), *arena_);
  std::lock_guard lock(mutex_);
  for (int member = 0; member < group->size(); ++member)  // who died after it came, and before the control thread knew the group
    if (!lost_[static_cast<size_t>(group->world_rank(member))].empty()) group->member_lost(member);
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
  return fmt::format("{} #{}", stem, ++times_made_[{"", ranks}]);
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
    board_remove(group->board_key());
    group->release_memory();
    return true;
  });
}

}  // namespace unisono
