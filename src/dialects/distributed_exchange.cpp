// The torch.distributed dialect: gather and the forms of all_to_all.
#include <fmt/core.h>

#include "base/check.hpp"
#include "dialects/default_world.hpp"
#include "dialects/distributed_parts.hpp"

namespace unisono::distributed {
namespace {

// On the rank that gathers: a list as long as the group, of tensors like the one that is given.
Status check_gather_list(std::span<const TensorView> list, const TensorView& tensor, const Group& group) {
  if (list.empty()) return {ErrorCode::argument, "gather_list must be given on the rank that gathers, and this is it"};
  RETURN_IF_ERROR(check_list_length("gather_list", list.size(), group.size()));
  for (size_t index = 0; index < list.size(); ++index) {
    RETURN_IF_ERROR(check_writable("gather_list", list[index]));
    RETURN_IF_ERROR(check_same_dtype("gather_list", list[index], tensor.dtype));
    RETURN_IF_ERROR(check_count("gather_list", list[index], tensor.count(), "every element has the size of tensor"));
    // The tensor may be its own place in the list; in any other it would be overwritten before it is read.
    if (index != static_cast<size_t>(group.me()) || list[index].data != tensor.data)
      RETURN_IF_ERROR(check_apart("gather_list", list[index], "tensor", tensor));
  }
  return check_parts_apart("gather_list", list);
}

Status check_all_to_all(std::span<const TensorView> outputs, std::span<const TensorView> inputs, const Group& group) {
  RETURN_IF_ERROR(check_list_length("output_list", outputs.size(), group.size()));
  RETURN_IF_ERROR(check_list_length("input_list", inputs.size(), group.size()));
  for (const TensorView& output : outputs) {
    RETURN_IF_ERROR(check_writable("output_list", output));
    RETURN_IF_ERROR(check_same_dtype("output_list", output, inputs.front().dtype));
  }
  for (const TensorView& input : inputs) {
    RETURN_IF_ERROR(check_tensor("input_list", input));
    RETURN_IF_ERROR(check_same_dtype("input_list", input, inputs.front().dtype));
    for (const TensorView& output : outputs) RETURN_IF_ERROR(check_apart("output_list", output, "input_list", input));
  }
  return check_parts_apart("output_list", outputs);
}

Status check_all_to_all_single(const Group& group, const TensorView& output, const TensorView& input,
                               const AllToAllOptions& options, Call& call) {
  const bool equal = options.input_split_sizes.empty() && options.output_split_sizes.empty();
  RETURN_IF_ERROR(check_tensor("input", input));
  RETURN_IF_ERROR(check_writable("output", output));
  RETURN_IF_ERROR(check_same_dtype("output", output, input.dtype));
  RETURN_IF_ERROR(check_apart("output", output, "input", input));
  if (equal) RETURN_IF_ERROR(check_count("output", output, input.count(), "as many come as go, where all parts are equal"));
  RETURN_IF_ERROR(split("input", input, options.input_split_sizes, group.size(), call.input));
  return split("output", output, options.output_split_sizes, group.size(), call.output);
}

}  // namespace

Request gather_request(const TensorView& tensor, TensorList gather_list, const GatherOptions& options) {
  return request_for(group_of(options.group, "gather"), Collective::gather, [&](const Group& group, Call& call) -> Status {
    set_call(call, tensor);
    RETURN_IF_ERROR(find_root("dst", options.dst, options.group_dst, group, call.root));
    RETURN_IF_ERROR(check_tensor("tensor", tensor));
    const bool is_root = call.root == group.me();
    if (is_root) RETURN_IF_ERROR(check_gather_list(gather_list, tensor, group));
    if (!is_root && !gather_list.empty())
      return {ErrorCode::argument, fmt::format("gather_list is given on the rank that gathers only, and this rank is not rank {}",
                                               group.world_rank(call.root))};
    call.input = pieces(tensor);
    if (is_root) call.output = pieces(gather_list);
    return Status::success();
  });
}

Request all_to_all_request(TensorList output_list, TensorList input_list, const Options& options) {
  Request request = request_for(group_of(options.group, "all_to_all"), Collective::all_to_all,
                     [&](const Group& group, Call& call) -> Status {
    set_call(call, input_list.empty() ? TensorView{} : input_list.front());
    RETURN_IF_ERROR(check_all_to_all(output_list, input_list, group));
    call.input = pieces(input_list);
    call.output = pieces(output_list);
    return Status::success();
  });
  request.has_splits = true;
  return request;
}

Request all_to_all_single_request(const TensorView& output, const TensorView& input, const AllToAllOptions& options) {
  Request request = request_for(group_of(options.group, "all_to_all_single"), Collective::all_to_all,
                     [&](const Group& group, Call& call) -> Status {
    set_call(call, input);
    return check_all_to_all_single(group, output, input, options, call);
  });
  request.has_splits = !options.input_split_sizes.empty() || !options.output_split_sizes.empty();
  return request;
}

WorkPtr gather(TensorView tensor, std::span<const TensorView> gather_list, const GatherOptions& options) {
  return deliver(gather_request(tensor, gather_list, options), delivery(options));
}

WorkPtr all_to_all(std::span<const TensorView> output_list, std::span<const TensorView> input_list, const Options& options) {
  return deliver(all_to_all_request(output_list, input_list, options), delivery(options));
}

WorkPtr all_to_all_single(TensorView output, TensorView input, const AllToAllOptions& options) {
  return deliver(all_to_all_single_request(output, input, options), delivery(options));
}

}  // namespace unisono::distributed
