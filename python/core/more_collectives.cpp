// The rest of the distributed dialect's collectives: exchanges, coalesced calls, the monitored barrier.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include "python/core/calls.hpp"

namespace unisono::python {
namespace {

using distributed::Options;
using distributed::ReduceOptions;

nb::object all_to_all(nb::handle output_list, nb::handle input_list, nb::handle group, bool async_op) {
  const Options options{.group = group_of(group), .async_op = async_op};
  size_t outputs = 0;
  std::vector<Array> arrays = arguments(Collective::all_to_all, options.group, [&] {
    std::vector<Array> all = read_arrays(output_list, "output_tensor_list", Access::write);
    outputs = all.size();
    for (Array& array : read_arrays(input_list, "input_tensor_list", Access::read)) all.push_back(std::move(array));
    return all;
  });
  const std::vector<TensorView> views = views_of(arrays);
  const std::span<const TensorView> to(views.data(), outputs), from(views.data() + outputs, views.size() - outputs);
  return perform(std::move(arrays), [&] { return distributed::all_to_all(to, from, options); });
}

using Splits = std::optional<std::vector<int64_t>>;

nb::object all_to_all_single(nb::handle output, nb::handle input, const Splits& output_splits, const Splits& input_splits,
                             const Options& where) {
  const distributed::AllToAllOptions options{.output_split_sizes = output_splits.value_or(std::vector<int64_t>()),
                                             .input_split_sizes = input_splits.value_or(std::vector<int64_t>()),
                                             .group = where.group, .async_op = where.async_op};
  std::vector<Array> arrays = arguments(Collective::all_to_all, where.group, [&] { return read_two(output, "output", input, "input"); });
  const TensorView to = arrays[0].view, from = arrays[1].view;
  return perform(std::move(arrays), [&] { return distributed::all_to_all_single(to, from, options); });
}

nb::object all_reduce_coalesced(nb::handle tensors, nb::handle op, nb::handle group, bool async_op) {
  ReduceOptions options{.group = group_of(group), .async_op = async_op};
  std::vector<Array> arrays = arguments(Collective::all_reduce, options.group, [&] {
    options.op = op_of(op);
    return read_arrays(tensors, "tensors", Access::write);
  });
  const std::vector<TensorView> views = views_of(arrays);
  return perform(std::move(arrays), [&] { return distributed::all_reduce_coalesced(views, options); });
}

// All of a list of lists, one behind the other; `views` gets them as they were.
std::vector<Array> read_lists(nb::handle lists, const char* argument, Access access, std::vector<std::vector<TensorView>>& views) {
  std::vector<Array> all;
  if (!PySequence_Check(lists.ptr())) fail(ErrorCode::argument_type, std::string(argument) + " is no list of lists of arrays");
  for (nb::handle list : lists) {
    std::vector<Array> some = read_arrays(list, argument, access);
    views.push_back(views_of(some));
    for (Array& array : some) all.push_back(std::move(array));
  }
  return all;
}

nb::object all_gather_coalesced(nb::handle output_lists, nb::handle inputs, nb::handle group, bool async_op) {
  const Options options{.group = group_of(group), .async_op = async_op};
  std::vector<std::vector<TensorView>> to;
  std::vector<TensorView> from;
  std::vector<Array> arrays = arguments(Collective::all_gather, options.group, [&] {
    std::vector<Array> all = read_lists(output_lists, "output_tensor_lists", Access::write, to);
    std::vector<Array> some = read_arrays(inputs, "input_tensor_list", Access::read);
    from = views_of(some);
    for (Array& array : some) all.push_back(std::move(array));
    return all;
  });
  return perform(std::move(arrays), [&] { return distributed::all_gather_coalesced(to, from, options); });
}

// Both of the into-tensor forms: lists of outputs and of inputs, as many of the one as of the other.
template <typename Function>
nb::object into_coalesced(Collective kind, const GroupHandle& group, nb::handle outputs, nb::handle inputs, Function function) {
  std::vector<TensorView> to, from;
  std::vector<Array> arrays = arguments(kind, group, [&] {
    std::vector<Array> all = read_arrays(outputs, "outputs", Access::write);
    to = views_of(all);
    std::vector<Array> some = read_arrays(inputs, "inputs", Access::read);
    from = views_of(some);
    for (Array& array : some) all.push_back(std::move(array));
    return all;
  });
  return perform(std::move(arrays), [&] { return function(to, from); });
}

nb::object all_gather_into_tensor_coalesced(nb::handle outputs, nb::handle inputs, nb::handle group, bool async_op) {
  const Options options{.group = group_of(group), .async_op = async_op};
  return into_coalesced(Collective::all_gather, options.group, outputs, inputs, [&](const auto& to, const auto& from) {
    return distributed::all_gather_into_tensor_coalesced(to, from, options);
  });
}

nb::object reduce_scatter_tensor_coalesced(nb::handle outputs, nb::handle inputs, nb::handle op, nb::handle group, bool async_op) {
  const ReduceOptions options{.op = op_of(op), .group = group_of(group), .async_op = async_op};
  return into_coalesced(Collective::reduce_scatter, options.group, outputs, inputs, [&](const auto& to, const auto& from) {
    return distributed::reduce_scatter_tensor_coalesced(to, from, options);
  });
}

void monitored_barrier(nb::handle group, nb::handle timeout, bool wait_all_ranks) {
  const distributed::MonitoredBarrierOptions options{
      .group = group_of(group), .timeout_s = seconds_of(timeout), .wait_all_ranks = wait_all_ranks};
  released([&] { return distributed::monitored_barrier(options), 0; });
}

}  // namespace

void bind_more_collectives(nb::module_& module) {
  module.def("all_to_all", &all_to_all, nb::arg(), nb::arg(), nb::arg().none(), nb::arg());
  module.def("all_to_all_single", [](nb::handle output, nb::handle input, const Splits& output_splits, const Splits& input_splits,
                                     nb::handle group, bool async_op) {
    return all_to_all_single(output, input, output_splits, input_splits, Options{.group = group_of(group), .async_op = async_op});
  }, nb::arg(), nb::arg(), nb::arg().none(), nb::arg().none(), nb::arg().none(), nb::arg());
  module.def("all_reduce_coalesced", &all_reduce_coalesced, nb::arg(), nb::arg(), nb::arg().none(), nb::arg());
  module.def("all_gather_coalesced", &all_gather_coalesced, nb::arg(), nb::arg(), nb::arg().none(), nb::arg());
  module.def("all_gather_into_tensor_coalesced", &all_gather_into_tensor_coalesced, nb::arg(), nb::arg(), nb::arg().none(), nb::arg());
  module.def("reduce_scatter_tensor_coalesced", &reduce_scatter_tensor_coalesced, nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg());
  module.def("monitored_barrier", &monitored_barrier, nb::arg().none(), nb::arg().none(), nb::arg());
}

}  // namespace unisono::python
