// The mindspore.communication.comm_func dialect: leaves its input alone and returns a fresh tensor, beside a CommHandle (or
// null) where the function takes `async_op`. Groups are names. Errors are thrown: see status.hpp; a rank that is not in the
// group gets an ArgumentError naming both. With async_op the input must live until the handle's wait().
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "unisono/communication.hpp"
#include "unisono/shared_tensor.hpp"
#include "unisono/tensor.hpp"
#include "unisono/types.hpp"
#include "unisono/work.hpp"

#pragma GCC visibility push(default)
namespace unisono::comm_func {

using communication::GlobalComm;
using unisono::CommHandle;
using unisono::DType;
using unisono::ReduceOp;

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

struct AllToAllOptions {
  // How many rows of dim 0 come from and go to each rank; equal parts where none are given. Give some on all ranks or on none.
  std::vector<int64_t> output_split_sizes = {}, input_split_sizes = {};
  GroupName group = world;
  bool async_op = false;
};

using TensorAndHandle = std::pair<Tensor, CommHandlePtr>;
using TensorsAndHandle = std::pair<std::vector<Tensor>, CommHandlePtr>;

// A new tensor with the shape of `tensor`. Shapes must agree between ranks.
TensorAndHandle all_reduce(const TensorView& tensor, const ReduceOptions& options = {});
// Rank r gets the reduction of the tensors of ranks 0 to r. Any op but avg. Shapes must agree between ranks.
TensorAndHandle scan(const TensorView& tensor, const ReduceOptions& options = {});
// Rank r gets the reduction of the tensors of ranks 0 to r - 1, and rank 0 zeros. Any op but avg.
TensorAndHandle exscan(const TensorView& tensor, const ReduceOptions& options = {});
// Dim 0 of the result is N × dim 0 of `tensor`; a 0-d tensor gives (N,).
TensorAndHandle all_gather_into_tensor(const TensorView& tensor, const Options& options = {});
// Dim 0 of `tensor` must be divisible by N; dim 0 of the result is the quotient.
TensorAndHandle reduce_scatter_tensor(const TensorView& tensor, const ReduceOptions& options = {});
// The reduction on dst, zeros everywhere else.
Tensor reduce(const TensorView& tensor, Rank dst, const ReduceNowOptions& options = {});
// Part i of src's tensor along dim 0. The others pass a tensor of the same shape and dtype, whose contents are ignored.
Tensor scatter_tensor(const TensorView& tensor, Rank src = 0, const GroupName& group = world);
// Everybody's tensor, concatenated along dim 0, on dst; a zero of shape (1,) everywhere else.
Tensor gather_into_tensor(const TensorView& tensor, Rank dst = 0, const GroupName& group = world);
// Part i of the result, along dim 0, is part r of rank i's tensor, r being this rank.
TensorAndHandle all_to_all_single_with_output_shape(const Shape& output_shape, const TensorView& tensor,
                                                    const AllToAllOptions& options = {});
// The same with a list of tensors each way; sizes must agree in pairs.
TensorsAndHandle all_to_all_with_output_shape(std::span<const Shape> output_shape_list, std::span<const TensorView> input_tensor_list,
                                              const Options& options = {});
// Into the caller's memory, where everybody knows how many elements each rank sends to each: row r is what rank r sends.
CommHandlePtr all_to_all_v_c(TensorView output, const TensorView& input, std::span<const int64_t> send_count_matrix,
                             const Options& options = {});
// src's tensor on every rank, as a new tensor.
Tensor broadcast(const TensorView& tensor, Rank src = 0, const GroupName& group = world);
void barrier(const GroupName& group = world);

// From one rank to another. A small tensor is on its way when send returns, while little from this rank waits there to be received; any
// other has been taken. A program must not count on either.
void send(const TensorView& tensor, Rank dst = 0, const GroupName& group = world, int tag = 0);
// A new tensor with the shape and dtype of `tensor`, whose contents are ignored; they must be those of what was sent.
Tensor recv(const TensorView& tensor, Rank src = 0, const GroupName& group = world, int tag = 0);
CommHandlePtr isend(const TensorView& tensor, Rank dst = 0, const GroupName& group = world, int tag = 0);
TensorAndHandle irecv(const TensorView& tensor, Rank src = 0, const GroupName& group = world, int tag = 0);

// One letter of a batch. To receive, a shape is enough where recv_dtype is given.
struct P2POp {
  enum class Kind { isend, irecv };
  Kind op = Kind::isend;
  TensorView tensor = {};
  Rank peer = 0;
  GroupName group = world;
  int tag = 0;
  std::optional<DType> recv_dtype = {};
};
// Sends and receives all of them, in any order. What was received stands in the place of its operation; a zero of shape (1,)
// in that of a send.
std::vector<Tensor> batch_isend_irecv(std::span<const P2POp> operations);

}  // namespace unisono::comm_func
#pragma GCC visibility pop
