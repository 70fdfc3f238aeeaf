// Calls on many tensors at once. The library takes tensors of one dtype in one call, so there is one for each dtype, in the
// order in which they first come up: the same on all ranks.
#include "torch_backend/numbers.hpp"
#include "torch_backend/perform.hpp"
#include "torch_backend/versions.hpp"

namespace unisono::torch_backend {
namespace {

using Tensors = TorchBackend::Tensors;

// The places of the tensors of each dtype.
std::vector<std::vector<size_t>> by_dtype(const Tensors& tensors) {
  std::vector<std::vector<size_t>> all;
  for (size_t index = 0; index < tensors.size(); ++index) {
    auto same = [&](const std::vector<size_t>& some) { return tensors[some.front()].scalar_type() == tensors[index].scalar_type(); };
    auto found = std::find_if(all.begin(), all.end(), same);
    if (found == all.end()) found = all.insert(all.end(), std::vector<size_t>());
    found->push_back(index);
  }
  return all;
}

template <typename T>
std::vector<T> chosen(const std::vector<T>& from, const std::vector<size_t>& places) {
  std::vector<T> some;
  some.reserve(places.size());
  for (size_t place : places) some.push_back(from[place]);
  return some;
}

void require_pairs(const Tensors& outputs, const Tensors& inputs) {
  if (outputs.size() != inputs.size())
    throw ArgumentError(Status(ErrorCode::argument, c10::str(outputs.size(), " outputs and ", inputs.size(), " inputs were given; there has to be one for each")));
}

}  // namespace

TorchWork TorchBackend::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  Deed deed{c10d::OpType::ALLREDUCE_COALESCED, "unisono:all_reduce_coalesced", options.asyncOp};
  std::vector<TensorView> views;
  ReduceOp op;
  prepare(Collective::all_reduce, [&] {
    for (const at::Tensor& tensor : tensors) views.push_back(deed.loan.update(tensor));
    op = reduce_op_of(options.reduceOp);
  });
  deed.outputs = tensors;
  return perform(std::move(deed), [&](bool async_op, std::vector<WorkPtr>& works) {
    for (const auto& places : by_dtype(tensors))
      works.push_back(distributed::all_reduce_coalesced(chosen(views, places), {op, group(), async_op, timeout_s(options.timeout)}));
  });
}

TorchWork TorchBackend::allgather_coalesced(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  Deed deed{c10d::OpType::ALLGATHER_COALESCED, "unisono:all_gather_coalesced", options.asyncOp};
  std::vector<TensorView> from;
  std::vector<std::vector<TensorView>> to;
  prepare(Collective::all_gather, [&] {
    from = deed.loan.read(inputs);
    for (const Tensors& list : outputs) {
      require_pairs(list, inputs);
      to.push_back(deed.loan.write(list));
    }
  });
  for (const Tensors& list : outputs) deed.outputs.insert(deed.outputs.end(), list.begin(), list.end());
  return perform(std::move(deed), [&](bool async_op, std::vector<WorkPtr>& works) {
    for (const auto& places : by_dtype(inputs)) {
      std::vector<std::vector<TensorView>> lists;
      for (const auto& list : to) lists.push_back(chosen(list, places));
      works.push_back(distributed::all_gather_coalesced(lists, chosen(from, places), plain(options.timeout, async_op)));
    }
  });
}

TorchWork TorchBackend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  Deed deed{c10d::OpType::COALESCED, "unisono:all_gather_into_tensor_coalesced", options.asyncOp};
  std::vector<TensorView> from, to;
  prepare(Collective::all_gather, [&] {
    require_pairs(outputs, inputs);
    from = deed.loan.read(inputs);
    to = deed.loan.write(outputs);
  });
  deed.outputs = outputs;
  return perform(std::move(deed), [&](bool async_op, std::vector<WorkPtr>& works) {
    for (const auto& places : by_dtype(inputs))
      works.push_back(
          distributed::all_gather_into_tensor_coalesced(chosen(to, places), chosen(from, places), plain(options.timeout, async_op)));
  });
}

TorchWork TorchBackend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  Deed deed{reduce_scatter_tensors, "unisono:reduce_scatter_tensor_coalesced", options.asyncOp};
  std::vector<TensorView> from, to;
  ReduceOp op;
  prepare(Collective::reduce_scatter, [&] {
    require_pairs(outputs, inputs);
    from = deed.loan.read(inputs);
    to = deed.loan.write(outputs);
    op = reduce_op_of(options.reduceOp);
  });
  deed.outputs = outputs;
  return perform(std::move(deed), [&](bool async_op, std::vector<WorkPtr>& works) {
    for (const auto& places : by_dtype(inputs))
      works.push_back(distributed::reduce_scatter_tensor_coalesced(chosen(to, places), chosen(from, places),
                                                                   {op, group(), async_op, timeout_s(options.timeout)}));
  });
}

}  // namespace unisono::torch_backend
