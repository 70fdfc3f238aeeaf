// Making and ending groups. How the members find each other: making.hpp and world_board.cpp.
//
// Order: groups_version_ is added to with release after the map was changed; the progress thread loads it with acquire.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <bitset>

#include "base/check.hpp"
#include "base/interrupt.hpp"
#include "base/shortage.hpp"
#include "group/world.hpp"

namespace unisono {

Status World::check_members(const std::string& name, const std::vector<int>& ranks) const {
  auto wrong = [&](const std::string& what) {
    return Status(ErrorCode::argument, fmt::format("group \"{}\" of ranks [{}]: {}", name, fmt::join(ranks, ", "), what));
  };
  if (ranks.empty()) return wrong("a group needs at least one rank");
  std::bitset<most_ranks + 1> seen;
  for (int rank : ranks) {
    if (rank < 0 || rank >= size()) return wrong(fmt::format("rank {} is not in the world of {}", rank, size()));
    if (seen[static_cast<size_t>(rank)]) return wrong(fmt::format("rank {} is there twice", rank));
    seen.set(static_cast<size_t>(rank));
  }
  return Status::success();
}

// Where memory runs out it is tried once more, only to say so to those who wait: that needs less of it.
Result<std::shared_ptr<Group>> World::create_group(const std::string& given, const std::vector<int>& ranks, const GroupOptions& options) {
  std::string number;
  const std::string& name = options.numbered ? number : given;
  for (const Status& refusal : {Status::success(), out_of_memory()}) {
    try {
      if (options.numbered && number.empty()) number = making_.numbered_name(ranks);
      auto group = try_group(name, ranks, options, refusal);
      if (options.numbered) making_.end_of_name(name, ranks, group.ok());
      return group;
    } catch (const std::bad_alloc&) {
    }
  }
  return out_of_memory();  // the others wait for their deadline then
}

// Throws for want of memory as long as nobody knows of this rank's try; later it gives up.
Result<std::shared_ptr<Group>> World::try_group(const std::string& name, const std::vector<int>& ranks, const GroupOptions& options,
                                                const Status& refusal) {
  if (forked()) return Status(ErrorCode::state, "this process was forked from a rank; it has no World");
  RETURN_IF_ERROR(outside_interrupt_check());
  RETURN_IF_ERROR(check_members(name, ranks));
  auto wrong = [&](const std::string& what) { return Status(ErrorCode::argument, fmt::format("group \"{}\": {}", name, what)); };
  if (name.empty()) return wrong("a group needs a name");
  if (std::find(ranks.begin(), ranks.end(), rank()) == ranks.end())
    return wrong(fmt::format("this rank, {}, is not a member", rank()));
  sweep_retired();
  sweep_failed();
  GroupParts parts = parts_of(name, ranks, options);
  // Made before the others count on it: once they have met, nothing may fail on one of them alone. A refusal needs none of it.
  std::map<std::string, std::shared_ptr<Group>> place;
  if (refusal.ok()) place.emplace(name, std::make_shared<Group>(parts, *arena_));
  const bool has_deadline = options.made_by.at_ns != never_ns;
  const Deadline deadline = has_deadline ? options.made_by : Deadline::in_seconds(parts.timeout_s);
  do {
    RETURN_IF_ERROR(board_take_time(parts));
    const Status prepared = refusal.ok() ? or_out_of_memory([&] { return prepare_group(parts, options); }) : refusal;
    if (!prepared.ok()) {
      board_refuse(parts, prepared);
      return prepared;
    }
    FAULT_POINT("group_published");
    for (const Neighbour& member : parts.members) ring_bell(member.head());
    if (Status status = board_collect(parts, deadline); !status.ok() && !parts.moved_on) return status;
  } while (parts.moved_on);
  const std::shared_ptr<Group> group = place.begin()->second;
  group->met(parts);
  std::lock_guard lock(mutex_);
  groups_.merge(place);
  groups_version_.fetch_add(1, std::memory_order_release);
  for (int member = 0; member < group->size(); ++member)  // who died after it came, and before the control thread knew the group
    if (!lost_[static_cast<size_t>(group->world_rank(member))].empty()) group->member_lost(member);
  if (remotes_) apply_early(*group);
  return group;
}

GroupParts World::parts_of(const std::string& name, const std::vector<int>& ranks, const GroupOptions& options) {
  GroupParts parts;
  parts.world = shared_from_this();
  parts.name = name;
  parts.ranks = ranks;
  parts.me = static_cast<int>(std::find(parts.ranks.begin(), parts.ranks.end(), rank()) - parts.ranks.begin());
  parts.run_ahead = std::clamp(options.run_ahead, 0, most_run_ahead);  // what it may be is checked by prepare_group
  parts.layout = {static_cast<int>(parts.ranks.size()), static_cast<int>(std::bit_ceil(static_cast<unsigned>(parts.run_ahead + 2)))};
  parts.first_call = static_cast<uint32_t>(settings().first_call);
  parts.timeout_s = options.timeout_s.value_or(settings().timeout_s);
  parts.reproducible = options.reproducible.value_or(settings().reproducible);
  for (int member : parts.ranks) parts.members.push_back(joined_.neighbours[static_cast<size_t>(member)]);
  parts.hosts = hosts().among(ranks);
  parts.places.resize(parts.ranks.size());
  return parts;
}

// All that this rank alone can get wrong. The others hear of it: they count on this rank.
Status World::prepare_group(GroupParts& parts, const GroupOptions& options) {
  auto wrong = [&](const std::string& what) { return Status(ErrorCode::argument, fmt::format("group \"{}\": {}", parts.name, what)); };
  if (options.run_ahead < 0 || options.run_ahead > most_run_ahead)
    return wrong(fmt::format("run_ahead is {}; it may be 0 to {}", options.run_ahead, most_run_ahead));
  if (!(parts.timeout_s > 0)) return wrong(fmt::format("timeout_s is {}; it must be more than 0", parts.timeout_s));
  {
    std::lock_guard lock(mutex_);
    if (groups_.contains(parts.name)) return {ErrorCode::argument, fmt::format("group \"{}\" exists already; destroy it first", parts.name)};
  }
  auto lane = arena_->take(parts.layout.bytes(), "the lane of a group");
  if (!lane.ok()) return lane.status();
  if (parts.first_call != 1) start_numbering(arena_->mapping()->data() + *lane, parts.layout, parts.first_call - 1);
  parts.my_place = *lane;
  const Status status = board_publish(parts, *lane);
  if (!status.ok()) arena_->give_back(*lane);
  return status;
}

std::shared_ptr<Group> World::find_group(const std::string& name) const {
  std::lock_guard lock(mutex_);
  auto entry = groups_.find(name);
  return entry == groups_.end() ? nullptr : entry->second;
}

Status World::destroy_group(const std::string& name) {
  RETURN_IF_ERROR(outside_interrupt_check());
  std::shared_ptr<Group> group;
  {
    std::lock_guard lock(mutex_);
    auto entry = groups_.find(name);
    if (entry == groups_.end()) return {ErrorCode::state, fmt::format("there is no group \"{}\"", name)};
    group = entry->second;
    leaving_.push_back(group);
    groups_.erase(entry);
    groups_version_.fetch_add(1, std::memory_order_release);
  }
  group->leave();
  {
    std::lock_guard lock(mutex_);
    std::erase(leaving_, group);
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
    board_remove(group->board_key(), group->ranks());
    group->release_memory();
    return true;
  });
}

}  // namespace unisono
