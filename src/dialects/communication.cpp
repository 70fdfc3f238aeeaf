// The mindspore.communication dialect: joining, leaving and groups by name.
#include "unisono/communication.hpp"

#include <fmt/format.h>

#include "dialects/build.hpp"
#include "dialects/default_world.hpp"
#include "unisono/distributed.hpp"

namespace unisono::communication {

bool GlobalComm::INITED() { return has_world(); }

void init() {
  throw_if_error(or_out_of_memory([] { return join_default_world({}), Status::success(); }));
}
void release() { leave_default_world(); }

int get_rank(const std::string& group) { return group_named(group, "get_rank")->me(); }
int get_group_size(const std::string& group) { return group_named(group, "get_group_size")->size(); }

// All ranks are on this machine, so a group's local ranks are its ranks.
int get_local_rank(const std::string& group) {
  if (names_the_world(group)) return current_world("get_local_rank")->options().local_rank;
  return group_named(group, "get_local_rank")->me();
}
int get_local_rank_size(const std::string& group) {
  if (names_the_world(group)) return current_world("get_local_rank_size")->options().local_size;
  return group_named(group, "get_local_rank_size")->size();
}

void create_group(const std::string& group, const std::vector<int>& rank_ids) {
  auto world = current_world("create_group");
  if (names_the_world(group))
    throw ArgumentError(Status(ErrorCode::argument, fmt::format("group \"{}\" is the world and exists already", group)));
  throw_if_error(world->create_group(group, rank_ids).status());
}

void destroy_group(const std::string& group) {
  auto world = current_world("destroy_group");
  if (names_the_world(group))
    throw ArgumentError(Status(ErrorCode::argument, "the world group is not destroyed but left: call release()"));
  throw_if_error(world->destroy_group(group));
}

int get_world_rank_from_group_rank(const std::string& group, int group_rank_id) {
  return distributed::get_global_rank(GroupHandle(group_named(group, "get_world_rank_from_group_rank")), group_rank_id);
}

int get_group_rank_from_world_rank(int world_rank_id, const std::string& group) {
  return distributed::get_group_rank(GroupHandle(group_named(group, "get_group_rank_from_world_rank")), world_rank_id);
}

std::vector<int> get_process_group_ranks(const std::string& group) { return group_named(group, "get_process_group_ranks")->ranks(); }

}  // namespace unisono::communication
