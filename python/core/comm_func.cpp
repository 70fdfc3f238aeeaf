// The comm_func dialect: a result is a new array of the kind that was given.
#include "unisono/comm_func.hpp"

#include "python/core/handles.hpp"

namespace unisono::python {
namespace {

using comm_func::TensorAndHandle;
using nb::handle;

// The functions that return a tensor and a handle. `rest` reads the other parameters, and returns async_op; what is wrong
// with any is told to the others. The handle is made first: it keeps the input of a call that is under way if the result then
// cannot be shown.
template <typename Rest, typename Function>
nb::tuple pair_of(Collective kind, const std::string& group, handle tensor, Rest rest, Function function) {
  std::vector<Array> arrays = arguments(kind, group, [&] {
    const bool async_op = rest();
    return checked(read_one(tensor, "tensor", Access::read), async_op);
  });
  const Kind given = arrays[0].kind;
  TensorAndHandle made = without_gil([&] { return function(arrays[0].view); });
  std::unique_ptr<PythonHandle> pending = handle_of(std::move(made.second), std::move(arrays));
  after_call();
  const nb::object output = array_of(given, made.first);
  return nb::make_tuple(output, object_of(std::move(pending)));
}

// Those that return a tensor.
template <typename Rest, typename Function>
nb::object one_of(Collective kind, const std::string& group, handle tensor, Rest rest, Function function) {
  const Array array = arguments(kind, group, [&] {
    rest();
    return read_array(tensor, "tensor", Access::read);
  });
  return array_of(array.kind, released([&] { return function(array.view); }));
}

using ReducingFunction = TensorAndHandle (*)(const TensorView&, const comm_func::ReduceOptions&);

template <Collective kind, ReducingFunction function>
nb::tuple reducing(handle tensor, handle op, handle group, handle async_op) {
  comm_func::ReduceOptions options{.group = group_name_of(group)};
  const auto rest = [&] {
    options.op = op_of(op);
    return options.async_op = flag_of(async_op, "async_op");
  };
  return pair_of(kind, options.group, tensor, rest, [&](const TensorView& view) { return function(view, options); });
}

nb::tuple all_gather_into_tensor(handle tensor, handle group, handle async_op) {
  comm_func::Options options{.group = group_name_of(group)};
  const auto rest = [&] { return options.async_op = flag_of(async_op, "async_op"); };
  return pair_of(Collective::all_gather, options.group, tensor, rest,
                 [&](const TensorView& view) { return comm_func::all_gather_into_tensor(view, options); });
}

nb::object reduce(handle tensor, handle dst, handle op, handle group) {
  comm_func::ReduceNowOptions options{.group = group_name_of(group)};
  int root = 0;
  const auto rest = [&] {
    root = whole_of(dst, "dst");
    options.op = op_of(op);
  };
  return one_of(Collective::reduce, options.group, tensor, rest,
                [&](const TensorView& view) { return comm_func::reduce(view, root, options); });
}

using RootedFunction = Tensor (*)(const TensorView&, Rank, const std::string&);

// A gather's root is a dst, everything else's a src.
template <Collective kind, RootedFunction function>
nb::object rooted(handle tensor, handle root, handle group) {
  const std::string name = group_name_of(group);
  int rank = 0;
  const auto rest = [&] { rank = whole_of(root, kind == Collective::gather ? "dst" : "src"); };
  return one_of(kind, name, tensor, rest, [&](const TensorView& view) { return function(view, rank, name); });
}

struct Exchange {
  handle output_shape, output_splits, input_splits, async_op;
};

nb::tuple all_to_all_single(handle tensor, handle group, const Exchange& given) {
  comm_func::AllToAllOptions options{.group = group_name_of(group)};
  Shape shape;
  const auto rest = [&] {
    shape = shape_of(given.output_shape, "output_shape");
    options.output_split_sizes = longs_or_none(given.output_splits, "output_split_sizes");
    options.input_split_sizes = longs_or_none(given.input_splits, "input_split_sizes");
    return options.async_op = flag_of(given.async_op, "async_op");
  };
  return pair_of(Collective::all_to_all, options.group, tensor, rest, [&](const TensorView& view) {
    return comm_func::all_to_all_single_with_output_shape(shape, view, options);
  });
}

nb::tuple all_to_all(handle shapes, handle list, handle group, handle async_op) {
  comm_func::Options options{.group = group_name_of(group)};
  std::vector<Shape> output_shapes;
  std::vector<Array> arrays = arguments(Collective::all_to_all, options.group, [&] {
    options.async_op = flag_of(async_op, "async_op");
    for (handle shape : list_of(shapes, "output_shape_list", "shapes"))
      output_shapes.push_back(shape_of(shape, "output_shape_list"));
    return checked(read_arrays(list, "input_tensor_list", Access::read), options.async_op);
  });
  const std::vector<TensorView> views = views_of(arrays);
  const Kind kind = arrays.empty() ? Kind::numpy : arrays[0].kind;
  comm_func::TensorsAndHandle made =
      without_gil([&] { return comm_func::all_to_all_with_output_shape(output_shapes, views, options); });
  std::unique_ptr<PythonHandle> pending = handle_of(std::move(made.second), std::move(arrays));
  after_call();
  nb::list outputs;
  for (const Tensor& tensor : made.first) outputs.append(array_of(kind, tensor));
  return nb::make_tuple(nb::tuple(outputs), object_of(std::move(pending)));
}

// A list of rows, or all rows in one.
std::vector<int64_t> counts_of(handle matrix) {
  std::vector<int64_t> counts;
  for (handle row : nb::list(nb::borrow(matrix))) {
    if (!nb::hasattr(row, "__len__")) {
      counts.push_back(long_of(row, "send_count_matrix"));
      continue;
    }
    for (int64_t count : longs_or_none(row, "send_count_matrix")) counts.push_back(count);
  }
  return counts;
}

nb::object all_to_all_v_c(handle output, handle input, handle matrix, handle group, handle async_op) {
  comm_func::Options options{.group = group_name_of(group)};
  std::vector<int64_t> counts;
  std::vector<Array> arrays = arguments(Collective::all_to_all, options.group, [&] {
    options.async_op = flag_of(async_op, "async_op");
    try {
      counts = counts_of(matrix);
    } catch (nb::python_error& error) {
      fail_because(error, "send_count_matrix");
    }
    return checked(read_two(output, "output", input, "input"), options.async_op);
  });
  CommHandlePtr made = without_gil([&] { return comm_func::all_to_all_v_c(arrays[0].view, arrays[1].view, counts, options); });
  std::unique_ptr<PythonHandle> pending = handle_of(std::move(made), std::move(arrays));
  after_call();
  if (!pending) copy_back(arrays[0]);
  return object_of(std::move(pending));
}

void bind_exchanges(nb::module_& module) {
  define(module, "all_to_all_single_with_output_shape",
         +[](handle shape, handle tensor, handle output_splits, handle input_splits, handle group, handle async_op) {
           return all_to_all_single(tensor, group, {shape, output_splits, input_splits, async_op});
         });
  define(module, "all_to_all_with_output_shape", &all_to_all);
  define(module, "all_to_all_v_c", &all_to_all_v_c);
}

}  // namespace

void bind_comm_func(nb::module_& parent) {
  nb::module_ module = parent.def_submodule("comm_func");
  nb::class_<PythonHandle>(module, "CommHandle", nb::type_slots(Collected<PythonHandle>::slots()),
                           "What an asynchronous call returns beside its tensor: wait for it before you read that.")
      .def(
          "wait", &PythonHandle::wait, nb::arg("timeout").none() = nb::none(),
          "Blocks until the call is over, or raises its error. A timeout that expires raises TimeoutError and leaves it running.")
      .def("is_completed", &PythonHandle::is_completed, "Whether the call is over.")
      .def("exception", &PythonHandle::exception, "The error of a call that failed; None while it runs and after success.");
  define(module, "all_reduce", &reducing<Collective::all_reduce, comm_func::all_reduce>);
  define(module, "scan", &reducing<Collective::scan, comm_func::scan>);
  define(module, "exscan", &reducing<Collective::exscan, comm_func::exscan>);
  define(module, "reduce_scatter_tensor", &reducing<Collective::reduce_scatter, comm_func::reduce_scatter_tensor>);
  define(module, "all_gather_into_tensor", &all_gather_into_tensor);
  define(module, "reduce", &reduce);
  define(module, "scatter_tensor", &rooted<Collective::scatter, comm_func::scatter_tensor>);
  define(module, "gather_into_tensor", &rooted<Collective::gather, comm_func::gather_into_tensor>);
  define(module, "broadcast", &rooted<Collective::broadcast, comm_func::broadcast>);
  define(module, "barrier", +[](handle group) {
    const std::string name = group_name_of(group);
    released([&] { return comm_func::barrier(name), 0; });
  });
  bind_exchanges(module);
  bind_letters_by_name(module);
}

}  // namespace unisono::python
