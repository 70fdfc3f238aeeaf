// The comm_func dialect: the input stays as it is and the result is a new tensor.
#include "unisono/comm_func.hpp"

#include <fmt/core.h>

#include <cstring>

#include "base/check.hpp"
#include "dialects/comm_func_parts.hpp"
#include "dialects/default_world.hpp"

namespace unisono::comm_func {

void set_call_on(Call& call, const TensorView& input, const ReduceOp& op) {
  set_call(call, input, op);
  call.input = pieces(input);
}

void compare_shapes(Call& call, const TensorView& tensor) {
  call.shape.assign(tensor.shape.begin(), tensor.shape.end());
  call.compare_shapes = true;
}

Status find_root(const char* argument, Rank rank, const Group& group, int& root) {
  RETURN_IF_ERROR(check_member(argument, rank, group));
  root = group.index_of(rank);
  return Status::success();
}

Status make_output(Tensor& output, DType dtype, const Shape& shape) {
  try {
    output = Tensor::empty(dtype, shape);
  } catch (const Error& error) {
    return error.status();
  }
  return Status::success();
}

CommHandlePtr handle_of(const WorkPtr& work) {
  CommHandlePtr handle;
  if (work) throw_if_error(or_out_of_memory([&] { return handle = std::make_shared<CommHandle>(work), Status::success(); }));
  return handle;
}

TensorAndHandle deliver_pair(Request&& request, Tensor output, bool async_op) {
  WorkPtr work = deliver(std::move(request), {async_op, {}, output.storage()});
  return {std::move(output), handle_of(work)};
}

namespace {

// A result of one part in `ranks`, cut along dim 0.
Status make_share(Tensor& output, const TensorView& whole, int ranks, Call& call) {
  Shape shape = whole.shape;
  shape[0] /= ranks;
  RETURN_IF_ERROR(make_output(output, whole.dtype, shape));
  call.output = pieces(output);
  call.count = output.count();
  return Status::success();
}

// all_reduce and the scans: a result of the tensor's shape on every rank.
TensorAndHandle reduce_into_new(Collective kind, const char* name, const TensorView& tensor, const ReduceOptions& options) {
  const auto member_of = group_named(options.group, name);
  Tensor output;
  Request request = request_for(member_of.get(), kind, [&](const Group& group, Call& call) -> Status {
    set_call_on(call, tensor, options.op);
    compare_shapes(call, tensor);
    RETURN_IF_ERROR(check_tensor("tensor", tensor));
    RETURN_IF_ERROR(check_reducible(call, group));
    RETURN_IF_ERROR(make_output(output, tensor.dtype, tensor.shape));
    const bool gets_nothing = kind == Collective::exscan && group.me() == 0;
    if (gets_nothing && output.bytes() > 0) std::memset(output.data(), 0, static_cast<size_t>(output.bytes()));
    call.output = pieces(output);
    return Status::success();
  });
  return deliver_pair(std::move(request), std::move(output), options.async_op);
}

}  // namespace

TensorAndHandle all_reduce(const TensorView& tensor, const ReduceOptions& options) {
  return reduce_into_new(Collective::all_reduce, "all_reduce", tensor, options);
}

TensorAndHandle scan(const TensorView& tensor, const ReduceOptions& options) {
  return reduce_into_new(Collective::scan, "scan", tensor, options);
}

TensorAndHandle exscan(const TensorView& tensor, const ReduceOptions& options) {
  return reduce_into_new(Collective::exscan, "exscan", tensor, options);
}

TensorAndHandle all_gather_into_tensor(const TensorView& tensor, const Options& options) {
  const auto member_of = group_named(options.group, "all_gather_into_tensor");
  Tensor output;
  Request request = request_for(member_of.get(), Collective::all_gather, [&](const Group& group, Call& call) -> Status {
    set_call_on(call, tensor);
    RETURN_IF_ERROR(check_tensor("tensor", tensor));
    Shape shape = tensor.shape.dims() == 0 ? Shape{1} : tensor.shape;
    if (__builtin_mul_overflow(shape[0], group.size(), &shape[0])) shape[0] = -1;  // a shape that cannot be
    RETURN_IF_ERROR(make_output(output, tensor.dtype, shape));
    call.output = pieces(output);
    return Status::success();
  });
  return deliver_pair(std::move(request), std::move(output), options.async_op);
}

TensorAndHandle reduce_scatter_tensor(const TensorView& tensor, const ReduceOptions& options) {
  const auto member_of = group_named(options.group, "reduce_scatter_tensor");
  Tensor output;
  Request request = request_for(member_of.get(), Collective::reduce_scatter, [&](const Group& group, Call& call) -> Status {
    set_call_on(call, tensor, options.op);
    RETURN_IF_ERROR(check_tensor("tensor", tensor));
    RETURN_IF_ERROR(check_divisible("tensor", tensor, group.size()));
    RETURN_IF_ERROR(make_share(output, tensor, group.size(), call));
    return check_reducible(call, group);
  });
  return deliver_pair(std::move(request), std::move(output), options.async_op);
}

Tensor reduce(const TensorView& tensor, Rank dst, const ReduceNowOptions& options) {
  const auto member_of = group_named(options.group, "reduce");
  Tensor output;
  Request request = request_for(member_of.get(), Collective::reduce, [&](const Group& group, Call& call) -> Status {
    set_call_on(call, tensor, options.op);
    compare_shapes(call, tensor);
    RETURN_IF_ERROR(find_root("dst", dst, group, call.root));
    RETURN_IF_ERROR(check_tensor("tensor", tensor));
    RETURN_IF_ERROR(check_reducible(call, group));
    RETURN_IF_ERROR(make_output(output, tensor.dtype, tensor.shape));
    if (call.root != group.me()) std::memset(output.data(), 0, static_cast<size_t>(output.bytes()));
    call.output = pieces(output);
    return Status::success();
  });
  deliver(std::move(request), {});
  return output;
}

Tensor scatter_tensor(const TensorView& tensor, Rank src, const GroupName& group_name) {
  const auto member_of = group_named(group_name, "scatter_tensor");
  Tensor output;
  Request request = request_for(member_of.get(), Collective::scatter, [&](const Group& group, Call& call) -> Status {
    set_call_on(call, tensor);
    compare_shapes(call, tensor);
    RETURN_IF_ERROR(find_root("src", src, group, call.root));
    RETURN_IF_ERROR(check_tensor("tensor", tensor));
    RETURN_IF_ERROR(check_divisible("tensor", tensor, group.size()));
    return make_share(output, tensor, group.size(), call);
  });
  deliver(std::move(request), {});
  return output;
}

Tensor broadcast(const TensorView& tensor, Rank src, const GroupName& group_name) {
  const auto member_of = group_named(group_name, "broadcast");
  Tensor output;
  Request request = request_for(member_of.get(), Collective::broadcast, [&](const Group& group, Call& call) -> Status {
    set_call_on(call, tensor);
    RETURN_IF_ERROR(find_root("src", src, group, call.root));
    RETURN_IF_ERROR(check_tensor("tensor", tensor));
    RETURN_IF_ERROR(make_output(output, tensor.dtype, tensor.shape));
    call.output = pieces(output);
    if (call.root == group.me() && output.bytes() > 0) std::memcpy(output.data(), tensor.data, static_cast<size_t>(output.bytes()));
    return Status::success();
  });
  deliver(std::move(request), {});
  return output;
}

void barrier(const GroupName& group_name) {
  const auto member_of = group_named(group_name, "barrier");
  Request request{.group = member_of.get()};
  request.call.kind = Collective::barrier;
  deliver(std::move(request), {});
}

}  // namespace unisono::comm_func
