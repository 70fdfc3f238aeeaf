// What the files of the torch.distributed dialect share.
#pragma once

#include "dialects/build.hpp"
#include "unisono/distributed.hpp"

namespace unisono::distributed {

template <typename AnyOptions>
Delivery delivery(const AnyOptions& options) {
  return {options.async_op, options.timeout_s, nullptr};
}

// src or dst as a global rank, or group_src or group_dst as a rank of the group; `root` becomes an index into the group.
Status find_root(const char* argument, Rank global, std::optional<int> in_group, const Group& group, int& root);

// The whole of one tensor is N times the other: as a concatenation on dim 0, or as a stack (N, *shape).
Status check_into(const char* name, const TensorView& large, const TensorView& small, int ranks);

// What each function makes of its arguments, to be delivered or kept.
using TensorList = std::span<const TensorView>;
using TensorLists = std::span<const std::vector<TensorView>>;
Request reduce_in_place_request(Collective kind, const TensorView& tensor, const ReduceOptions& options);
Request all_gather_request(TensorList tensor_list, const TensorView& tensor, const Options& options);
Request all_gather_into_request(const TensorView& output, const TensorView& input, const Options& options);
Request reduce_scatter_request(const TensorView& output, TensorList input_list, const ReduceOptions& options);
Request reduce_scatter_tensor_request(const TensorView& output, const TensorView& input, const ReduceOptions& options);
Request reduce_request(const TensorView& tensor, Rank dst, const RootedReduceOptions& options);
Request scatter_request(const TensorView& tensor, TensorList scatter_list, const ScatterOptions& options);
Request gather_request(const TensorView& tensor, TensorList gather_list, const GatherOptions& options);
Request all_to_all_request(TensorList output_list, TensorList input_list, const Options& options);
Request all_to_all_single_request(const TensorView& output, const TensorView& input, const AllToAllOptions& options);
Request broadcast_request(const TensorView& tensor, const BroadcastOptions& options);
Request barrier_request(const Options& options);
Request all_reduce_coalesced_request(TensorList tensors, const ReduceOptions& options);
Request all_gather_coalesced_request(TensorLists output_tensor_lists, TensorList input_tensor_list, const Options& options);
Request reduce_scatter_coalesced_request(TensorList outputs, TensorLists input_lists, const ReduceOptions& options);
Request all_gather_into_coalesced_request(TensorList outputs, TensorList inputs, const Options& options);
Request reduce_scatter_into_coalesced_request(TensorList outputs, TensorList inputs, const ReduceOptions& options);

}  // namespace unisono::distributed
