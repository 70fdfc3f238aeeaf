// Waiting for the members of a group, by the rules of making.hpp; telling them, and giving back what tries in vain have taken.
// Order: making.hpp; the marks in lanes: lane.hpp.
#include <fmt/format.h>

#include <algorithm>

#include "base/check.hpp"
#include "base/interrupt.hpp"
#include "base/shortage.hpp"
#include "group/world.hpp"

namespace unisono {

Status World::board_take_time(GroupParts& parts) {
  std::lock_guard lock(mutex_);
  if (left_) return Status(ErrorCode::state, "the world was left; join it again first");
  making_.take_time(parts);
  return Status::success();
}

Status World::board_publish(const GroupParts& parts, int64_t lane) {
  std::lock_guard lock(mutex_);
  auto* members = reinterpret_cast<std::atomic<int32_t>*>(arena_->mapping()->data() + lane + LaneLayout::ranks_at());
  for (size_t index = 0; index < parts.ranks.size(); ++index) members[index].store(parts.ranks[index], std::memory_order_relaxed);
  const bool reads = std::all_of(parts.ranks.begin(), parts.ranks.end(), [this](int member) { return may_read(member); });
  if (sockets_) sockets_->expect(parts.board_key.key);
  BoardEntry* entry = Making::enter(head(), parts, {lane, reads, policy_.crowded});
  if (!entry) {
    if (sockets_) sockets_->forget(parts.board_key.key);
    return {ErrorCode::resource, fmt::format("the {} places where a group \"{}\" could be entered are taken; destroy some groups, or choose "
                                             "another name", board_probes, parts.name)};
  }
  const Status told = or_out_of_memory([&] { return tell_entry(*entry, parts.ranks), Status::success(); });
  if (!told.ok()) entry->key.store(0, std::memory_order_release);  // who saw it hears next that this rank refuses
  return told;
}

void World::board_refuse(const GroupParts& parts, const Status& why) {
  {
    std::lock_guard lock(mutex_);
    const BoardEntry* entry = Making::refuse(head(), parts, why.code());
    if (!entry) return;  // the others wait for their deadline then
    tell_entry(*entry, parts.ranks);
  }
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
  Search search{parts, [this](int member) { return how_lost(member); }, [&](size_t member) { return has_made(parts, member); }};
  auto turn = [&] { return Making::find(search) ? Turn::done : Turn::blocked; };
  InterruptWatch interrupts;
  auto examine = [&]() -> Status {
    if (interrupts.tripped())
      return {ErrorCode::revoked, fmt::format("rank {} was interrupted while group \"{}\" was being made", rank(), parts.name), rank()};
    RETURN_IF_ERROR(making_.examine(search));
    if (search.found == parts.ranks.size() || !deadline.passed()) return Status::success();
    const int missing = parts.ranks[search.found];
    return {ErrorCode::timeout, fmt::format("group \"{}\" of ranks [{}] was not made: rank {} has not come", parts.name,
                                            fmt::join(parts.ranks, ", "), missing), missing};
  };
  WaitPolicy policy = policy_;
  Status status = or_out_of_memory([&] {
    RETURN_IF_ERROR(wait_until_done(head(), policy, turn, examine, deadline));
    return Making::check(parts);
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
  if (parts.members[member].is_here()) return lane_marks(parts)[member].load(std::memory_order_acquire) == has_left;
  std::lock_guard lock(mutex_);
  return std::any_of(early_.begin(), early_.end(), [&](const Remotes::Heard& heard) {
    return heard.rank == parts.ranks[member] && heard.notice.head.group == parts.board_key.key;
  });
}

// In this rank's lane of a group that is not made: who will not touch it again.
std::atomic<uint32_t>* World::lane_marks(const GroupParts& parts) const {
  return reinterpret_cast<std::atomic<uint32_t>*>(arena_->mapping()->data() + parts.my_place + parts.layout.left_at());
}

// The entry and its lane stay where they are, since others may have seen them: see sweep_failed().
void World::board_give_up(GroupParts&& parts, const Status& why) {
  tell_entry(Making::give_up(head(), parts, why), parts.ranks);
  if (sockets_) sockets_->forget(parts.board_key.key);
  for (const Neighbour& member : parts.members) {
    if (!member.is_here()) continue;
    const BoardEntry* entry = find_entry(member.head(), parts.board_key);
    const uint64_t offset = entry ? entry->lane.load(std::memory_order_relaxed) : 0;
    if (entry && Making::is_same(*entry, parts) && lane_fits(*member.mapping, offset, parts.layout)) {
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
// lost, or has no entry of that time.
void World::sweep_failed() {
  std::lock_guard lock(mutex_);
  std::erase_if(failed_, [this](GroupParts& parts) {
    BoardEntry* mine = find_entry(head(), parts.board_key);
    if (!mine) return true;  // a neighbour wrote over it: the lane is lost, and nothing else
    const bool has_lane = mine->lane.load(std::memory_order_relaxed) != 0;
    const Making::Others others{[&](size_t member) { return !lost_[static_cast<size_t>(parts.ranks[member])].empty(); },
                                [&](size_t member) { return lane_marks(parts)[member].load(std::memory_order_acquire) != still_here; }};
    if (has_lane && Making::may_be_known(*mine, parts, others)) return false;
    const bool is_gone = making_.forget(*mine, parts, has_lane);
    if (has_lane) arena_->give_back(std::exchange(parts.my_place, 0));
    if (has_lane || is_gone) tell_entry(*mine, parts.ranks);
    return is_gone;
  });
}

}  // namespace unisono
