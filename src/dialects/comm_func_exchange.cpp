// The comm_func dialect: gather_into_tensor and the forms of all_to_all.
#include <fmt/core.h>

#include <cstring>

#include "base/check.hpp"
#include "base/hash.hpp"
#include "dialects/comm_func_parts.hpp"
#include "dialects/default_world.hpp"

namespace unisono::comm_func {
namespace {

// The parts of the count matrix, as lists of parts of both tensors and in bytes for everybody.
Status use_counts(std::span<const int64_t> counts, const TensorView& output, const TensorView& input, const Group& group, Call& call) {
  const int me = group.me(), ranks = group.size();
  const size_t wanted = static_cast<size_t>(ranks) * static_cast<size_t>(ranks);
  if (counts.size() != wanted)
    return {ErrorCode::argument, fmt::format("send_count_matrix has {} counts; {} ranks need {}", counts.size(), ranks, wanted)};
  const int64_t element = element_bytes(input.dtype);
  for (int64_t count : counts)
    if (count < 0 || count > INT64_MAX / element / static_cast<int64_t>(wanted))
      return {ErrorCode::argument, fmt::format("send_count_matrix has the count {}, which cannot be", count)};
  auto splits = std::make_shared<Splits>(ranks, element);
  splits->counts.assign(counts.begin(), counts.end());
  std::vector<Bytes> sent, received;
  int64_t sends = 0, receives = 0;
  for (int peer = 0; peer < ranks; ++peer) {
    sent.push_back({static_cast<std::byte*>(input.data) + sends, splits->sent(me, peer)});
    received.push_back({static_cast<std::byte*>(output.data) + receives, splits->sent(peer, me)});
    sends += sent.back().bytes;
    receives += received.back().bytes;
  }
  RETURN_IF_ERROR(check_count("input", input, sends / element, "what row of send_count_matrix this rank has"));
  RETURN_IF_ERROR(check_count("output", output, receives / element, "what column of send_count_matrix this rank has"));
  call.input = Pieces(sent);
  call.output = Pieces(received);
  call.sizes_hash = hash_bytes(counts.data(), counts.size_bytes());
  call.splits = std::move(splits);
  return Status::success();
}

}  // namespace

Tensor gather_into_tensor(const TensorView& tensor, Rank dst, const GroupName& group_name) {
  const auto member_of = group_named(group_name, "gather_into_tensor");
  Tensor output;
  Request request = request_for(member_of.get(), Collective::gather, [&](const Group& group, Call& call) -> Status {
    set_call_on(call, tensor);
    compare_shapes(call, tensor);
    RETURN_IF_ERROR(find_root("dst", dst, group, call.root));
    RETURN_IF_ERROR(check_tensor("tensor", tensor));
    const bool is_root = call.root == group.me();
    Shape shape = is_root && tensor.shape.dims() > 0 ? tensor.shape : Shape{1};
    if (is_root) shape[0] *= group.size();
    RETURN_IF_ERROR(make_output(output, tensor.dtype, shape));
    if (is_root) call.output = pieces(output);
    if (!is_root) std::memset(output.data(), 0, static_cast<size_t>(output.bytes()));
    return Status::success();
  });
  deliver(std::move(request), {});
  return output;
}

TensorAndHandle all_to_all_single_with_output_shape(const Shape& output_shape, const TensorView& tensor, const AllToAllOptions& options) {
  const auto member_of = group_named(options.group, "all_to_all_single_with_output_shape");
  const bool equal = options.input_split_sizes.empty() && options.output_split_sizes.empty();
  Tensor output;
  Request request = request_for(member_of.get(), Collective::all_to_all, [&](const Group& group, Call& call) -> Status {
    set_call_on(call, tensor);
    RETURN_IF_ERROR(check_tensor("tensor", tensor));
    RETURN_IF_ERROR(make_output(output, tensor.dtype, output_shape));
    if (equal) RETURN_IF_ERROR(check_count("output_shape", output, tensor.count(), "as many come as go, where all parts are equal"));
    RETURN_IF_ERROR(split("input", tensor, options.input_split_sizes, group.size(), call.input));
    return split("output", output, options.output_split_sizes, group.size(), call.output);
  });
  request.has_splits = !equal;
  return deliver_pair(std::move(request), std::move(output), options.async_op);
}

TensorsAndHandle all_to_all_with_output_shape(std::span<const Shape> output_shape_list, std::span<const TensorView> input_tensor_list,
                                              const Options& options) {
  const auto member_of = group_named(options.group, "all_to_all_with_output_shape");
  std::shared_ptr<std::vector<Tensor>> outputs;  // that the call keeps
  std::vector<Tensor> result;
  Request request = request_for(member_of.get(), Collective::all_to_all, [&](const Group& group, Call& call) -> Status {
    set_call_on(call, input_tensor_list.empty() ? TensorView{} : input_tensor_list.front());
    RETURN_IF_ERROR(check_list_length("output_shape_list", output_shape_list.size(), group.size()));
    RETURN_IF_ERROR(check_list_length("input_tensor_list", input_tensor_list.size(), group.size()));
    for (const TensorView& input : input_tensor_list) {
      RETURN_IF_ERROR(check_tensor("input_tensor_list", input));
      RETURN_IF_ERROR(check_same_dtype("input_tensor_list", input, call.dtype));
    }
    outputs = std::make_shared<std::vector<Tensor>>(output_shape_list.size());
    for (size_t index = 0; index < outputs->size(); ++index)
      RETURN_IF_ERROR(make_output((*outputs)[index], call.dtype, output_shape_list[index]));
    call.input = pieces(input_tensor_list);
    const std::vector<TensorView> views(outputs->begin(), outputs->end());
    call.output = pieces(views);
    result = *outputs;
    return Status::success();
  });
  request.has_splits = true;
  WorkPtr work = deliver(std::move(request), {options.async_op, {}, std::move(outputs)});
  return {std::move(result), handle_of(work)};
}

CommHandlePtr all_to_all_v_c(TensorView output, const TensorView& input, std::span<const int64_t> send_count_matrix,
                             const Options& options) {
  const auto member_of = group_named(options.group, "all_to_all_v_c");
  Request request = request_for(member_of.get(), Collective::all_to_all, [&](const Group& group, Call& call) -> Status {
    set_call_on(call, input);
    RETURN_IF_ERROR(check_tensor("input", input));
    RETURN_IF_ERROR(check_writable("output", output));
    RETURN_IF_ERROR(check_same_dtype("output", output, input.dtype));
    RETURN_IF_ERROR(check_apart("output", output, "input", input));
    return use_counts(send_count_matrix, output, input, group, call);
  });
  return handle_of(deliver(std::move(request), {options.async_op, {}, nullptr}));
}

}  // namespace unisono::comm_func
