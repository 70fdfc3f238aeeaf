// Calls that are made again and again: see unisono/persistent.hpp. What is decided of them, and when: group/group.cpp.
#include "unisono/persistent.hpp"

#include "dialects/build.hpp"
#include "dialects/distributed_parts.hpp"

namespace unisono {

Prepared::Prepared(std::shared_ptr<Group> group, std::shared_ptr<StandingCall> call)
    : group_(std::move(group)), call_(std::move(call)) {}

void Prepared::start() {
  if (work_) throw StateError(Status(ErrorCode::state, "this prepared call was started already: wait() for it first"));
  if (group_) work_ = group_->post(call_);
}

bool Prepared::wait(std::optional<double> timeout_s) {
  if (!group_) return true;
  if (!work_) throw StateError(Status(ErrorCode::state, "this prepared call was not started: there is nothing to wait for"));
  try {
    work_->wait(timeout_s);
  } catch (...) {
    if (work_->is_completed()) work_.reset();
    throw;
  }
  work_.reset();
  return true;
}

void Prepared::run() {
  if (work_) throw StateError(Status(ErrorCode::state, "this prepared call was started already: wait() for it first"));
  if (group_) throw_if_error(group_->run(call_));
}

namespace distributed {

Prepared prepare_all_reduce(TensorView tensor, const AllReduceOptions& options) {
  return prepare(reduce_in_place_request(Collective::all_reduce, tensor, options), options.timeout_s);
}

Prepared prepare_scan(TensorView tensor, const ReduceOptions& options) {
  return prepare(reduce_in_place_request(Collective::scan, tensor, options), options.timeout_s);
}

Prepared prepare_exscan(TensorView tensor, const ReduceOptions& options) {
  return prepare(reduce_in_place_request(Collective::exscan, tensor, options), options.timeout_s);
}

Prepared prepare_all_gather(TensorList tensor_list, TensorView tensor, const Options& options) {
  return prepare(all_gather_request(tensor_list, tensor, options), options.timeout_s);
}

Prepared prepare_all_gather_into_tensor(TensorView output, TensorView input, const Options& options) {
  return prepare(all_gather_into_request(output, input, options), options.timeout_s);
}

Prepared prepare_reduce_scatter(TensorView output, TensorList input_list, const ReduceOptions& options) {
  return prepare(reduce_scatter_request(output, input_list, options), options.timeout_s);
}

Prepared prepare_reduce_scatter_tensor(TensorView output, TensorView input, const ReduceOptions& options) {
  return prepare(reduce_scatter_tensor_request(output, input, options), options.timeout_s);
}

Prepared prepare_reduce(TensorView tensor, Rank dst, const RootedReduceOptions& options) {
  return prepare(reduce_request(tensor, dst, options), options.timeout_s);
}

Prepared prepare_scatter(TensorView tensor, TensorList scatter_list, const ScatterOptions& options) {
  return prepare(scatter_request(tensor, scatter_list, options), options.timeout_s);
}

Prepared prepare_gather(TensorView tensor, TensorList gather_list, const GatherOptions& options) {
  return prepare(gather_request(tensor, gather_list, options), options.timeout_s);
}

Prepared prepare_all_to_all(TensorList output_list, TensorList input_list, const Options& options) {
  return prepare(all_to_all_request(output_list, input_list, options), options.timeout_s);
}

Prepared prepare_all_to_all_single(TensorView output, TensorView input, const AllToAllOptions& options) {
  return prepare(all_to_all_single_request(output, input, options), options.timeout_s);
}

Prepared prepare_broadcast(TensorView tensor, const BroadcastOptions& options) {
  return prepare(broadcast_request(tensor, options), options.timeout_s);
}

Prepared prepare_barrier(const Options& options) { return prepare(barrier_request(options), options.timeout_s); }

Prepared prepare_all_reduce_coalesced(TensorList tensors, const ReduceOptions& options) {
  return prepare(all_reduce_coalesced_request(tensors, options), options.timeout_s);
}

Prepared prepare_all_gather_coalesced(TensorLists output_tensor_lists, TensorList input_tensor_list, const Options& options) {
  return prepare(all_gather_coalesced_request(output_tensor_lists, input_tensor_list, options), options.timeout_s);
}

Prepared prepare_all_gather_into_tensor_coalesced(TensorList outputs, TensorList inputs, const Options& options) {
  return prepare(all_gather_into_coalesced_request(outputs, inputs, options), options.timeout_s);
}

Prepared prepare_reduce_scatter_coalesced(TensorList outputs, TensorLists input_lists, const ReduceOptions& options) {
  return prepare(reduce_scatter_coalesced_request(outputs, input_lists, options), options.timeout_s);
}

Prepared prepare_reduce_scatter_tensor_coalesced(TensorList outputs, TensorList inputs, const ReduceOptions& options) {
  return prepare(reduce_scatter_into_coalesced_request(outputs, inputs, options), options.timeout_s);
}

}  // namespace distributed
}  // namespace unisono
