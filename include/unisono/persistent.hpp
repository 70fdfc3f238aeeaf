// Calls of the torch dialect that are made again and again: checked, planned and described once, and then only performed.
//
//   Prepared sum = distributed::prepare_all_reduce(view(gradient));
//   for (...) { compute(gradient); sum.run(); }
//
// On the wire a prepared call is the call: other ranks may make it either way. Preparing is no call, and tells nobody anything.
// Each takes the arguments of the function it is named after; `async_op` is not read, since start() never waits and run() does.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "unisono/distributed.hpp"
#include "unisono/work.hpp"

namespace unisono {
struct StandingCall;
}

#pragma GCC visibility push(default)
namespace unisono {

// Used by one thread at a time; moved, not copied. The tensors must live as long as calls are made. One that is dropped while its
// call is under way lets it go on, as a Work does, and the tensors must then live until it is over. Outside the group, or made
// by no function, it does nothing.
class Prepared {
 public:
  Prepared() = default;
  Prepared(std::shared_ptr<Group> group, std::shared_ptr<StandingCall> call);
  Prepared(Prepared&&) noexcept = default;
  Prepared& operator=(Prepared&&) noexcept = default;

  void start();  // posts the call; StateError where the last one was not waited for
  // Blocks until the call that was started is over; true, or throws its error, and it may be started again. A timeout in seconds
  // that expires throws TimeoutError and leaves it running. StateError where none was started.
  bool wait(std::optional<double> timeout_s = std::nullopt);
  void run();                 // both, in this thread
  bool is_started() const { return work_ != nullptr; }  // and was not waited for
  bool is_completed() const { return !work_ || work_->is_completed(); }

 private:
  std::shared_ptr<Group> group_;
  std::shared_ptr<StandingCall> call_;
  WorkPtr work_;
};

namespace distributed {

// Each keeps the call that the function it is named after would make. ArgumentError says what is wrong with it.
Prepared prepare_all_reduce(TensorView tensor, const AllReduceOptions& options = {});
Prepared prepare_scan(TensorView tensor, const ReduceOptions& options = {});
Prepared prepare_exscan(TensorView tensor, const ReduceOptions& options = {});
Prepared prepare_all_gather(std::span<const TensorView> tensor_list, TensorView tensor, const Options& options = {});
Prepared prepare_all_gather_into_tensor(TensorView output, TensorView input, const Options& options = {});
Prepared prepare_reduce_scatter(TensorView output, std::span<const TensorView> input_list, const ReduceOptions& options = {});
Prepared prepare_reduce_scatter_tensor(TensorView output, TensorView input, const ReduceOptions& options = {});
Prepared prepare_reduce(TensorView tensor, Rank dst, const RootedReduceOptions& options = {});
Prepared prepare_scatter(TensorView tensor, std::span<const TensorView> scatter_list = {}, const ScatterOptions& options = {});
Prepared prepare_gather(TensorView tensor, std::span<const TensorView> gather_list = {}, const GatherOptions& options = {});
// Where split sizes are given, or lists, ranks tell each other how much they send in every call anew.
Prepared prepare_all_to_all(std::span<const TensorView> output_list, std::span<const TensorView> input_list,
                            const Options& options = {});
Prepared prepare_all_to_all_single(TensorView output, TensorView input, const AllToAllOptions& options = {});
Prepared prepare_broadcast(TensorView tensor, const BroadcastOptions& options = {});
Prepared prepare_barrier(const Options& options = {});
Prepared prepare_all_reduce_coalesced(std::span<const TensorView> tensors, const ReduceOptions& options = {});
Prepared prepare_all_gather_coalesced(std::span<const std::vector<TensorView>> output_tensor_lists,
                                      std::span<const TensorView> input_tensor_list, const Options& options = {});
Prepared prepare_all_gather_into_tensor_coalesced(std::span<const TensorView> outputs, std::span<const TensorView> inputs,
                                                  const Options& options = {});
Prepared prepare_reduce_scatter_coalesced(std::span<const TensorView> outputs,
                                          std::span<const std::vector<TensorView>> input_lists, const ReduceOptions& options = {});
Prepared prepare_reduce_scatter_tensor_coalesced(std::span<const TensorView> outputs, std::span<const TensorView> inputs,
                                                 const ReduceOptions& options = {});

}  // namespace distributed
}  // namespace unisono
#pragma GCC visibility pop
