// The comm_func dialect: a result is a new array of the kind that was given.
#include "unisono/comm_func.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include "python/core/calls.hpp"

namespace unisono::python {
namespace {

using comm_func::TensorAndHandle;

// A CommHandle seen as the Work that it wraps.
class WorkOfHandle final : public Work {
 public:
  explicit WorkOfHandle(CommHandlePtr handle) : handle_(std::move(handle)) {}
  bool wait(std::optional<double> timeout_s) override { return handle_->wait(timeout_s), true; }
  bool is_completed() const override { return handle_->is_completed(); }
  bool is_success() const override { return is_completed() && exception().ok(); }
  Status exception() const override { return handle_->exception(); }
  void on_completion(std::function<void()> function) override { handle_->on_completion(std::move(function)); }

 private:
  CommHandlePtr handle_;
};

class PythonHandle {
 public:
  PythonHandle(CommHandlePtr handle, std::vector<Array> arrays)
      : work_(handle ? std::make_shared<WorkOfHandle>(std::move(handle)) : nullptr, std::move(arrays)) {}
  void wait(nb::handle timeout) { work_.wait(timeout); }
  bool is_completed() const { return work_.is_completed(); }
  nb::object exception() const { return work_.exception(); }

 private:
  PythonWork work_;
};

nb::object handle_of(CommHandlePtr handle, std::vector<Array> arrays) {
  if (!handle) return nb::none();
  return nb::cast(new PythonHandle(std::move(handle), std::move(arrays)), nb::rv_policy::take_ownership);
}

// As arguments() of the distributed dialect.
template <typename Read>
auto named_arguments(Collective kind, const std::string& group, Read read) {
  try {
    return read();
  } catch (const Error& error) {
    const Status why = error.status();
    released([&] { return comm_func::refuse(kind, why, group), 0; });
    throw;
  }
}

// The functions that return a tensor and a handle.
template <typename Function>
nb::tuple pair_of(Collective kind, const std::string& group, nb::handle tensor, Function function) {
  std::vector<Array> arrays = named_arguments(kind, group, [&] { return read_one(tensor, "tensor", Access::read); });
  TensorAndHandle made = released([&] { return function(arrays[0].view); });
  nb::object output = array_of(arrays[0].kind, made.first);
  return nb::make_tuple(output, handle_of(std::move(made.second), std::move(arrays)));
}

// Those that return a tensor.
template <typename Function>
nb::object one_of(Collective kind, const std::string& group, nb::handle tensor, Function function) {
  const Array array = named_arguments(kind, group, [&] { return read_array(tensor, "tensor", Access::read); });
  return array_of(array.kind, released([&] { return function(array.view); }));
}

// op where it is given before it can be read: a wrong one is refused like a wrong tensor.
ReduceOp checked_op(Collective kind, const std::string& group, nb::handle op) {
  return named_arguments(kind, group, [&] { return op_of(op); });
}

using ReducingFunction = TensorAndHandle (*)(const TensorView&, const comm_func::ReduceOptions&);

template <Collective kind, ReducingFunction function>
nb::tuple reducing(nb::handle tensor, nb::handle op, nb::handle group, bool async_op) {
  const std::string name = group_name_of(group);
  const comm_func::ReduceOptions options{.op = checked_op(kind, name, op), .group = name, .async_op = async_op};
  return pair_of(kind, name, tensor, [&](const TensorView& view) { return function(view, options); });
}

nb::tuple all_gather_into_tensor(nb::handle tensor, nb::handle group, bool async_op) {
  const comm_func::Options options{.group = group_name_of(group), .async_op = async_op};
  return pair_of(Collective::all_gather, options.group, tensor,
                 [&](const TensorView& view) { return comm_func::all_gather_into_tensor(view, options); });
}

nb::object reduce(nb::handle tensor, int dst, nb::handle op, nb::handle group) {
  const std::string name = group_name_of(group);
  const comm_func::ReduceNowOptions options{.op = checked_op(Collective::reduce, name, op), .group = name};
  return one_of(Collective::reduce, name, tensor, [&](const TensorView& view) { return comm_func::reduce(view, dst, options); });
}

using RootedFunction = Tensor (*)(const TensorView&, Rank, const std::string&);

template <Collective kind, RootedFunction function>
nb::object rooted(nb::handle tensor, int root, nb::handle group) {
  const std::string name = group_name_of(group);
  return one_of(kind, name, tensor, [&](const TensorView& view) { return function(view, root, name); });
}

using Splits = std::optional<std::vector<int64_t>>;

nb::tuple all_to_all_single(const std::vector<int64_t>& shape, nb::handle tensor, const Splits& output_splits,
                            const Splits& input_splits, const comm_func::Options& where) {
  const comm_func::AllToAllOptions options{.output_split_sizes = output_splits.value_or(std::vector<int64_t>()),
                                           .input_split_sizes = input_splits.value_or(std::vector<int64_t>()),
                                           .group = where.group, .async_op = where.async_op};
  return pair_of(Collective::all_to_all, where.group, tensor, [&](const TensorView& view) {
    return comm_func::all_to_all_single_with_output_shape(Shape(shape), view, options);
  });
}

nb::tuple all_to_all(const std::vector<std::vector<int64_t>>& shapes, nb::handle list, nb::handle group, bool async_op) {
  const comm_func::Options options{.group = group_name_of(group), .async_op = async_op};
  std::vector<Array> arrays =
      named_arguments(Collective::all_to_all, options.group, [&] { return read_arrays(list, "input_tensor_list", Access::read); });
  const std::vector<TensorView> views = views_of(arrays);
  std::vector<Shape> output_shapes;
  for (const auto& shape : shapes) output_shapes.emplace_back(shape);
  comm_func::TensorsAndHandle made = released([&] { return comm_func::all_to_all_with_output_shape(output_shapes, views, options); });
  const Kind kind = arrays.empty() ? Kind::numpy : arrays[0].kind;
  nb::list outputs;
  for (const Tensor& tensor : made.first) outputs.append(array_of(kind, tensor));
  return nb::make_tuple(nb::tuple(outputs), handle_of(std::move(made.second), std::move(arrays)));
}

nb::object all_to_all_v_c(nb::handle output, nb::handle input, const std::vector<int64_t>& matrix, nb::handle group, bool async_op) {
  const comm_func::Options options{.group = group_name_of(group), .async_op = async_op};
  std::vector<Array> arrays =
      named_arguments(Collective::all_to_all, options.group, [&] { return read_two(output, "output", input, "input"); });
  CommHandlePtr handle = released([&] { return comm_func::all_to_all_v_c(arrays[0].view, arrays[1].view, matrix, options); });
  if (!handle) copy_back(arrays[0]);
  return handle_of(std::move(handle), std::move(arrays));
}

void bind_exchanges(nb::module_& module) {
  module.def("all_to_all_single_with_output_shape",
             [](const std::vector<int64_t>& shape, nb::handle tensor, const Splits& output_splits, const Splits& input_splits,
                nb::handle group, bool async_op) {
               return all_to_all_single(shape, tensor, output_splits, input_splits, {.group = group_name_of(group), .async_op = async_op});
             }, nb::arg(), nb::arg(), nb::arg().none(), nb::arg().none(), nb::arg().none(), nb::arg());
  module.def("all_to_all_with_output_shape", &all_to_all, nb::arg(), nb::arg(), nb::arg().none(), nb::arg());
  module.def("all_to_all_v_c", &all_to_all_v_c, nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg());
}

void bind_letters_by_name(nb::module_& module) {
  module.def("send", [](nb::handle tensor, int dst, nb::handle group, int tag) {
    const Array array = read_array(tensor, "tensor", Access::read);
    const std::string name = group_name_of(group);
    released([&] { return comm_func::send(array.view, dst, name, tag), 0; });
  }, nb::arg(), nb::arg(), nb::arg().none(), nb::arg());
  module.def("recv", [](nb::handle tensor, int src, nb::handle group, int tag) {
    const Array array = read_array(tensor, "tensor", Access::read);
    const std::string name = group_name_of(group);
    return array_of(array.kind, released([&] { return comm_func::recv(array.view, src, name, tag); }));
  }, nb::arg(), nb::arg(), nb::arg().none(), nb::arg());
  module.def("isend", [](nb::handle tensor, int dst, nb::handle group, int tag) {
    std::vector<Array> arrays = read_one(tensor, "tensor", Access::read);
    const std::string name = group_name_of(group);
    CommHandlePtr handle = released([&] { return comm_func::isend(arrays[0].view, dst, name, tag); });
    return handle_of(std::move(handle), std::move(arrays));
  }, nb::arg(), nb::arg(), nb::arg().none(), nb::arg());
  module.def("irecv", [](nb::handle tensor, int src, nb::handle group, int tag) {
    std::vector<Array> arrays = read_one(tensor, "tensor", Access::read);
    const std::string name = group_name_of(group);
    TensorAndHandle made = released([&] { return comm_func::irecv(arrays[0].view, src, name, tag); });
    nb::object output = array_of(arrays[0].kind, made.first);
    return nb::make_tuple(output, handle_of(std::move(made.second), std::move(arrays)));
  }, nb::arg(), nb::arg(), nb::arg().none(), nb::arg());
}

// Each is a tuple (sends, tensor, peer, group, tag, recv_dtype).
nb::tuple batch_isend_irecv(nb::handle operations) {
  std::vector<Array> arrays;
  std::vector<comm_func::P2POp> letters;
  for (nb::handle operation : operations) {
    arrays.push_back(read_array(operation[1], "tensor", Access::read));
    comm_func::P2POp letter;
    letter.op = nb::cast<bool>(operation[0]) ? comm_func::P2POp::Kind::isend : comm_func::P2POp::Kind::irecv;
    letter.tensor = arrays.back().view;
    letter.peer = nb::cast<int>(operation[2]);
    letter.group = group_name_of(operation[3]);
    letter.tag = nb::cast<int>(operation[4]);
    if (!nb::object(operation[5]).is_none()) letter.recv_dtype = dtype_of(operation[5]);
    letters.push_back(std::move(letter));
  }
  const std::vector<Tensor> made = released([&] { return comm_func::batch_isend_irecv(letters); });
  nb::list results;
  for (size_t index = 0; index < made.size(); ++index) results.append(array_of(arrays[index].kind, made[index]));
  return nb::tuple(results);
}

}  // namespace

void bind_comm_func(nb::module_& parent) {
  nb::module_ module = parent.def_submodule("comm_func");
  nb::class_<PythonHandle>(module, "CommHandle", "What an asynchronous call returns beside its tensor: wait for it before you read that.")
      .def("wait", &PythonHandle::wait, nb::arg("timeout") = nb::none(),
           "Blocks until the call is over, or raises its error. A timeout that expires raises TimeoutError and leaves it running.")
      .def("is_completed", &PythonHandle::is_completed, "Whether the call is over.")
      .def("exception", &PythonHandle::exception, "The error of a call that failed; None while it runs and after success.");
  module.def("all_reduce", &reducing<Collective::all_reduce, comm_func::all_reduce>, nb::arg(), nb::arg(), nb::arg().none(), nb::arg());
  module.def("scan", &reducing<Collective::scan, comm_func::scan>, nb::arg(), nb::arg(), nb::arg().none(), nb::arg());
  module.def("exscan", &reducing<Collective::exscan, comm_func::exscan>, nb::arg(), nb::arg(), nb::arg().none(), nb::arg());
  module.def("reduce_scatter_tensor", &reducing<Collective::reduce_scatter, comm_func::reduce_scatter_tensor>, nb::arg(), nb::arg(),
             nb::arg().none(), nb::arg());
  module.def("all_gather_into_tensor", &all_gather_into_tensor, nb::arg(), nb::arg().none(), nb::arg());
  module.def("reduce", &reduce, nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
  module.def("scatter_tensor", &rooted<Collective::scatter, comm_func::scatter_tensor>, nb::arg(), nb::arg(), nb::arg().none());
  module.def("gather_into_tensor", &rooted<Collective::gather, comm_func::gather_into_tensor>, nb::arg(), nb::arg(), nb::arg().none());
  module.def("broadcast", &rooted<Collective::broadcast, comm_func::broadcast>, nb::arg(), nb::arg(), nb::arg().none());
  module.def("barrier", [](nb::handle group) {
    const std::string name = group_name_of(group);
    released([&] { return comm_func::barrier(name), 0; });
  }, nb::arg().none());
  module.def("batch_isend_irecv", &batch_isend_irecv);
  bind_exchanges(module);
  bind_letters_by_name(module);
}

}  // namespace unisono::python
