// Unisono as a backend of torch.distributed: c10d's words for calls on one side, the library's on the other. Each call borrows
// its tensors, makes the library's call, and wraps the outcome: see perform(). Thread-safe as c10d's backends are: calls from
// several threads are serialised by the library.
//
// Who writes: number_ and timeout_ms_ are counters and settings of their own, read and written relaxed: nothing else depends on
// them. The group, and the table of what is collected, are under mutex_; an entry of that table is its thread's own.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "torch_backend/membership.hpp"
#include "torch_backend/work.hpp"

namespace unisono::torch_backend {

class TorchBackend final : public c10d::Backend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using TensorLists = std::vector<Tensors>;

  explicit TorchBackend(const GroupRequest& request);  // joins and waits for the other members
  ~TorchBackend() override;

  // Those with calls under way leave their groups, so that nobody waits for them; or all do.
  enum class Ends { with_calls_under_way, all };
  static void end_for_exit(Ends which);

  const std::string getBackendName() const override { return "unisono"; }
  c10::intrusive_ptr<Options> getBackendOptions() override;
  // Only batch_isend_irecv() asks, and where this is true it leaves torch's own record of the batch open when a call of it is
  // refused: from then on all_reduce does nothing. Collecting itself is there, for those that ask for it.
  bool supportsCoalescing() const override { return false; }
  bool supportsSplitting() const override { return true; }
  bool supportsTensorAlloc(c10::DeviceIndex) override { return true; }
  at::Tensor allocateTensor(long size, at::TensorOptions options) override;  // in memory that the neighbours have mapped
  void setTimeout(std::chrono::milliseconds timeout) override;
  c10d::ErrorType getError() override;  // by what a call here has failed with and broken the group; nobody looks without a call
  void abort() override;     // at once, on all ranks; nothing more happens to a group that is broken already
  void shutdown() override;  // once the collectives under way are over: their deadlines and broken groups end that
  c10::intrusive_ptr<Backend> split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                                    const c10::intrusive_ptr<Options>& options) override;

  void setSequenceNumberForGroup() override {}  // counted from 0 by all alike
  uint64_t getSequenceNumberForGroup() override { return number_.load(std::memory_order_relaxed); }
  void registerOnCompletionHook(std::function<void(std::shared_ptr<c10d::WorkInfo>)>&& hook) override;
  void waitForPendingWorks() override { ledger_->wait_for_all(); }
  void enableCollectivesTiming() override {}  // always known
  void startCoalescing() override;
  TorchWork endCoalescing() override;

  TorchWork broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  TorchWork allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  TorchWork allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  TorchWork allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  TorchWork reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  TorchWork allgather(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  TorchWork _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override;
  TorchWork allgather_coalesced(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  TorchWork allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  TorchWork gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& options) override;
  TorchWork scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& options) override;
  TorchWork reduce_scatter(Tensors& outputs, TensorLists& inputs, const c10d::ReduceScatterOptions& options) override;
  TorchWork _reduce_scatter_base(at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) override;
  TorchWork reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) override;
  TorchWork alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                          std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& options) override;
  TorchWork alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override;
  TorchWork barrier(const c10d::BarrierOptions& options) override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;
  TorchWork send(Tensors& tensors, int destination, int tag) override;
  TorchWork recv(Tensors& tensors, int source, int tag) override;
  TorchWork recvAnysource(Tensors& tensors, int tag) override;

 private:
  // What was collected by one thread, until it asks for it; those that are over with success need no waiting for.
  struct Collected {
    std::vector<TorchWork> works;
    size_t tidy_at = 16;
  };

  template <typename Function>
  auto in_call(Function function);
  template <typename Step>
  void prepare(Collective kind, Step step);
  // Makes the library's calls by `call(async_op, works)`, which adds what it gets when they are asynchronous.
  template <typename Call>
  TorchWork perform(Deed deed, Call call);
  template <typename Post>
  TorchWork perform_letter(Deed deed, Post post);
  TorchWork wrap(Deed deed, std::vector<WorkPtr> works);
  TorchWork finished(Deed deed);
  void note_collected(const TorchWork& work);
  Collected* collected();  // this thread's; null: it does not collect
  bool collects() { return collected() != nullptr; }
  void leave();            // at once: calls that are under way fail, and nobody is waited for
  Tensors gathered(const at::Tensor& mine, const std::vector<int64_t>& counts, const distributed::Options& options);

  const void* own_part(const std::vector<TensorView>& list) const;
  void set_parts_apart(Loan& loan, std::vector<TensorView>& inputs, const TensorView& output) const;

  GroupHandle group() const;  // StateError after shutdown()
  int world_rank(int64_t group_rank, const char* name) const;
  double timeout_s(std::chrono::milliseconds of_call = c10d::kUnsetTimeout) const;
  distributed::Options plain(std::chrono::milliseconds timeout, bool async_op) const;

  const std::string name_;
  CompletionPool* const pool_;  // of the process that has joined: a forked child has another one
  std::vector<int> ranks_;  // the World's, by group rank
  std::shared_ptr<Ledger> ledger_;
  std::atomic<int64_t> timeout_ms_;
  std::atomic<uint64_t> number_{0};
  mutable std::mutex mutex_;
  std::unique_ptr<Membership> membership_;  // null once the group was left
  GroupHandle group_ = GroupHandle::outside();
  bool closing_ = false;  // no new calls
  std::map<uint64_t, Collected> collected_;  // by thread, between startCoalescing() and endCoalescing()
};

}  // namespace unisono::torch_backend
