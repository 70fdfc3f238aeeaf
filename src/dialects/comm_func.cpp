// The comm_func dialect: the input stays as it is and the result is a new tensor.
#include "unisono/comm_func.hpp"

#include <fmt/core.h>

#include <cstring>

#include "base/check.hpp"
#include "dialects/comm_func_parts.hpp"
#include "dialects/default_world.hpp"

namespace unisono::comm_func {

Call make_call(Collective kind, const TensorView& tensor, const ReduceOp& op) {
  Call call;
  call.kind = kind;
  call.dtype = tensor.dtype;
  call.count = tensor.count();
  call.op = op;
  call.input = pieces(tensor);
  return call;
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

CommHandlePtr handle_of(const WorkPtr& work) { return work ? std::make_shared<CommHandle>(work) : nullptr; }

TensorAndHandle deliver_pair(Group& group, Call call, const Status& checked, Tensor output, bool async_op) {
  WorkPtr work = deliver(group, std::move(call), checked, {async_op, {}, output.storage()});
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
  auto group = group_named(options.group, name);
  Call call = make_call(kind, tensor, options.op);
  compare_shapes(call, tensor);
  Status checked = check_tensor("tensor", tensor);
  if (checked.ok()) checked = check_reducible(call, *group);
  Tensor output;
  if (checked.ok()) checked = make_output(output, tensor.dtype, tensor.shape);
  if (checked.ok()) {
    const bool gets_nothing = kind == Collective::exscan && group->me() == 0;
    if (gets_nothing && output.bytes() > 0) std::memset(output.data(), 0, static_cast<size_t>(output.bytes()));
    call.output = pieces(output);
  }
  return deliver_pair(*group, std::move(call), checked, std::move(output), options.async_op);
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
  auto group = group_named(options.group, "all_gather_into_tensor");
  Call call = make_call(Collective::all_gather, tensor);
  Status checked = check_tensor("tensor", tensor);
  Tensor output;
  if (checked.ok()) {
    Shape shape = tensor.shape.dims() == 0 ? Shape{1} : tensor.shape;
    if (__builtin_mul_overflow(shape[0], group->size(), &shape[0])) shape[0] = -1;  // a shape that cannot be
    checked = make_output(output, tensor.dtype, shape);
    call.output = pieces(output);
  }
  return deliver_pair(*group, std::move(call), checked, std::move(output), options.async_op);
}

TensorAndHandle reduce_scatter_tensor(const TensorView& tensor, const ReduceOptions& options) {
  auto group = group_named(options.group, "reduce_scatter_tensor");
  Call call = make_call(Collective::reduce_scatter, tensor, options.op);
  Status checked = check_tensor("tensor", tensor);
  if (checked.ok()) checked = check_divisible("tensor", tensor, group->size());
  Tensor output;
  if (checked.ok()) checked = make_share(output, tensor, group->size(), call);
  if (checked.ok()) checked = check_reducible(call, *group);
  return deliver_pair(*group, std::move(call), checked, std::move(output), options.async_op);
}

Tensor reduce(const TensorView& tensor, Rank dst, const ReduceNowOptions& options) {
  auto group = group_named(options.group, "reduce");
  Call call = make_call(Collective::reduce, tensor, options.op);
  compare_shapes(call, tensor);
  Status checked = find_root("dst", dst, *group, call.root);
  if (checked.ok()) checked = check_tensor("tensor", tensor);
  if (checked.ok()) checked = check_reducible(call, *group);
  Tensor output;
  if (checked.ok()) checked = make_output(output, tensor.dtype, tensor.shape);
  if (checked.ok()) {
    if (call.root != group->me()) std::memset(output.data(), 0, static_cast<size_t>(output.bytes()));
    call.output = pieces(output);
  }
  deliver(*group, std::move(call), checked, {});
  return output;
}

Tensor scatter_tensor(const TensorView& tensor, Rank src, const GroupName& group_name) {
  auto group = group_named(group_name, "scatter_tensor");
  Call call = make_call(Collective::scatter, tensor);
  compare_shapes(call, tensor);
  Status checked = find_root("src", src, *group, call.root);
  if (checked.ok()) checked = check_tensor("tensor", tensor);
  if (checked.ok()) checked = check_divisible("tensor", tensor, group->size());
  Tensor output;
  if (checked.ok()) checked = make_share(output, tensor, group->size(), call);
  deliver(*group, std::move(call), checked, {});
  return output;
}

Tensor broadcast(const TensorView& tensor, Rank src, const GroupName& group_name) {
  auto group = group_named(group_name, "broadcast");
  Call call = make_call(Collective::broadcast, tensor);
  Status checked = find_root("src", src, *group, call.root);
  if (checked.ok()) checked = check_tensor("tensor", tensor);
  Tensor output;
  if (checked.ok()) checked = make_output(output, tensor.dtype, tensor.shape);
  if (checked.ok()) {
    call.output = pieces(output);
    if (call.root == group->me() && output.bytes() > 0) std::memcpy(output.data(), tensor.data, static_cast<size_t>(output.bytes()));
  }
  deliver(*group, std::move(call), checked, {});
  return output;
}

void barrier(const GroupName& group_name) {
  Call call;
  call.kind = Collective::barrier;
  deliver(*group_named(group_name, "barrier"), std::move(call), Status::success(), {});
}

}  // namespace unisono::comm_func
