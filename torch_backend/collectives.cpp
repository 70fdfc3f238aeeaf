// The collectives on one tensor or one list of tensors a rank. Each says what it borrows and which call of the library it is;
// the rest is in perform.hpp.
#include "torch_backend/numbers.hpp"
#include "torch_backend/perform.hpp"

namespace unisono::torch_backend {

using c10d::OpType;
using Works = std::vector<WorkPtr>;

// Where this rank's tensor may lie in a list of everybody's, or null.
const void* TorchBackend::own_part(const std::vector<TensorView>& list) const {
  const auto own = static_cast<size_t>(rank_);
  return own < list.size() ? list[own].data : nullptr;
}

// Inputs, one for each rank, of which this rank's may lie where the output does.
void TorchBackend::set_parts_apart(Loan& loan, std::vector<TensorView>& inputs, const TensorView& output) const {
  for (size_t index = 0; index < inputs.size(); ++index)
    loan.set_apart(inputs[index], {&output, 1}, index == static_cast<size_t>(rank_) ? output.data : nullptr);
}

TorchWork TorchBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  Deed deed{OpType::BROADCAST, "unisono:broadcast", options.asyncOp};
  TensorView tensor;
  int source = 0;
  prepare(Collective::broadcast, [&] {
    tensor = deed.loan.update(only(tensors));
    source = world_rank(options.rootRank, "the source");
  });
  deed.outputs = tensors;
  return perform(std::move(deed), [&](bool async_op, Works& works) {
    works.push_back(distributed::broadcast(tensor, {source, group(), async_op, timeout_s(options.timeout)}));
  });
}

TorchWork TorchBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  if (tensors.size() == 1 && tensors.front().layout() == c10::Layout::Sparse) return allreduce_sparse(tensors, options);
  Deed deed{OpType::ALLREDUCE, "unisono:all_reduce", options.asyncOp};
  TensorView tensor;
  ReduceOp op;
  prepare(Collective::all_reduce, [&] {
    tensor = deed.loan.update(only(tensors));
    op = reduce_op_of(options.reduceOp);
  });
  deed.outputs = tensors;
  return perform(std::move(deed), [&](bool async_op, Works& works) {
    works.push_back(distributed::all_reduce(tensor, {op, group(), async_op, timeout_s(options.timeout)}));
  });
}

TorchWork TorchBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  Deed deed{OpType::REDUCE, "unisono:reduce", options.asyncOp};
  TensorView tensor;
  ReduceOp op;
  int destination = 0;
  prepare(Collective::reduce, [&] {
    tensor = deed.loan.update(only(tensors));
    op = reduce_op_of(options.reduceOp);
    destination = world_rank(options.rootRank, "the destination");
  });
  deed.outputs = tensors;
  return perform(std::move(deed), [&](bool async_op, Works& works) {
    works.push_back(distributed::reduce(tensor, destination, {op, group(), async_op, timeout_s(options.timeout)}));
  });
}

TorchWork TorchBackend::allgather(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  Deed deed{OpType::ALLGATHER, "unisono:all_gather", options.asyncOp};
  TensorView input;
  std::vector<TensorView> list;
  prepare(Collective::all_gather, [&] {
    input = deed.loan.read(only(inputs));
    list = deed.loan.write(only(outputs));
    deed.loan.set_apart(input, list, own_part(list));
  });
  deed.outputs = outputs.front();
  return perform(std::move(deed), [&](bool async_op, Works& works) {
    works.push_back(distributed::all_gather(list, input, plain(options.timeout, async_op)));
  });
}

TorchWork TorchBackend::_allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) {
  Deed deed{OpType::_ALLGATHER_BASE, "unisono:_all_gather_base", options.asyncOp};
  TensorView from, to;
  prepare(Collective::all_gather, [&] {
    from = deed.loan.read(input);
    to = deed.loan.write(output);
    deed.loan.set_apart(from, {&to, 1}, static_cast<std::byte*>(to.data) + rank_ * from.bytes());
  });
  deed.outputs = {output};
  return perform(std::move(deed), [&](bool async_op, Works& works) {
    works.push_back(distributed::all_gather_into_tensor(to, from, plain(options.timeout, async_op)));
  });
}

TorchWork TorchBackend::gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& options) {
  Deed deed{OpType::GATHER, "unisono:gather", options.asyncOp};
  TensorView input;
  std::vector<TensorView> list;
  int destination = 0;
  prepare(Collective::gather, [&] {
    input = deed.loan.read(only(inputs));
    if (!outputs.empty()) list = deed.loan.write(only(outputs));
    deed.loan.set_apart(input, list, own_part(list));
    destination = world_rank(options.rootRank, "the destination");
  });
  if (!outputs.empty()) deed.outputs = outputs.front();
  return perform(std::move(deed), [&](bool async_op, Works& works) {
    works.push_back(distributed::gather(input, list, {destination, group(), async_op, timeout_s(options.timeout)}));
  });
}

