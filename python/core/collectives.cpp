// The collectives of the distributed dialect. Each reads its arrays, calls without the GIL, and returns None or a Work.
#include <nanobind/stl/optional.h>

#include "python/core/calls.hpp"

namespace unisono::python {
namespace {

using distributed::Options;
using distributed::ReduceOptions;

nb::object all_reduce(nb::handle tensor, nb::handle op, nb::handle group, bool async_op) {
  ReduceOptions options{.group = group_of(group), .async_op = async_op};
  std::vector<Array> arrays = arguments(Collective::all_reduce, options.group, [&] {
    options.op = op_of(op);
    return read_one(tensor, "tensor", Access::write);
  });
  const TensorView view = arrays[0].view;
  return perform(std::move(arrays), [&] { return distributed::all_reduce(view, options); });
}

nb::object scan(nb::handle tensor, nb::handle op, nb::handle group, bool async_op, bool exclusive) {
  ReduceOptions options{.group = group_of(group), .async_op = async_op};
  std::vector<Array> arrays = arguments(exclusive ? Collective::exscan : Collective::scan, options.group, [&] {
    options.op = op_of(op);
    return read_one(tensor, "tensor", Access::write);
  });
  const TensorView view = arrays[0].view;
  return perform(std::move(arrays), [&] { return exclusive ? distributed::exscan(view, options) : distributed::scan(view, options); });
}

nb::object all_gather(nb::handle tensor_list, nb::handle tensor, nb::handle group, bool async_op) {
  const Options options{.group = group_of(group), .async_op = async_op};
  std::vector<Array> arrays = arguments(Collective::all_gather, options.group, [&] {
    std::vector<Array> all = read_arrays(tensor_list, "tensor_list", Access::write);
    all.push_back(read_array(tensor, "tensor", Access::read));
    return all;
  });
  std::vector<TensorView> views = views_of(arrays);
  const TensorView input = views.back();
  views.pop_back();
  return perform(std::move(arrays), [&] { return distributed::all_gather(views, input, options); });
}

nb::object all_gather_into_tensor(nb::handle output, nb::handle input, nb::handle group, bool async_op) {
  const Options options{.group = group_of(group), .async_op = async_op};
  std::vector<Array> arrays = arguments(Collective::all_gather, options.group, [&] { return read_two(output, "output_tensor", input, "input_tensor"); });
  const TensorView to = arrays[0].view, from = arrays[1].view;
  return perform(std::move(arrays), [&] { return distributed::all_gather_into_tensor(to, from, options); });
}

nb::object reduce_scatter(nb::handle output, nb::handle input_list, nb::handle op, nb::handle group, bool async_op) {
  ReduceOptions options{.group = group_of(group), .async_op = async_op};
  std::vector<Array> arrays = arguments(Collective::reduce_scatter, options.group, [&] {
    options.op = op_of(op);
    std::vector<Array> all = read_arrays(input_list, "input_list", Access::read);
    all.push_back(read_array(output, "output", Access::write));
    return all;
  });
  std::vector<TensorView> views = views_of(arrays);
  const TensorView to = views.back();
  views.pop_back();
  return perform(std::move(arrays), [&] { return distributed::reduce_scatter(to, views, options); });
}

nb::object reduce_scatter_tensor(nb::handle output, nb::handle input, nb::handle op, nb::handle group, bool async_op) {
  ReduceOptions options{.group = group_of(group), .async_op = async_op};
  std::vector<Array> arrays = arguments(Collective::reduce_scatter, options.group, [&] {
    options.op = op_of(op);
    return read_two(output, "output", input, "input");
  });
  const TensorView to = arrays[0].view, from = arrays[1].view;
  return perform(std::move(arrays), [&] { return distributed::reduce_scatter_tensor(to, from, options); });
}

nb::object reduce(nb::handle tensor, std::optional<int> dst, nb::handle op, const Place& place) {
  distributed::RootedReduceOptions options{.group = place.group, .async_op = place.async_op, .group_dst = place.group_root};
  std::vector<Array> arrays = arguments(Collective::reduce, place.group, [&] {
    options.op = op_of(op);
    check_root("dst", dst, place);
    return read_one(tensor, "tensor", Access::write);
  });
  const TensorView view = arrays[0].view;
  return perform(std::move(arrays), [&] { return distributed::reduce(view, dst.value_or(0), options); });
}

nb::object broadcast(nb::handle tensor, std::optional<int> src, const Place& place) {
  const distributed::BroadcastOptions options{
      .src = src.value_or(0), .group = place.group, .async_op = place.async_op, .group_src = place.group_root};
  std::vector<Array> arrays = arguments(Collective::broadcast, place.group, [&] {
    check_root("src", src, place);
    return read_one(tensor, "tensor", Access::write);
  });
  const TensorView view = arrays[0].view;
  return perform(std::move(arrays), [&] { return distributed::broadcast(view, options); });
}

nb::object scatter(nb::handle tensor, nb::handle scatter_list, std::optional<int> src, const Place& place) {
  const distributed::ScatterOptions options{
      .src = src.value_or(0), .group = place.group, .async_op = place.async_op, .group_src = place.group_root};
  std::vector<Array> arrays = arguments(Collective::scatter, place.group, [&] {
    std::vector<Array> all = read_arrays(scatter_list, "scatter_list", Access::read);
    all.push_back(read_array(tensor, "tensor", Access::write));
    return all;
  });
  std::vector<TensorView> views = views_of(arrays);
  const TensorView to = views.back();
  views.pop_back();
  return perform(std::move(arrays), [&] { return distributed::scatter(to, views, options); });
}

nb::object gather(nb::handle tensor, nb::handle gather_list, std::optional<int> dst, const Place& place) {
  const distributed::GatherOptions options{
      .dst = dst.value_or(0), .group = place.group, .async_op = place.async_op, .group_dst = place.group_root};
  std::vector<Array> arrays = arguments(Collective::gather, place.group, [&] {
    std::vector<Array> all = read_arrays(gather_list, "gather_list", Access::write);
    all.push_back(read_array(tensor, "tensor", Access::read));
    return all;
  });
  std::vector<TensorView> views = views_of(arrays);
  const TensorView from = views.back();
  views.pop_back();
  return perform(std::move(arrays), [&] { return distributed::gather(from, views, options); });
}

// What `unisono bench --through python` compares with.
void repeat_all_reduce(nb::handle tensor, int calls) {
  const Array array = read_array(tensor, "tensor", Access::write);
  released([&] {
    for (int call = 0; call < calls; ++call) distributed::all_reduce(array.view);
    return 0;
  });
}

nb::object barrier(nb::handle group, bool async_op) {
  const Options options{.group = group_of(group), .async_op = async_op};
  return perform({}, [&] { return distributed::barrier(options); });
}

}  // namespace

std::vector<Array> read_one(nb::handle tensor, const char* argument, Access access) {
  std::vector<Array> arrays;
  arrays.push_back(read_array(tensor, argument, access));
  return arrays;
}

std::vector<Array> read_two(nb::handle output, const char* output_argument, nb::handle input, const char* input_argument) {
  std::vector<Array> arrays;
  arrays.reserve(2);
  arrays.push_back(read_array(output, output_argument, Access::write));
  arrays.push_back(read_array(input, input_argument, Access::read));
  return arrays;
}

void check_root(const char* name, std::optional<int> root, const Place& place) {
  if (root && place.group_root)
    fail(ErrorCode::argument, std::string(name) + " and group_" + name + " are both given; give one of them");
  if (!root && !place.group_root) fail(ErrorCode::argument, std::string("give ") + name + " or group_" + name);
}

void bind_collectives(nb::module_& module) {
  module.def("all_reduce", &all_reduce, nb::arg(), nb::arg(), nb::arg().none(), nb::arg());
  module.def("scan", &scan, nb::arg(), nb::arg(), nb::arg().none(), nb::arg(), nb::arg());
  module.def("all_gather", &all_gather, nb::arg(), nb::arg(), nb::arg().none(), nb::arg());
  module.def("all_gather_into_tensor", &all_gather_into_tensor, nb::arg(), nb::arg(), nb::arg().none(), nb::arg());
  module.def("reduce_scatter", &reduce_scatter, nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg());
  module.def("reduce_scatter_tensor", &reduce_scatter_tensor, nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg());
  module.def("reduce", [](nb::handle tensor, std::optional<int> dst, nb::handle op, nb::handle group, bool async_op, std::optional<int> group_dst) {
    return reduce(tensor, dst, op, Place{group_of(group), async_op, group_dst});
  }, nb::arg(), nb::arg().none(), nb::arg(), nb::arg().none(), nb::arg(), nb::arg().none());
  module.def("broadcast", [](nb::handle tensor, std::optional<int> src, nb::handle group, bool async_op, std::optional<int> group_src) {
    return broadcast(tensor, src, Place{group_of(group), async_op, group_src});
  }, nb::arg(), nb::arg().none(), nb::arg().none(), nb::arg(), nb::arg().none());
  module.def("scatter", [](nb::handle tensor, nb::handle list, std::optional<int> src, nb::handle group, bool async_op, std::optional<int> group_src) {
    return scatter(tensor, list, src, Place{group_of(group), async_op, group_src});
  }, nb::arg(), nb::arg().none(), nb::arg().none(), nb::arg().none(), nb::arg(), nb::arg().none());
  module.def("gather", [](nb::handle tensor, nb::handle list, std::optional<int> dst, nb::handle group, bool async_op, std::optional<int> group_dst) {
    return gather(tensor, list, dst, Place{group_of(group), async_op, group_dst});
  }, nb::arg(), nb::arg().none(), nb::arg().none(), nb::arg().none(), nb::arg(), nb::arg().none());
  module.def("repeat_all_reduce", &repeat_all_reduce);
  module.def("barrier", &barrier, nb::arg().none(), nb::arg());
}

}  // namespace unisono::python
