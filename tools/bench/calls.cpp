// One switch a way of calling; see calls.hpp.
#include "tools/bench/calls.hpp"

#include "unisono/comm_func.hpp"
#include "unisono/distributed.hpp"

namespace unisono::tools {
namespace {

std::span<const TensorView> list_of(const Buffers& buffers, int root) {
  return root == buffers.rank ? std::span(buffers.pieces) : std::span<const TensorView>();
}

}  // namespace

void call_distributed(Collective collective, const Buffers& buffers, int root) {
  const Tensor &input = buffers.input, &output = buffers.output;
  switch (collective) {
    case Collective::all_reduce: distributed::all_reduce(output); return;
    case Collective::all_gather: distributed::all_gather_into_tensor(output, input); return;
    case Collective::reduce_scatter: distributed::reduce_scatter_tensor(output, input); return;
    case Collective::reduce: distributed::reduce(output, root); return;
    case Collective::scatter: distributed::scatter(output, list_of(buffers, root), {.src = root}); return;
    case Collective::gather: distributed::gather(input, list_of(buffers, root), {.dst = root}); return;
    case Collective::broadcast: distributed::broadcast(output, {.src = root}); return;
    case Collective::all_to_all: distributed::all_to_all_single(output, input); return;
    case Collective::scan: distributed::scan(output); return;
    case Collective::exscan: distributed::exscan(output); return;
    case Collective::barrier: distributed::barrier(); return;
  }
}

Prepared prepare(Collective collective, const Buffers& buffers, int root) {
  const Tensor &input = buffers.input, &output = buffers.output;
  switch (collective) {
    case Collective::all_reduce: return distributed::prepare_all_reduce(output);
    case Collective::all_gather: return distributed::prepare_all_gather_into_tensor(output, input);
    case Collective::reduce_scatter: return distributed::prepare_reduce_scatter_tensor(output, input);
    case Collective::reduce: return distributed::prepare_reduce(output, root);
    case Collective::scatter: return distributed::prepare_scatter(output, list_of(buffers, root), {.src = root});
    case Collective::gather: return distributed::prepare_gather(input, list_of(buffers, root), {.dst = root});
    case Collective::broadcast: return distributed::prepare_broadcast(output, {.src = root});
    case Collective::all_to_all: return distributed::prepare_all_to_all_single(output, input);
    case Collective::scan: return distributed::prepare_scan(output);
    case Collective::exscan: return distributed::prepare_exscan(output);
    case Collective::barrier: return distributed::prepare_barrier();
  }
  return {};
}

Tensor call_comm_func(Collective collective, const Buffers& buffers, int root) {
  const Tensor& input = buffers.input;
  switch (collective) {
    case Collective::all_reduce: return comm_func::all_reduce(input).first;
    case Collective::all_gather: return comm_func::all_gather_into_tensor(input).first;
    case Collective::reduce_scatter: return comm_func::reduce_scatter_tensor(input).first;
    case Collective::reduce: return comm_func::reduce(input, root);
    case Collective::scatter: return comm_func::scatter_tensor(input, root);
    case Collective::gather: return comm_func::gather_into_tensor(input, root);
    case Collective::broadcast: return comm_func::broadcast(input, root);
    case Collective::all_to_all: return comm_func::all_to_all_single_with_output_shape(input.shape(), input).first;
    case Collective::scan: return comm_func::scan(input).first;
    case Collective::exscan: return comm_func::exscan(input).first;
    case Collective::barrier: comm_func::barrier(); break;
  }
  return {};
}

}  // namespace unisono::tools