TorchWork TorchBackend::scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& options) {
  Deed deed{OpType::SCATTER, "unisono:scatter", options.asyncOp};
  TensorView output;
  std::vector<TensorView> list;
  int source = 0;
  prepare(Collective::scatter, [&] {
    output = deed.loan.write(only(outputs));
    if (!inputs.empty()) list = deed.loan.read(only(inputs));
    set_parts_apart(deed.loan, list, output);
    source = world_rank(options.rootRank, "the source");
  });
  deed.outputs = outputs;
  return perform(std::move(deed), [&](bool async_op, Works& works) {
    works.push_back(distributed::scatter(output, list, {source, group(), async_op, timeout_s(options.timeout)}));
  });
}

TorchWork TorchBackend::reduce_scatter(Tensors& outputs, TensorLists& inputs, const c10d::ReduceScatterOptions& options) {
  Deed deed{OpType::REDUCE_SCATTER, "unisono:reduce_scatter", options.asyncOp};
  TensorView output;
  std::vector<TensorView> list;
  ReduceOp op;
  prepare(Collective::reduce_scatter, [&] {
    list = deed.loan.read(only(inputs));
    output = deed.loan.write(only(outputs));
    set_parts_apart(deed.loan, list, output);
    op = reduce_op_of(options.reduceOp);
  });
  deed.outputs = outputs;
  return perform(std::move(deed), [&](bool async_op, Works& works) {
    works.push_back(distributed::reduce_scatter(output, list, {op, group(), async_op, timeout_s(options.timeout)}));
  });
}

TorchWork TorchBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) {
  Deed deed{OpType::_REDUCE_SCATTER_BASE, "unisono:_reduce_scatter_base", options.asyncOp};
  TensorView from, to;
  ReduceOp op;
  prepare(Collective::reduce_scatter, [&] {
    from = deed.loan.read(input);
    to = deed.loan.write(output);
    deed.loan.set_apart(from, {&to, 1}, static_cast<std::byte*>(to.data) - rank_ * to.bytes());
    op = reduce_op_of(options.reduceOp);
  });
  deed.outputs = {output};
  return perform(std::move(deed), [&](bool async_op, Works& works) {
    works.push_back(distributed::reduce_scatter_tensor(to, from, {op, group(), async_op, timeout_s(options.timeout)}));
  });
}

TorchWork TorchBackend::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) {
  Deed deed{OpType::ALLTOALL, "unisono:all_to_all", options.asyncOp};
  std::vector<TensorView> from, to;
  prepare(Collective::all_to_all, [&] {
    from = deed.loan.read(inputs);
    to = deed.loan.write(outputs);
    for (TensorView& input : from) deed.loan.set_apart(input, to);
  });
  deed.outputs = outputs;
  return perform(std::move(deed), [&](bool async_op, Works& works) {
    works.push_back(distributed::all_to_all(to, from, plain(options.timeout, async_op)));
  });
}

TorchWork TorchBackend::alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                                      std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& options) {
  Deed deed{OpType::ALLTOALL_BASE, "unisono:all_to_all", options.asyncOp};
  TensorView from, to;
  prepare(Collective::all_to_all, [&] {
    from = in_rows(deed.loan.read(input), input);
    to = in_rows(deed.loan.write(output), output);
    deed.loan.set_apart(from, {&to, 1});
  });
  deed.outputs = {output};
  // Torch takes splits on one side only; the other is then cut into equal parts.
  auto equal_parts = [&](const at::Tensor& tensor) {
    const int64_t rows = tensor.dim() == 0 ? 1 : tensor.size(0);
    return std::vector<int64_t>(static_cast<size_t>(size_), rows / size_);
  };
  distributed::AllToAllOptions ours{output_splits, input_splits};
  if (ours.output_split_sizes.empty() != ours.input_split_sizes.empty()) {
    if (ours.output_split_sizes.empty()) ours.output_split_sizes = equal_parts(output);
    if (ours.input_split_sizes.empty()) ours.input_split_sizes = equal_parts(input);
  }
  return perform(std::move(deed), [&](bool async_op, Works& works) {
    ours.group = group();
    ours.async_op = async_op;
    ours.timeout_s = timeout_s(options.timeout);
    works.push_back(distributed::all_to_all_single(to, from, ours));
  });
}

TorchWork TorchBackend::barrier(const c10d::BarrierOptions& options) {
  return perform(Deed{OpType::BARRIER, "unisono:barrier", options.asyncOp}, [&](bool async_op, Works& works) {
    works.push_back(distributed::barrier(plain(options.timeout, async_op)));
  });
}

void TorchBackend::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  const Ledger::Presence here(*ledger_);
  in_torch_words([&] { distributed::monitored_barrier({group(), timeout_s(options.timeout), wait_all_ranks}); });
}

}  // namespace unisono::torch_backend
