// The rest of the distributed dialect's collectives: exchanges, coalesced calls, the monitored barrier.
#include <algorithm>

#include "python/core/calls.hpp"

namespace unisono::python {
namespace {

using distributed::Options;
using distributed::ReduceOptions;
using nb::handle;

void append(std::vector<Array>& all, std::vector<Array>&& some) {
  for (Array& array : some) all.push_back(std::move(array));
}

nb::object all_to_all(handle output_list, handle input_list, handle group, handle async_op) {
  Options options{.group = group_of(group)};
  size_t outputs = 0;
  std::vector<Array> arrays = arguments(Collective::all_to_all, options.group, [&] {
    options.async_op = flag_of(async_op, "async_op");
    std::vector<Array> all = read_arrays(output_list, "output_tensor_list", Access::write);
    outputs = all.size();
    append(all, read_arrays(input_list, "input_tensor_list", Access::read));
    return checked(std::move(all), options.async_op);
  });
  const std::vector<TensorView> views = views_of(arrays);
  const std::span<const TensorView> to(views.data(), outputs), from(views.data() + outputs, views.size() - outputs);
  return perform(std::move(arrays), [&] { return distributed::all_to_all(to, from, options); });
}

struct Splits {
  handle output, input;
};

nb::object all_to_all_single(handle output, handle input, const Splits& splits, handle group, handle async_op) {
  distributed::AllToAllOptions options{.group = group_of(group)};
  std::vector<Array> arrays = arguments(Collective::all_to_all, options.group, [&] {
    options.async_op = flag_of(async_op, "async_op");
    options.output_split_sizes = longs_or_none(splits.output, "output_split_sizes");
    options.input_split_sizes = longs_or_none(splits.input, "input_split_sizes");
    return checked(read_two(output, "output", input, "input"), options.async_op);
  });
  const TensorView to = arrays[0].view, from = arrays[1].view;
  return perform(std::move(arrays), [&] { return distributed::all_to_all_single(to, from, options); });
}

nb::object all_reduce_coalesced(handle tensors, handle op, handle group, handle async_op) {
  ReduceOptions options{.group = group_of(group)};
  std::vector<Array> arrays = arguments(Collective::all_reduce, options.group, [&] {
    options.async_op = flag_of(async_op, "async_op");
    options.op = op_of(op);
    return checked(read_arrays(tensors, "tensors", Access::write), options.async_op);
  });
  const std::vector<TensorView> views = views_of(arrays);
  return perform(std::move(arrays), [&] { return distributed::all_reduce_coalesced(views, options); });
}

// All of a list of lists, one behind the other; `views` gets them as they were.
std::vector<Array> read_lists(handle lists, const char* argument, Access access, std::vector<std::vector<TensorView>>& views) {
  std::vector<Array> all;
  for (handle list : list_of(lists, argument, "lists of arrays")) {
    std::vector<Array> some = read_arrays(list, argument, access);
    views.push_back(views_of(some));
    append(all, std::move(some));
  }
  return all;
}

// This rank's list of outputs, each of which may be the input of its number.
OwnParts own_list(const GroupHandle& group, const std::vector<std::vector<TensorView>>& to, size_t count) {
  OwnParts own;
  size_t outputs = 0;
  for (size_t rank = 0; rank < to.size(); ++rank) {
    if (static_cast<int>(rank) == distributed::get_rank(group)) own = {.first = outputs, .count = to[rank].size()};
    outputs += to[rank].size();
  }
  own.second = outputs;
  own.count = std::min(own.count, count - outputs);
  return own;
}

nb::object all_gather_coalesced(handle output_lists, handle inputs, handle group, handle async_op) {
  Options options{.group = group_of(group)};
  std::vector<std::vector<TensorView>> to;
  std::vector<TensorView> from;
  std::vector<Array> arrays = arguments(Collective::all_gather, options.group, [&] {
    options.async_op = flag_of(async_op, "async_op");
    std::vector<Array> all = read_lists(output_lists, "output_tensor_lists", Access::write, to);
    std::vector<Array> some = read_arrays(inputs, "input_tensor_list", Access::read);
    from = views_of(some);
    append(all, std::move(some));
    return checked(std::move(all), options.async_op, [&](size_t count) { return own_list(options.group, to, count); });
  });
  return perform(std::move(arrays), [&] { return distributed::all_gather_coalesced(to, from, options); });
}

// Lists of outputs and of inputs, as many of the one as of the other.
std::vector<Array> read_both(handle outputs, std::vector<TensorView>& to, handle inputs, std::vector<TensorView>& from) {
  std::vector<Array> all = read_arrays(outputs, "outputs", Access::write);
  to = views_of(all);
  std::vector<Array> some = read_arrays(inputs, "inputs", Access::read);
  from = views_of(some);
  append(all, std::move(some));
  return all;
}

nb::object all_gather_into_tensor_coalesced(handle outputs, handle inputs, handle group, handle async_op) {
  Options options{.group = group_of(group)};
  std::vector<TensorView> to, from;
  std::vector<Array> arrays = arguments(Collective::all_gather, options.group, [&] {
    options.async_op = flag_of(async_op, "async_op");
    return checked(read_both(outputs, to, inputs, from), options.async_op,
                   [&](size_t) { return own_parts(options.group, to.size()); });
  });
  return perform(std::move(arrays), [&] { return distributed::all_gather_into_tensor_coalesced(to, from, options); });
}

nb::object reduce_scatter_tensor_coalesced(handle outputs, handle inputs, handle op, handle group, handle async_op) {
  ReduceOptions options{.group = group_of(group)};
  std::vector<TensorView> to, from;
  std::vector<Array> arrays = arguments(Collective::reduce_scatter, options.group, [&] {
    options.async_op = flag_of(async_op, "async_op");
    options.op = op_of(op);
    return checked(read_both(outputs, to, inputs, from), options.async_op,
                   [&](size_t) { return own_parts(options.group, to.size()); });
  });
  return perform(std::move(arrays), [&] { return distributed::reduce_scatter_tensor_coalesced(to, from, options); });
}

void monitored_barrier(handle group, handle timeout, handle wait_all_ranks) {
  distributed::MonitoredBarrierOptions options{.group = group_of(group)};
  arguments(Collective::barrier, options.group, [&] {
    options.timeout_s = seconds_of(timeout);
    options.wait_all_ranks = flag_of(wait_all_ranks, "wait_all_ranks");
    return 0;
  });
  released([&] { return distributed::monitored_barrier(options), 0; });
}

}  // namespace

void bind_more_collectives(nb::module_& module) {
  define(module, "all_to_all", &all_to_all);
  define(module, "all_to_all_single",
         +[](handle output, handle input, handle output_splits, handle input_splits, handle group, handle async_op) {
           return all_to_all_single(output, input, {output_splits, input_splits}, group, async_op);
         });
  define(module, "all_reduce_coalesced", &all_reduce_coalesced);
  define(module, "all_gather_coalesced", &all_gather_coalesced);
  define(module, "all_gather_into_tensor_coalesced", &all_gather_into_tensor_coalesced);
  define(module, "reduce_scatter_tensor_coalesced", &reduce_scatter_tensor_coalesced);
  define(module, "monitored_barrier", &monitored_barrier);
}

}  // namespace unisono::python
