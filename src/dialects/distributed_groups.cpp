// The torch.distributed dialect: joining, leaving and groups.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "dialects/build.hpp"
#include "dialects/default_world.hpp"
#include "unisono/binding.hpp"
#include "unisono/distributed.hpp"

namespace unisono::distributed {
namespace {

Group& member_group(const GroupHandle& handle, const char* wanted_for) {
  auto group = group_of(handle, wanted_for);
  if (!group) throw ArgumentError(Status(ErrorCode::argument, fmt::format("{}: this rank is not in the group", wanted_for)));
  return *group;
}

}  // namespace

void init_process_group(const InitOptions& options) {
  throw_if_error(or_out_of_memory([&] {
    join_default_world({options.rank, options.world_size, options.job, options.timeout_s, options.init_method, options.store});
    return Status::success();
  }));
}

void destroy_process_group(GroupHandle group) {
  if (!group.is_member()) return;
  if (group.is_world() || group.group() == current_world("destroy_process_group")->world_group()) return leave_default_world();
  World& world = group.group()->world();
  const std::string& name = group.group()->name();
  if (world.find_group(name) != group.group())  // its name may belong to another by now
    throw StateError(Status(ErrorCode::state, fmt::format("group \"{}\" was destroyed already", name)));
  throw_if_error(world.destroy_group(name));
}

bool is_initialized() { return has_world(); }
std::string get_backend() { return "unisono"; }

int get_rank(GroupHandle handle) {
  auto group = group_of(handle, "get_rank");
  return group ? group->me() : -1;
}

int get_world_size(GroupHandle handle) {
  auto group = group_of(handle, "get_world_size");
  return group ? group->size() : -1;
}

std::string group_name(const GroupHandle& handle) {
  auto group = group_of(handle, "group_name");
  return group ? group->name() : std::string();
}

std::vector<int> get_process_group_ranks(GroupHandle handle) { return member_group(handle, "get_process_group_ranks").ranks(); }

int get_group_rank(GroupHandle handle, int global_rank) {
  Group& group = member_group(handle, "get_group_rank");
  throw_if_error(check_member("global_rank", global_rank, group));
  return group.index_of(global_rank);
}

int get_global_rank(GroupHandle handle, int group_rank) {
  Group& group = member_group(handle, "get_global_rank");
  if (group_rank < 0 || group_rank >= group.size())
    throw ArgumentError(Status(ErrorCode::argument, fmt::format("group_rank is {}, and group \"{}\" has {} ranks", group_rank,
                                                                group.name(), group.size())));
  return group.world_rank(group_rank);
}

GroupHandle new_group(const std::vector<int>& ranks, const NewGroupOptions& options) {
  auto world = current_world("new_group");
  const std::vector<int>& members = ranks.empty() ? world->world_group()->ranks() : ranks;
  throw_if_error(world->check_members(options.name, members));  // also outside, so that nobody waits for who had an error
  if (std::find(members.begin(), members.end(), world->rank()) == members.end()) return GroupHandle::outside();
  auto group = world->create_group(options.name, members,
                                   {options.timeout_s, options.run_ahead, {}, options.reproducible, options.name.empty()});
  throw_if_error(group.status());
  return GroupHandle(*group);
}

GroupHandle split_group(GroupHandle handle, int colour, int key, const NewGroupOptions& options) {
  Group& parent = member_group(handle, "split_group");
  struct Choice {
    int64_t colour, key;
  };
  Choice mine{colour, key};
  std::vector<Choice> choices(static_cast<size_t>(parent.size()));
  Shape pair{2};
  all_gather_into_tensor({choices.data(), DType::int64, Shape{2 * static_cast<int64_t>(choices.size())}},
                         {&mine, DType::int64, pair}, {.group = handle});
  if (colour < 0) return GroupHandle::outside();
  std::vector<int> members;
  for (int index = 0; index < parent.size(); ++index)
    if (choices[static_cast<size_t>(index)].colour == colour) members.push_back(index);
  std::stable_sort(members.begin(), members.end(), [&](int one, int other) {
    return choices[static_cast<size_t>(one)].key < choices[static_cast<size_t>(other)].key;
  });
  for (int& member : members) member = parent.world_rank(member);
  NewGroupOptions part = options;
  if (!part.timeout_s) part.timeout_s = parent.timeout_s();
  if (!part.reproducible) part.reproducible = parent.reproducible();
  return new_group(members, part);
}

Subgroups new_subgroups(int group_size, const NewGroupOptions& options) {
  const int size = current_world("new_subgroups")->size();
  if (group_size < 1 || size % group_size != 0)
    throw ArgumentError(Status(ErrorCode::argument, fmt::format("group_size is {}, which does not divide the world's {} ranks into equal "
                                                                "groups", group_size, size)));
  std::vector<std::vector<int>> lists;
  for (int first = 0; first < size; first += group_size) {
    std::vector<int>& list = lists.emplace_back();
    for (int rank = first; rank < first + group_size; ++rank) list.push_back(rank);
  }
  return new_subgroups_by_enumeration(lists, options);
}

Subgroups new_subgroups_by_enumeration(const std::vector<std::vector<int>>& ranks_per_subgroup, const NewGroupOptions& options) {
  std::set<int> seen;
  for (const std::vector<int>& list : ranks_per_subgroup) {
    if (list.empty()) throw ArgumentError(Status(ErrorCode::argument, "ranks_per_subgroup has an empty list in it"));
    for (int rank : list)
      if (!seen.insert(rank).second)
        throw ArgumentError(Status(ErrorCode::argument, fmt::format("rank {} is in ranks_per_subgroup more than once", rank)));
  }
  Subgroups subgroups;
  for (size_t index = 0; index < ranks_per_subgroup.size(); ++index) {
    NewGroupOptions each = options;
    if (!each.name.empty()) each.name += fmt::format("/{}", index);
    subgroups.all.push_back(new_group(ranks_per_subgroup[index], each));
    if (subgroups.all.back().is_member()) subgroups.mine = subgroups.all.back();
  }
  return subgroups;
}

GroupHandle shrink_group(const std::vector<int>& ranks_to_exclude, GroupHandle handle, const NewGroupOptions& options) {
  Group& group = member_group(handle, "shrink_group");
  for (int rank : ranks_to_exclude) throw_if_error(check_member("ranks_to_exclude", rank, group));
  auto smaller = group.world().shrink_group(group, {ranks_to_exclude, options.name, {options.timeout_s, options.run_ahead, {}, options.reproducible, false}});
  throw_if_error(smaller.status());
  return GroupHandle(*smaller);
}

bool agree(bool flag, GroupHandle handle, std::optional<double> timeout_s) {
  if (timeout_s && !(*timeout_s > 0))
    throw ArgumentError(Status(ErrorCode::argument, fmt::format("timeout_s is {}; it must be more than 0", *timeout_s)));
  auto answer = member_group(handle, "agree").agree(flag, timeout_s);
  throw_if_error(answer.status());
  return *answer;
}

std::vector<int> failed_ranks(GroupHandle handle) {
  auto ranks = member_group(handle, "failed_ranks").failed_ranks();
  throw_if_error(ranks.status());
  return std::move(*ranks);
}

void abort(GroupHandle group, const std::string& why) { throw_if_error(member_group(group, "abort").abort(why)); }

}  // namespace unisono::distributed
