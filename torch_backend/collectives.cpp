// The collectives on one tensor or one list of tensors a rank. Each says what it borrows and which call of the library it is;
// the rest is perform().
#include "torch_backend/numbers.hpp"
#include "torch_backend/perform.hpp"

namespace unisono::torch_backend {

using c10d::OpType;

TorchWork TorchBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  Deed deed{OpType::BROADCAST, "unisono:broadcast", options.asyncOp};
  const TensorView tensor = deed.loan.update(only(tensors));
  deed.outputs = tensors;
  return perform(std::move(deed), [&](bool async_op, std::vector<WorkPtr>& works) {
    works.push_back(distributed::broadcast(
        tensor, {world_rank(options.rootRank, "the source"), group(), async_op, timeout_s(options.timeout)}));
  });
}

TorchWork TorchBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  if (only(tensors).layout() == c10::Layout::Sparse) return allreduce_sparse(tensors, options);
  Deed deed{OpType::ALLREDUCE, "unisono:all_reduce", options.asyncOp};
  const TensorView tensor = deed.loan.update(tensors.front());
  deed.outputs = tensors;
  return perform(std::move(deed), [&](bool async_op, std::vector<WorkPtr>& works) {
    works.push_back(distributed::all_reduce(tensor, reducing(options.reduceOp, options.timeout, async_op)));
  });
}

TorchWork TorchBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  Deed deed{OpType::REDUCE, "unisono:reduce", options.asyncOp};
  const TensorView tensor = deed.loan.update(only(tensors));
  deed.outputs = tensors;
  return perform(std::move(deed), [&](bool async_op, std::vector<WorkPtr>& works) {
    works.push_back(distributed::reduce(tensor, world_rank(options.rootRank, "the destination"),
                                        {reduce_op_of(options.reduceOp), group(), async_op, timeout_s(options.timeout)}));
  });
}

TorchWork TorchBackend::allgather(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  Deed deed{OpType::ALLGATHER, "unisono:all_gather", options.asyncOp};
  const TensorView input = deed.loan.read(only(inputs));
  const std::vector<TensorView> list = deed.loan.write(only(outputs));
  deed.outputs = outputs.front();
  return perform(std::move(deed), [&](bool async_op, std::vector<WorkPtr>& works) {
    works.push_back(distributed::all_gather(list, input, plain(options.timeout, async_op)));
  });
}

TorchWork TorchBackend::_allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) {
  Deed deed{OpType::_ALLGATHER_BASE, "unisono:_all_gather_base", options.asyncOp};
  const TensorView from = deed.loan.read(input), to = deed.loan.write(output);
  deed.outputs = {output};
  return perform(std::move(deed), [&](bool async_op, std::vector<WorkPtr>& works) {
    works.push_back(distributed::all_gather_into_tensor(to, from, plain(options.timeout, async_op)));
  });
}

TorchWork TorchBackend::gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& options) {
  Deed deed{OpType::GATHER, "unisono:gather", options.asyncOp};
  const TensorView input = deed.loan.read(only(inputs));
  if (!outputs.empty()) deed.outputs = only(outputs);
  const std::vector<TensorView> list = deed.loan.write(deed.outputs);
  return perform(std::move(deed), [&](bool async_op, std::vector<WorkPtr>& works) {
    works.push_back(distributed::gather(
        input, list, {world_rank(options.rootRank, "the destination"), group(), async_op, timeout_s(options.timeout)}));
  });
}

TorchWork TorchBackend::scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& options) {
  Deed deed{OpType::SCATTER, "unisono:scatter", options.asyncOp};
  const TensorView output = deed.loan.write(only(outputs));
  const std::vector<TensorView> list = inputs.empty() ? std::vector<TensorView>() : deed.loan.read(only(inputs));
  deed.outputs = outputs;
  return perform(std::move(deed), [&](bool async_op, std::vector<WorkPtr>& works) {
    works.push_back(distributed::scatter(
        output, list, {world_rank(options.rootRank, "the source"), group(), async_op, timeout_s(options.timeout)}));
  });
}

TorchWork TorchBackend::reduce_scatter(Tensors& outputs, TensorLists& inputs, const c10d::ReduceScatterOptions& options) {
  Deed deed{OpType::REDUCE_SCATTER, "unisono:reduce_scatter", options.asyncOp};
  const std::vector<TensorView> list = deed.loan.read(only(inputs));
  const TensorView output = deed.loan.write(only(outputs));
  deed.outputs = outputs;
  return perform(std::move(deed), [&](bool async_op, std::vector<WorkPtr>& works) {
    works.push_back(distributed::reduce_scatter(output, list, reducing(options.reduceOp, options.timeout, async_op)));
  });
}

TorchWork TorchBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) {
  Deed deed{OpType::_REDUCE_SCATTER_BASE, "unisono:_reduce_scatter_base", options.asyncOp};
  const TensorView from = deed.loan.read(input), to = deed.loan.write(output);
  deed.outputs = {output};
  return perform(std::move(deed), [&](bool async_op, std::vector<WorkPtr>& works) {
    works.push_back(distributed::reduce_scatter_tensor(to, from, reducing(options.reduceOp, options.timeout, async_op)));
  });
}

TorchWork TorchBackend::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) {
  Deed deed{OpType::ALLTOALL, "unisono:all_to_all", options.asyncOp};
  const std::vector<TensorView> from = deed.loan.read(inputs), to = deed.loan.write(outputs);
  deed.outputs = outputs;
  return perform(std::move(deed), [&](bool async_op, std::vector<WorkPtr>& works) {
    works.push_back(distributed::all_to_all(to, from, plain(options.timeout, async_op)));
  });
}

TorchWork TorchBackend::alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                                      std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& options) {
  Deed deed{OpType::ALLTOALL_BASE, "unisono:all_to_all", options.asyncOp};
  const TensorView from = in_rows(deed.loan.read(input), input), to = in_rows(deed.loan.write(output), output);
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
  return perform(std::move(deed), [&](bool async_op, std::vector<WorkPtr>& works) {
    ours.group = group();
    ours.async_op = async_op;
    ours.timeout_s = timeout_s(options.timeout);
    works.push_back(distributed::all_to_all_single(to, from, ours));
  });
}

TorchWork TorchBackend::barrier(const c10d::BarrierOptions& options) {
  return perform(Deed{OpType::BARRIER, "unisono:barrier", options.asyncOp}, [&](bool async_op, std::vector<WorkPtr>& works) {
    works.push_back(distributed::barrier(plain(options.timeout, async_op)));
  });
}

void TorchBackend::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  in_torch_words([&] { distributed::monitored_barrier({group(), timeout_s(options.timeout), wait_all_ranks}); });
}

}  // namespace unisono::torch_backend
