// all_reduce of sparse tensors: everybody's entries are gathered, then summed up here. It is made of several calls that
// depend on each other, so it is over when it returns, also when it was asked for asynchronously.
#include <ATen/Functions.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include "torch_backend/perform.hpp"

namespace unisono::torch_backend {
namespace {

// What has to be alike on all ranks, and how many entries this one has: dims, sizes, entries.
std::vector<int64_t> outline_of(const at::Tensor& sparse) {
  std::vector<int64_t> outline = {sparse.sparse_dim(), sparse.dense_dim()};
  outline.insert(outline.end(), sparse.sizes().begin(), sparse.sizes().end());
  outline.push_back(sparse._nnz());
  return outline;
}

}  // namespace

// Everybody's `mine`, whose dim 0 has as many entries as `counts` says of each rank.
TorchBackend::Tensors TorchBackend::gathered(const at::Tensor& mine, const std::vector<int64_t>& counts, const distributed::Options& options) {
  Loan loan;
  Tensors parts;
  for (int64_t count : counts) {
    std::vector<int64_t> sizes = mine.sizes().vec();
    sizes[0] = count;
    parts.push_back(at::empty(sizes, mine.options()));
  }
  const std::vector<TensorView> list = loan.write(parts);
  distributed::all_gather(list, loan.read(mine), options);
  return parts;
}

TorchWork TorchBackend::allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) {
  const bool averages = options.reduceOp.op_ == c10d::ReduceOp::AVG;
  at::AutoDispatchBelowADInplaceOrView below;
  at::Tensor mine;
  prepare(Collective::all_gather, [&] {  // which is the first call that the others make
    if (only(tensors).layout() != c10::Layout::Sparse) throw ArgumentError(Status(ErrorCode::argument, "the tensor is not sparse"));
    if (!averages && options.reduceOp.op_ != c10d::ReduceOp::SUM)
      throw ArgumentError(Status(ErrorCode::argument, "sparse tensors are summed up or averaged; other reductions would need the zeros"));
    mine = tensors.front().coalesce();
  });
  const Ledger::Presence here(*ledger_);
  const at::Tensor& tensor = tensors.front();
  Deed deed{c10d::OpType::_ALLREDUCE_SPARSE, "unisono:sparse_all_reduce", false};
  deed.outputs = tensors;
  deed.number = number_.fetch_add(1, std::memory_order_relaxed) + 1;
  deed.started = std::chrono::steady_clock::now();
  const at::Tensor sum = in_call([&] {
    const distributed::Options each = plain(options.timeout, false);
    const std::vector<int64_t> outline = outline_of(mine);
    const auto length = static_cast<int64_t>(outline.size());
    std::vector<int64_t> outlines(outline.size() * static_cast<size_t>(size_)), counts;
    distributed::all_gather_into_tensor(view(outlines), view(outline), each);
    for (int rank = 0; rank < size_; ++rank) {
      const auto theirs = outlines.begin() + rank * length;
      counts.push_back(theirs[length - 1]);
      if (std::equal(outline.begin(), outline.end() - 1, theirs)) continue;
      throw MismatchError(Status(ErrorCode::mismatch, c10::str("sparse all_reduce: rank ", ranks_[static_cast<size_t>(rank)],
                                                               " has a tensor of another shape than this rank's ", mine.sizes())));
    }
    // Entries along dim 0, so that one rank's lie together.
    const Tensors indices = gathered(mine.indices().t().contiguous(), counts, each);
    const Tensors values = gathered(mine.values().contiguous(), counts, each);
    at::Tensor all = at::sparse_coo_tensor(at::cat(indices).t(), at::cat(values), mine.sizes(), mine.options()).coalesce();
    if (averages) all.values().div_(size_);
    return all;
  });
  tensor.copy_(sum);
  TorchWork work = finished(std::move(deed));
  note_collected(work);
  return work;
}

}  // namespace unisono::torch_backend
