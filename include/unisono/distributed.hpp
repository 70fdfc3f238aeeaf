// The torch.distributed dialect: works in place or fills the caller's tensors, and returns a Work when `async_op` is true
// (null otherwise, and on ranks outside the group). Errors are thrown: see status.hpp. All functions may be called from any
// thread; calls on one group happen in the order made. With async_op the memory of every view must live until wait().
//
// Ranks named `src` and `dst` are global ranks, as in torch.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "unisono/group.hpp"
#include "unisono/shared_tensor.hpp"
#include "unisono/tensor.hpp"
#include "unisono/types.hpp"
#include "unisono/work.hpp"

#pragma GCC visibility push(default)
namespace unisono::distributed {

using unisono::DType;
using unisono::GroupHandle;
using unisono::ReduceOp;
using unisono::Work;

class Store;  // unisono/store.hpp

struct InitOptions {
  std::optional<int> rank = {}, world_size = {};  // both or neither; otherwise the launcher says
  std::string job = {};                           // what distinguishes this job on the machine; otherwise the launcher says
  std::optional<double> timeout_s = {};           // deadline of joining, and of calls unless they have one; otherwise the settings'
  // How the ranks find each other. "env://", the default: as the launcher says, or by `job`. "file:///path", with rank and
  // world_size: ranks that name the same file meet; it is made if absent, stays empty and is not removed.
  std::string init_method = {};
  // Instead: the ranks agree through a store that all of them reach, with rank and world_size. Each use of the same store, or
  // of the same prefix of it, makes a world of its own.
  std::shared_ptr<Store> store = {};
};
void init_process_group(const InitOptions& options = {});  // joins the world; InitError says who is missing
void destroy_process_group(GroupHandle group = {});       // leaves the group, or the world and everything
bool is_initialized();  // false also in a forked child of a rank, which is none
constexpr bool is_available() { return true; }
std::string get_backend();

int get_rank(GroupHandle group = {});        // in the group; -1 outside it
int get_world_size(GroupHandle group = {});  // of the group; -1 outside it
std::vector<int> get_process_group_ranks(GroupHandle group = {});
int get_group_rank(GroupHandle group, int global_rank);   // ArgumentError when it is not in the group
int get_global_rank(GroupHandle group, int group_rank);

struct NewGroupOptions {
  std::optional<double> timeout_s = {};  // otherwise the world's
  std::string name = {};
  // How many calls a rank that only gives (the source of broadcast and scatter, the others of reduce) may be ahead of the
  // rest, for small calls with a core for every rank. An error of such a call reaches it at a later one. At most 10.
  int run_ahead = 0;
  // Whether the bits of a reduction depend on the inputs and the number of ranks alone; otherwise as UNISONO_REPRODUCIBLE says.
  std::optional<bool> reproducible = {};
};
// A group of these ranks, in this order. Ranks that are not in it may call too, and get a handle that is not a member.
GroupHandle new_group(const std::vector<int>& ranks, const NewGroupOptions& options = {});
// Every rank of `group` calls; those with the same colour form a group, ordered by key and then by rank. A negative colour
// means: none for me.
GroupHandle split_group(GroupHandle group, int colour, int key = 0, const NewGroupOptions& options = {});
// Groups of `group_size` neighbouring ranks each, or those that are listed; every rank of the world calls. The first is the
// one that this rank is in, the second are all of them, as handles that are not a member but for that one.
struct Subgroups {
  GroupHandle mine = GroupHandle::outside();
  std::vector<GroupHandle> all;
};
Subgroups new_subgroups(int group_size, const NewGroupOptions& options = {});
Subgroups new_subgroups_by_enumeration(const std::vector<std::vector<int>>& ranks_per_subgroup, const NewGroupOptions& options = {});
// The group without these ranks and without those that are gone; the others call, also when the group is broken; if more of
// them die meanwhile, it is the group without those too.
GroupHandle shrink_group(const std::vector<int>& ranks_to_exclude = {}, GroupHandle group = {}, const NewGroupOptions& options = {});
// True when every rank of the group that is still there passes true. All get the same answer, also on a broken group. A deadline that passes breaks
// nothing, and what this rank has said stands: its next call asks the same question, with the same flag (another is a StateError).
bool agree(bool flag, GroupHandle group = {}, std::optional<double> timeout_s = {});
// The ranks of the group, as ranks of the world and in their order, that are known to have died or left, also on a broken group:
// an error names one of them. Asks nobody else, so two ranks may get different answers for a moment. After the group was destroyed
// it is a StateError; the world still knows who has died.
std::vector<int> failed_ranks(GroupHandle group = {});
// Ends every call on the group on every rank with RevokedError; the group is broken afterwards. Any thread.
void abort(GroupHandle group = {}, const std::string& why = "abort() was called");

struct Options {
  GroupHandle group = {};
  bool async_op = false;
  std::optional<double> timeout_s = {};
};
struct ReduceOptions {
  ReduceOp op = ReduceOp::sum;
  GroupHandle group = {};
  bool async_op = false;
  std::optional<double> timeout_s = {};
};
using AllReduceOptions = ReduceOptions;
struct ScatterOptions {
  Rank src = 0;
  GroupHandle group = {};
  bool async_op = false;
  std::optional<double> timeout_s = {};
  std::optional<int> group_src = {};  // instead of src: a rank of the group
};
using BroadcastOptions = ScatterOptions;
struct RootedReduceOptions {
  ReduceOp op = ReduceOp::sum;
  GroupHandle group = {};
  bool async_op = false;
  std::optional<double> timeout_s = {};
  std::optional<int> group_dst = {};  // instead of dst
};

struct GatherOptions {
  Rank dst = 0;
  GroupHandle group = {};
  bool async_op = false;
  std::optional<double> timeout_s = {};
  std::optional<int> group_dst = {};  // instead of dst: a rank of the group
};
struct AllToAllOptions {
  // How many rows of dim 0 come from and go to each rank; equal parts where none are given. Give some on all ranks or on none.
  std::vector<int64_t> output_split_sizes = {}, input_split_sizes = {};
  GroupHandle group = {};
  bool async_op = false;
  std::optional<double> timeout_s = {};
};

struct LetterOptions {
  GroupHandle group = {};
  int tag = 0;  // a letter meets the receive with its tag, in the order sent
  std::optional<double> timeout_s = {};
  std::optional<int> group_peer = {};  // instead of dst or src: a rank of the group
};
// One letter of a batch.
struct P2POp {
  enum class Kind { isend, irecv };
  Kind op = Kind::isend;
  TensorView tensor = {};
  std::optional<Rank> peer = {};  // none: receive from any rank
  LetterOptions options = {};
};

// The result is written into `tensor` on every rank.
WorkPtr all_reduce(TensorView tensor, const AllReduceOptions& options = {});
// Rank r's `tensor` becomes the reduction of those of ranks 0 to r. Any op but avg.
WorkPtr scan(TensorView tensor, const ReduceOptions& options = {});
// Rank r's `tensor` becomes the reduction of those of ranks 0 to r - 1; rank 0's keeps its bytes. Any op but avg.
WorkPtr exscan(TensorView tensor, const ReduceOptions& options = {});
// Element i of `tensor_list` becomes rank i's `tensor`. Sizes may differ where element i has rank i's size.
WorkPtr all_gather(std::span<const TensorView> tensor_list, TensorView tensor, const Options& options = {});
// `output` is the concatenation on dim 0, or the stack (N, *shape).
WorkPtr all_gather_into_tensor(TensorView output, TensorView input, const Options& options = {});
// Rank i's `output` is the reduction of everybody's element i. Inputs are unchanged.
WorkPtr reduce_scatter(TensorView output, std::span<const TensorView> input_list, const ReduceOptions& options = {});
WorkPtr reduce_scatter_tensor(TensorView output, TensorView input, const ReduceOptions& options = {});
// Only dst's tensor gets the result; every other rank's keeps its bytes.
WorkPtr reduce(TensorView tensor, Rank dst, const RootedReduceOptions& options = {});
// `tensor` receives element i of src's list. The list is given on src and empty elsewhere.
WorkPtr scatter(TensorView tensor, std::span<const TensorView> scatter_list = {}, const ScatterOptions& options = {});
// Element i of dst's list becomes rank i's `tensor`. The list is given on dst and empty elsewhere.
WorkPtr gather(TensorView tensor, std::span<const TensorView> gather_list = {}, const GatherOptions& options = {});
// Element i of `output_list` becomes element r of rank i's `input_list`, r being this rank. Any sizes that agree in pairs.
WorkPtr all_to_all(std::span<const TensorView> output_list, std::span<const TensorView> input_list, const Options& options = {});
// The same with one tensor each way, cut along dim 0.
WorkPtr all_to_all_single(TensorView output, TensorView input, const AllToAllOptions& options = {});
// src's tensor on every rank.
WorkPtr broadcast(TensorView tensor, const BroadcastOptions& options = {});
// Returns once every rank has come.
WorkPtr barrier(const Options& options = {});

// From one rank to another. A small tensor is on its way when send returns, while little from this rank waits there to be received; any
// other has been taken. A program must not count on either. Sizes and dtypes must agree: MismatchError on the receiver, and on the sender where it still waits.
void send(TensorView tensor, Rank dst, const LetterOptions& options = {});
// From `src`, or from any rank where none is given. Returns who sent it; -1 on ranks outside the group.
Rank recv(TensorView tensor, std::optional<Rank> src = {}, const LetterOptions& options = {});
// The same without waiting: posting never blocks. The Work of a receive knows its source_rank().
WorkPtr isend(TensorView tensor, Rank dst, const LetterOptions& options = {});
WorkPtr irecv(TensorView tensor, std::optional<Rank> src = {}, const LetterOptions& options = {});
// Posts all of them at once, in any order; a Work each, but for ranks outside the group.
std::vector<WorkPtr> batch_isend_irecv(std::span<const P2POp> operations);

struct MonitoredBarrierOptions {
  GroupHandle group = {};
  std::optional<double> timeout_s = {};
  bool wait_all_ranks = false;  // as in torch; every rank that is missing is named either way
};
// A barrier for finding out who does not come: TimeoutError on those who did, naming the others.
void monitored_barrier(const MonitoredBarrierOptions& options = {});

// Many tensors of one dtype in one call, wherever each of them lies; nothing is packed. All ranks give as many, of the same
// sizes. A list of one is the call without a list.
//
// Every tensor holds its own reduction afterwards.
WorkPtr all_reduce_coalesced(std::span<const TensorView> tensors, const ReduceOptions& options = {});
// output_tensor_lists[i][j] becomes rank i's input_tensor_list[j].
WorkPtr all_gather_coalesced(std::span<const std::vector<TensorView>> output_tensor_lists,
                             std::span<const TensorView> input_tensor_list, const Options& options = {});
// outputs[j] is what all_gather_into_tensor makes of everybody's inputs[j].
WorkPtr all_gather_into_tensor_coalesced(std::span<const TensorView> outputs, std::span<const TensorView> inputs,
                                         const Options& options = {});
// outputs[j] is the reduction of everybody's input_lists[j][r], r being this rank.
WorkPtr reduce_scatter_coalesced(std::span<const TensorView> outputs, std::span<const std::vector<TensorView>> input_lists,
                                 const ReduceOptions& options = {});
// outputs[j] is what reduce_scatter_tensor makes of everybody's inputs[j].
WorkPtr reduce_scatter_tensor_coalesced(std::span<const TensorView> outputs, std::span<const TensorView> inputs,
                                        const ReduceOptions& options = {});

inline WorkPtr all_gather_single(TensorView output, TensorView input, const Options& options = {}) {
  return all_gather_into_tensor(output, input, options);
}
inline WorkPtr reduce_scatter_single(TensorView output, TensorView input, const ReduceOptions& options = {}) {
  return reduce_scatter_tensor(output, input, options);
}

}  // namespace unisono::distributed
#pragma GCC visibility pop
