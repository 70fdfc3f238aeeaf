// A group of those who are left.
//
//   all who are left vote, and decide who that is
//   they make a group of those
//   they vote on whether that has worked for everybody: if so, it is the one; if not, once more
//
// The last vote is what makes one world of it: somebody who dies while the group is being made may have come for some members and not for others.
#include <fmt/format.h>

#include <algorithm>

#include "base/check.hpp"
#include "group/world.hpp"

namespace unisono {

Result<std::shared_ptr<Group>> World::shrink_group(Group& group, const ShrinkOptions& options) {
  const double patience_s = options.group.timeout_s.value_or(group.timeout_s());
  Group::Motion motion{Topic::shrink, false, Deadline::in_seconds(patience_s), patience_s, MemberSet(group.size())};
  for (int rank : options.excluded) motion.excluded.add(group.index_of(rank));
  if (motion.excluded.contains(group.me()))
    return Status(ErrorCode::argument, fmt::format("group \"{}\": rank {} is among the ranks to exclude; only those who stay shrink a group", group.name(), rank()));
  GroupOptions smaller = options.group;
  smaller.timeout_s = patience_s;
  smaller.made_by = motion.deadline;
  if (group.was_left_behind()) return group.left_behind();
  std::shared_ptr<Group> made;
  for (;;) {
    motion.flag = made != nullptr;
    Result<Group::Decided> decided = group.decide(motion);
    if (decided.ok() && decided->outcome.flag && made) return made;
    if (made) RETURN_IF_ERROR(destroy_group(made->name()));
    if (!decided.ok()) return decided.status();
    const MemberSet& left = decided->outcome.members;
    if (decided->outcome.flag) return group.left_behind();
    std::vector<int> ranks;
    for (int member = 0; member < group.size(); ++member)
      if (!left.words().empty() && left.contains(member)) ranks.push_back(group.world_rank(member));
    if (std::find(ranks.begin(), ranks.end(), rank()) == ranks.end())
      return group.left_behind();
    const std::string name = options.name.empty() ? fmt::format("{}/shrunk/{}", group.name(), decided->number) : options.name;
    auto attempt = create_group(name, ranks, smaller);
    made = attempt.ok() ? *attempt : nullptr;
    if (made || attempt.status().code() == ErrorCode::peer_lost) continue;
    motion.flag = false;
    group.decline(motion);  // who has made it need not wait for this rank
    return attempt.status();
  }
}

}  // namespace unisono
