// The mindspore.communication.comm_func dialect: leaves its input alone and returns a fresh tensor, beside a CommHandle (or
// null) where the function takes `async_op`. Groups are names. Errors are thrown: see status.hpp; a rank that is not in the
// group gets an ArgumentError naming both. With async_op the input must live until the handle's wait().
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "unisono/communication.hpp"
#include "unisono/tensor.hpp"
#include "unisono/types.hpp"
#include "unisono/work.hpp"

namespace unisono::comm_func {

using GroupName = std::string;
inline const GroupName world = communication::GlobalComm::WORLD_COMM_GROUP;

struct Options {
  GroupName group = world;
  bool async_op = false;
};
struct ReduceOptions {
  ReduceOp op = ReduceOp::sum;
  GroupName group = world;
  bool async_op = false;
};
struct ReduceNowOptions {  // no async_op: the reference has none either
  ReduceOp op = ReduceOp::sum;
  GroupName group = world;
};

using TensorAndHandle = std::pair<Tensor, CommHandlePtr>;

// A new tensor with the shape of `tensor`. Shapes must agree between ranks.
TensorAndHandle all_reduce(const TensorView& tensor, const ReduceOptions& options = {});
// Dim 0 of the result is N × dim 0 of `tensor`; a 0-d tensor gives (N,).
TensorAndHandle all_gather_into_tensor(const TensorView& tensor, const Options& options = {});
// Dim 0 of `tensor` must be divisible by N; dim 0 of the result is the quotient.
TensorAndHandle reduce_scatter_tensor(const TensorView& tensor, const ReduceOptions& options = {});
// The reduction on dst, zeros everywhere else.
Tensor reduce(const TensorView& tensor, Rank dst, const ReduceNowOptions& options = {});
// Part i of src's tensor along dim 0. The others pass a tensor of the same shape and dtype, whose contents are ignored.
Tensor scatter_tensor(const TensorView& tensor, Rank src = 0, const GroupName& group = world);
// src's tensor on every rank, as a new tensor.
Tensor broadcast(const TensorView& tensor, Rank src = 0, const GroupName& group = world);
void barrier(const GroupName& group = world);

}  // namespace unisono::comm_func
