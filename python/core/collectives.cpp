// The collectives of the distributed dialect. Each reads its parameters, calls without the GIL, and returns None or a Work.
#include <algorithm>

#include "python/core/calls.hpp"

namespace unisono::python {
namespace {

using distributed::Options;
using distributed::ReduceOptions;
using nb::handle;

// Of a list with an element for each rank, before one array more: this rank's element may be that array.
OwnParts own_element(const GroupHandle& group, size_t count) {
  const int me = distributed::get_rank(group);
  const size_t element = static_cast<size_t>(std::max(me, 0));
  return {.index = 0, .first = element, .second = count - 1, .count = element + 1 < count ? 1U : 0U};
}

// Whether this rank is the root, and so gives or takes. The library looks whether there is such a rank.
bool is_root(const Place& place, const GroupHandle& group) {
  return place.group_root ? *place.group_root == distributed::get_rank(group) : *place.root == distributed::get_rank();
}

nb::object all_reduce(handle tensor, handle op, handle group, handle async_op) {
  ReduceOptions options{.group = group_of(group)};
  std::vector<Array> arrays = arguments(Collective::all_reduce, options.group, [&] {
    options.async_op = flag_of(async_op, "async_op");
    options.op = op_of(op);
    return checked(read_one(tensor, "tensor", Access::write), options.async_op);
  });
  const TensorView view = arrays[0].view;
  return perform(std::move(arrays), [&] { return distributed::all_reduce(view, options); });
}

template <Collective kind>
nb::object scan(handle tensor, handle op, handle group, handle async_op) {
  ReduceOptions options{.group = group_of(group)};
  std::vector<Array> arrays = arguments(kind, options.group, [&] {
    options.async_op = flag_of(async_op, "async_op");
    options.op = op_of(op);
    return checked(read_one(tensor, "tensor", Access::write), options.async_op);
  });
  const TensorView view = arrays[0].view;
  return perform(std::move(arrays), [&] {
    return kind == Collective::exscan ? distributed::exscan(view, options) : distributed::scan(view, options);
  });
}

nb::object all_gather(handle tensor_list, handle tensor, handle group, handle async_op) {
  Options options{.group = group_of(group)};
  std::vector<Array> arrays = arguments(Collective::all_gather, options.group, [&] {
    options.async_op = flag_of(async_op, "async_op");
    std::vector<Array> all = read_arrays(tensor_list, "tensor_list", Access::write);
    all.push_back(read_array(tensor, "tensor", Access::read));
    return checked(std::move(all), options.async_op, [&](size_t count) { return own_element(options.group, count); });
  });
  std::vector<TensorView> views = views_of(arrays);
  const TensorView input = views.back();
  views.pop_back();
  return perform(std::move(arrays), [&] { return distributed::all_gather(views, input, options); });
}

nb::object all_gather_into_tensor(handle output, handle input, handle group, handle async_op) {
  Options options{.group = group_of(group)};
  std::vector<Array> arrays = arguments(Collective::all_gather, options.group, [&] {
    options.async_op = flag_of(async_op, "async_op");
    return checked(read_two(output, "output_tensor", input, "input_tensor"), options.async_op,
                   [&](size_t) { return own_parts(options.group, 1); });
  });
  const TensorView to = arrays[0].view, from = arrays[1].view;
  return perform(std::move(arrays), [&] { return distributed::all_gather_into_tensor(to, from, options); });
}

nb::object reduce_scatter(handle output, handle input_list, handle op, handle group, handle async_op) {
  ReduceOptions options{.group = group_of(group)};
  std::vector<Array> arrays = arguments(Collective::reduce_scatter, options.group, [&] {
    options.async_op = flag_of(async_op, "async_op");
    options.op = op_of(op);
    std::vector<Array> all = read_arrays(input_list, "input_list", Access::read);
    all.push_back(read_array(output, "output", Access::write));
    return checked(std::move(all), options.async_op, [&](size_t count) { return own_element(options.group, count); });
  });
  std::vector<TensorView> views = views_of(arrays);
  const TensorView to = views.back();
  views.pop_back();
  return perform(std::move(arrays), [&] { return distributed::reduce_scatter(to, views, options); });
}

nb::object reduce_scatter_tensor(handle output, handle input, handle op, handle group, handle async_op) {
  ReduceOptions options{.group = group_of(group)};
  std::vector<Array> arrays = arguments(Collective::reduce_scatter, options.group, [&] {
    options.async_op = flag_of(async_op, "async_op");
    options.op = op_of(op);
    return checked(read_two(output, "output", input, "input"), options.async_op,
                   [&](size_t) { return own_parts(options.group, 1); });
  });
  const TensorView to = arrays[0].view, from = arrays[1].view;
  return perform(std::move(arrays), [&] { return distributed::reduce_scatter_tensor(to, from, options); });
}

nb::object reduce(handle tensor, handle op, const GroupHandle& group, const Given& given) {
  distributed::RootedReduceOptions options{.group = group};
  Place place;
  std::vector<Array> arrays = arguments(Collective::reduce, group, [&] {
    place = place_of(given, IfAbsent::fail);
    options.op = op_of(op);
    return checked(read_one(tensor, "tensor", is_root(place, group) ? Access::write : Access::read), place.async_op);
  });
  options.async_op = place.async_op;
  options.group_dst = place.group_root;
  const TensorView view = arrays[0].view;
  return perform(std::move(arrays), [&] { return distributed::reduce(view, place.root.value_or(0), options); });
}

nb::object broadcast(handle tensor, const GroupHandle& group, const Given& given) {
  Place place;
  std::vector<Array> arrays = arguments(Collective::broadcast, group, [&] {
    place = place_of(given, IfAbsent::fail);
    return checked(read_one(tensor, "tensor", is_root(place, group) ? Access::read : Access::write), place.async_op);
  });
  const distributed::BroadcastOptions options{
      .src = place.root.value_or(0), .group = group, .async_op = place.async_op, .group_src = place.group_root};
  const TensorView view = arrays[0].view;
  return perform(std::move(arrays), [&] { return distributed::broadcast(view, options); });
}

nb::object scatter(handle tensor, handle scatter_list, const GroupHandle& group, const Given& given) {
  Place place;
  std::vector<Array> arrays = arguments(Collective::scatter, group, [&] {
    place = place_of(given, IfAbsent::first_rank);
    std::vector<Array> all = read_arrays_or_none(scatter_list, "scatter_list", Access::read);
    all.push_back(read_array(tensor, "tensor", Access::write));
    return checked(std::move(all), place.async_op, [&](size_t count) { return own_element(group, count); });
  });
  const distributed::ScatterOptions options{
      .src = place.root.value_or(0), .group = group, .async_op = place.async_op, .group_src = place.group_root};
  std::vector<TensorView> views = views_of(arrays);
  const TensorView to = views.back();
  views.pop_back();
  return perform(std::move(arrays), [&] { return distributed::scatter(to, views, options); });
}

nb::object gather(handle tensor, handle gather_list, const GroupHandle& group, const Given& given) {
  Place place;
  std::vector<Array> arrays = arguments(Collective::gather, group, [&] {
    place = place_of(given, IfAbsent::first_rank);
    std::vector<Array> all = read_arrays_or_none(gather_list, "gather_list", Access::write);
    all.push_back(read_array(tensor, "tensor", Access::read));
    return checked(std::move(all), place.async_op, [&](size_t count) { return own_element(group, count); });
  });
  const distributed::GatherOptions options{
      .dst = place.root.value_or(0), .group = group, .async_op = place.async_op, .group_dst = place.group_root};
  std::vector<TensorView> views = views_of(arrays);
  const TensorView from = views.back();
  views.pop_back();
  return perform(std::move(arrays), [&] { return distributed::gather(from, views, options); });
}

// What `unisono bench --through python` compares with.
void repeat_all_reduce(handle tensor, int calls) {
  const Array array = read_array(tensor, "tensor", Access::write);
  released([&] {
    for (int call = 0; call < calls; ++call) distributed::all_reduce(array.view);
    return 0;
  });
}

nb::object barrier(handle group, handle async_op, handle timeout) {
  Options options{.group = group_of(group)};
  arguments(Collective::barrier, options.group, [&] {
    options.async_op = flag_of(async_op, "async_op");
    options.timeout_s = seconds_of(timeout);
    return 0;
  });
  return perform({}, [&] { return distributed::barrier(options); });
}

// For what is found out in Python: tells the others that this rank refuses the call, and raises the error.
void refuse_call(handle kind, handle text, handle is_type, handle group) {
  const std::optional<Collective> named = collective_named(text_of(kind, "kind"));
  if (!named) fail(ErrorCode::internal, "there is no collective " + text_of(kind, "kind"));
  const Status why(flag_of(is_type, "is_type") ? ErrorCode::argument_type : ErrorCode::argument, text_of(text, "text"));
  refuse(*named, why, group_of(group));
  fail(why.code(), why.message());
}

}  // namespace

std::vector<Array> read_one(handle tensor, const char* argument, Access access) {
  std::vector<Array> arrays;
  arrays.push_back(read_array(tensor, argument, access));
  return arrays;
}

std::vector<Array> read_two(handle output, const char* output_argument, handle input, const char* input_argument) {
  std::vector<Array> arrays;
  arrays.reserve(2);
  arrays.push_back(read_array(output, output_argument, Access::write));
  arrays.push_back(read_array(input, input_argument, Access::read));
  return arrays;
}

OwnParts own_parts(const GroupHandle& group, size_t count) {
  return {.index = distributed::get_rank(group), .first = 0, .second = count, .count = count};
}

Place place_of(const Given& given, IfAbsent if_absent) {
  const std::string name = given.name, in_group = "group_" + name;
  Place place{whole_or_none(given.root, given.name), whole_or_none(given.group_root, in_group.c_str()),
              flag_of(given.async_op, "async_op")};
  if (place.root && place.group_root) fail(ErrorCode::argument, name + " and " + in_group + " are both given; give one of them");
  if (place.root || place.group_root) return place;
  if (if_absent == IfAbsent::fail) fail(ErrorCode::argument, "give " + name + " or " + in_group);
  place.root = 0;
  return place;
}

void bind_collectives(nb::module_& module) {
  define(module, "all_reduce", &all_reduce);
  define(module, "scan", &scan<Collective::scan>);
  define(module, "exscan", &scan<Collective::exscan>);
  define(module, "all_gather", &all_gather);
  define(module, "all_gather_into_tensor", &all_gather_into_tensor);
  define(module, "reduce_scatter", &reduce_scatter);
  define(module, "reduce_scatter_tensor", &reduce_scatter_tensor);
  define(module, "reduce", +[](handle tensor, handle dst, handle op, handle group, handle async_op, handle group_dst) {
    return reduce(tensor, op, group_of(group), {"dst", dst, group_dst, async_op});
  });
  define(module, "broadcast", +[](handle tensor, handle src, handle group, handle async_op, handle group_src) {
    return broadcast(tensor, group_of(group), {"src", src, group_src, async_op});
  });
  define(module, "scatter", +[](handle tensor, handle list, handle src, handle group, handle async_op, handle group_src) {
    return scatter(tensor, list, group_of(group), {"src", src, group_src, async_op});
  });
  define(module, "gather", +[](handle tensor, handle list, handle dst, handle group, handle async_op, handle group_dst) {
    return gather(tensor, list, group_of(group), {"dst", dst, group_dst, async_op});
  });
  define(module, "barrier", &barrier);
  define(module, "refuse", &refuse_call);
  module.def("repeat_all_reduce", &repeat_all_reduce);
}

}  // namespace unisono::python
