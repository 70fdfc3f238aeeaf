// The mindspore.communication dialect: joining, and groups by name. It shares one World with unisono::distributed.
#pragma once

#include <string>
#include <vector>

#include "unisono/types.hpp"

#pragma GCC visibility push(default)
namespace unisono::comm_func {}

namespace unisono::communication {

namespace comm_func = unisono::comm_func;  // as in mindspore.communication.comm_func
using unisono::ReduceOp;

struct GlobalComm {
  static constexpr const char* WORLD_COMM_GROUP = "hccl_world_group";
  static bool INITED();
};

// Group names: "" and the world names of every MindSpore backend (hccl_, nccl_ and mccl_world_group) mean the world.
void init();     // joins the world as the launcher says; a second call finds it there
void release();  // leaves it
int get_rank(const std::string& group = "");
int get_group_size(const std::string& group = "");
int get_local_rank(const std::string& group = "");       // on this machine
int get_local_rank_size(const std::string& group = "");
void create_group(const std::string& group, const std::vector<int>& rank_ids);  // called by the members only
void destroy_group(const std::string& group);
int get_world_rank_from_group_rank(const std::string& group, int group_rank_id);
int get_group_rank_from_world_rank(int world_rank_id, const std::string& group);
std::vector<int> get_process_group_ranks(const std::string& group = "");

}  // namespace unisono::communication
#pragma GCC visibility pop
