// The torch.distributed dialect: names, defaults and lists become a Call. Joining and groups: distributed_groups.cpp.
#include "unisono/distributed.hpp"

#include <fmt/core.h>

#include "base/check.hpp"
#include "dialects/build.hpp"
#include "dialects/default_world.hpp"
#include "dialects/distributed_parts.hpp"

namespace unisono::distributed {
namespace {

Status check_all_gather(const Group& group, std::span<const TensorView> list, const TensorView& tensor) {
  RETURN_IF_ERROR(check_tensor("tensor", tensor));
  RETURN_IF_ERROR(check_list_length("tensor_list", list.size(), group.size()));
  for (size_t index = 0; index < list.size(); ++index) {
    RETURN_IF_ERROR(check_writable("tensor_list", list[index]));
    RETURN_IF_ERROR(check_same_dtype("tensor_list", list[index], tensor.dtype));
    // The tensor may be its own place in the list; in any other it would be overwritten before it is read.
    if (index != static_cast<size_t>(group.me()) || list[index].data != tensor.data)
      RETURN_IF_ERROR(check_apart("tensor_list", list[index], "tensor", tensor));
  }
  RETURN_IF_ERROR(check_count("tensor", tensor, list[static_cast<size_t>(group.me())].count(),
                              "this rank's element of tensor_list is to hold it"));
  return check_parts_apart("tensor_list", list);
}

Status check_reduce_scatter(const Group& group, const TensorView& output, std::span<const TensorView> list) {
  RETURN_IF_ERROR(check_writable("output", output));
  RETURN_IF_ERROR(check_list_length("input_list", list.size(), group.size()));
  for (size_t index = 0; index < list.size(); ++index) {
    RETURN_IF_ERROR(check_tensor("input_list", list[index]));
    RETURN_IF_ERROR(check_same_dtype("input_list", list[index], output.dtype));
    // The output may be its own place in the list; any other would be overwritten before its owner has read it.
    if (index != static_cast<size_t>(group.me()) || list[index].data != output.data)
      RETURN_IF_ERROR(check_apart("output", output, "input_list", list[index]));
  }
  return check_count("output", output, list[static_cast<size_t>(group.me())].count(),
                     "it holds the reduction of this rank's element of input_list");
}

Status check_scatter(const Group& group, const TensorView& tensor, TensorList scatter_list, const ScatterOptions& options,
                     Call& call) {
  RETURN_IF_ERROR(find_root("src", options.src, options.group_src, group, call.root));
  RETURN_IF_ERROR(check_writable("tensor", tensor));
  if (call.root != group.me())
    return scatter_list.empty() ? Status::success()
                                : Status(ErrorCode::argument, fmt::format("scatter_list is given on the source only, and this rank is not "
                                                                          "rank {}", group.world_rank(call.root)));
  if (scatter_list.empty()) return {ErrorCode::argument, "scatter_list must be given on the source rank, and this is it"};
  RETURN_IF_ERROR(check_list_length("scatter_list", scatter_list.size(), group.size()));
  const bool stays = scatter_list[static_cast<size_t>(group.me())].data == tensor.data;  // then nothing is written here
  for (const TensorView& element : scatter_list) {
    RETURN_IF_ERROR(check_tensor("scatter_list", element));
    RETURN_IF_ERROR(check_same_dtype("scatter_list", element, tensor.dtype));
    RETURN_IF_ERROR(check_count("scatter_list", element, tensor.count(), "every element has the size of tensor"));
    if (!stays) RETURN_IF_ERROR(check_apart("tensor", tensor, "scatter_list", element));
  }
  call.input = pieces(scatter_list);
  return Status::success();
}

}  // namespace

Status check_into(const char* name, const TensorView& large, const TensorView& small, int ranks) {
  RETURN_IF_ERROR(check_same_dtype(name, large, small.dtype));
  if (small.count() > INT64_MAX / ranks)
    return {ErrorCode::argument, fmt::format("{} would have {} times {} elements, which cannot be", name, ranks, small.count())};
  return check_count(name, large, small.count() * ranks, "as many as the other tensor has, times the ranks of the group");
}

Status find_root(const char* argument, Rank global, std::optional<int> in_group, const Group& group, int& root) {
  if (!in_group) {
    RETURN_IF_ERROR(check_member(argument, global, group));
    root = group.index_of(global);
    return Status::success();
  }
  root = *in_group;
  if (root >= 0 && root < group.size()) return Status::success();
  return {ErrorCode::argument, fmt::format("group_{} is {}, and the group has {} ranks", argument, root, group.size())};
}

// all_reduce and the scans: every rank's tensor is both what it gives and what it gets.
Request reduce_in_place_request(Collective kind, const TensorView& tensor, const ReduceOptions& options) {
  return request_for(group_of(options.group, name_of(kind).data()), kind, [&](const Group& group, Call& call) -> Status {
    set_call(call, tensor, options.op);
    RETURN_IF_ERROR(check_writable("tensor", tensor));
    RETURN_IF_ERROR(check_reducible(call, group));
    call.input = pieces(tensor);
    call.output = pieces(tensor);
    return Status::success();
  });
}

Request all_gather_request(TensorList tensor_list, const TensorView& tensor, const Options& options) {
  return request_for(group_of(options.group, "all_gather"), Collective::all_gather, [&](const Group& group, Call& call) -> Status {
    set_call(call, tensor);
    RETURN_IF_ERROR(check_all_gather(group, tensor_list, tensor));
    call.input = pieces(tensor);
    call.output = pieces(tensor_list);
    if (equal_sizes(tensor_list)) return Status::success();
    call.sizes_hash = sizes_hash(tensor_list);
    call.count = call.output.bytes() / element_bytes(call.dtype);
    return Status::success();
  });
}

Request all_gather_into_request(const TensorView& output, const TensorView& input, const Options& options) {
  return request_for(group_of(options.group, "all_gather_into_tensor"), Collective::all_gather,
                     [&](const Group& group, Call& call) -> Status {
    set_call(call, input);
    RETURN_IF_ERROR(check_tensor("input", input));
    RETURN_IF_ERROR(check_writable("output", output));
    RETURN_IF_ERROR(check_into("output", output, input, group.size()));
    call.input = pieces(input);
    call.output = pieces(output);
    // Torch allows the input to be its own place in the output; any other overlap would be overwritten before it is read.
    if (input.data == call.output.part(group.me(), group.size()).data) return Status::success();
    return check_apart("output", output, "input", input);
  });
}

Request reduce_scatter_request(const TensorView& output, TensorList input_list, const ReduceOptions& options) {
  return request_for(group_of(options.group, "reduce_scatter"), Collective::reduce_scatter, [&](const Group& group, Call& call) -> Status {
    set_call(call, output, options.op);
    RETURN_IF_ERROR(check_reduce_scatter(group, output, input_list));
    RETURN_IF_ERROR(check_reducible(call, group));
    call.input = pieces(input_list);
    call.output = pieces(output);
    if (equal_sizes(input_list)) return Status::success();
    call.sizes_hash = sizes_hash(input_list);
    call.count = call.input.bytes() / element_bytes(call.dtype);
    return Status::success();
  });
}

Request reduce_scatter_tensor_request(const TensorView& output, const TensorView& input, const ReduceOptions& options) {
  return request_for(group_of(options.group, "reduce_scatter_tensor"), Collective::reduce_scatter,
                     [&](const Group& group, Call& call) -> Status {
    set_call(call, output, options.op);
    RETURN_IF_ERROR(check_writable("output", output));
    RETURN_IF_ERROR(check_tensor("input", input));
    RETURN_IF_ERROR(check_into("input", input, output, group.size()));
    RETURN_IF_ERROR(check_reducible(call, group));
    call.input = pieces(input);
    call.output = pieces(output);
    if (output.data == call.input.part(group.me(), group.size()).data) return Status::success();
    return check_apart("output", output, "input", input);
  });
}

Request reduce_request(const TensorView& tensor, Rank dst, const RootedReduceOptions& options) {
  return request_for(group_of(options.group, "reduce"), Collective::reduce, [&](const Group& group, Call& call) -> Status {
    set_call(call, tensor, options.op);
    call.shape.assign(tensor.shape.begin(), tensor.shape.end());
    call.compare_shapes = true;
    RETURN_IF_ERROR(find_root("dst", dst, options.group_dst, group, call.root));
    RETURN_IF_ERROR(call.root == group.me() ? check_writable("tensor", tensor) : check_tensor("tensor", tensor));
    RETURN_IF_ERROR(check_reducible(call, group));
    call.input = call.output = pieces(tensor);
    return Status::success();
  });
}

Request scatter_request(const TensorView& tensor, TensorList scatter_list, const ScatterOptions& options) {
  return request_for(group_of(options.group, "scatter"), Collective::scatter, [&](const Group& group, Call& call) -> Status {
    set_call(call, tensor);
    RETURN_IF_ERROR(check_scatter(group, tensor, scatter_list, options, call));
    call.output = pieces(tensor);
    return Status::success();
  });
}

Request broadcast_request(const TensorView& tensor, const BroadcastOptions& options) {
  return request_for(group_of(options.group, "broadcast"), Collective::broadcast, [&](const Group& group, Call& call) -> Status {
    set_call(call, tensor);
    RETURN_IF_ERROR(find_root("src", options.src, options.group_src, group, call.root));
    RETURN_IF_ERROR(call.root == group.me() ? check_tensor("tensor", tensor) : check_writable("tensor", tensor));
    call.input = call.output = pieces(tensor);
    return Status::success();
  });
}

Request barrier_request(const Options& options) {
  return request_for(group_of(options.group, "barrier"), Collective::barrier, [](const Group&, Call&) { return Status::success(); });
}

WorkPtr all_reduce(TensorView tensor, const AllReduceOptions& options) {
  return deliver(reduce_in_place_request(Collective::all_reduce, tensor, options), delivery(options));
}

WorkPtr scan(TensorView tensor, const ReduceOptions& options) {
  return deliver(reduce_in_place_request(Collective::scan, tensor, options), delivery(options));
}

WorkPtr exscan(TensorView tensor, const ReduceOptions& options) {
  return deliver(reduce_in_place_request(Collective::exscan, tensor, options), delivery(options));
}

WorkPtr all_gather(std::span<const TensorView> tensor_list, TensorView tensor, const Options& options) {
  return deliver(all_gather_request(tensor_list, tensor, options), delivery(options));
}

WorkPtr all_gather_into_tensor(TensorView output, TensorView input, const Options& options) {
  return deliver(all_gather_into_request(output, input, options), delivery(options));
}

WorkPtr reduce_scatter(TensorView output, std::span<const TensorView> input_list, const ReduceOptions& options) {
  return deliver(reduce_scatter_request(output, input_list, options), delivery(options));
}

WorkPtr reduce_scatter_tensor(TensorView output, TensorView input, const ReduceOptions& options) {
  return deliver(reduce_scatter_tensor_request(output, input, options), delivery(options));
}

WorkPtr reduce(TensorView tensor, Rank dst, const RootedReduceOptions& options) {
  return deliver(reduce_request(tensor, dst, options), delivery(options));
}

WorkPtr scatter(TensorView tensor, std::span<const TensorView> scatter_list, const ScatterOptions& options) {
  return deliver(scatter_request(tensor, scatter_list, options), delivery(options));
}

WorkPtr broadcast(TensorView tensor, const BroadcastOptions& options) {
  return deliver(broadcast_request(tensor, options), delivery(options));
}

void monitored_barrier(const MonitoredBarrierOptions& options) {
  Request request{.group = group_of(options.group, "monitored_barrier")};
  request.call.kind = Collective::barrier;
  request.call.purpose = Purpose::monitored;
  deliver(std::move(request), {false, options.timeout_s, nullptr});
}

WorkPtr barrier(const Options& options) {
  return deliver(barrier_request(options), delivery(options));
}

}  // namespace unisono::distributed
