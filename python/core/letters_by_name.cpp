// Letters of the comm_func dialect.
#include "python/core/handles.hpp"
#include "unisono/comm_func.hpp"

namespace unisono::python {
namespace {

using nb::handle;

void send(handle tensor, handle dst, handle group, handle tag) {
  const std::string name = group_name_of(group);
  const int peer = whole_of(dst, "dst"), mark = whole_of(tag, "tag");
  const Array array = read_array(tensor, "tensor", Access::read);
  released([&] { return comm_func::send(array.view, peer, name, mark), 0; });
}

nb::object recv(handle tensor, handle src, handle group, handle tag) {
  const std::string name = group_name_of(group);
  const int peer = whole_of(src, "src"), mark = whole_of(tag, "tag");
  const Array array = read_array(tensor, "tensor", Access::read);
  return array_of(array.kind, released([&] { return comm_func::recv(array.view, peer, name, mark); }));
}

nb::object isend(handle tensor, handle dst, handle group, handle tag) {
  const std::string name = group_name_of(group);
  const int peer = whole_of(dst, "dst"), mark = whole_of(tag, "tag");
  std::vector<Array> arrays = checked(read_one(tensor, "tensor", Access::read), true);
  CommHandlePtr made = without_gil([&] { return comm_func::isend(arrays[0].view, peer, name, mark); });
  std::unique_ptr<PythonHandle> pending = handle_of(std::move(made), std::move(arrays));
  after_call();
  return object_of(std::move(pending));
}

nb::tuple irecv(handle tensor, handle src, handle group, handle tag) {
  const std::string name = group_name_of(group);
  const int peer = whole_of(src, "src"), mark = whole_of(tag, "tag");
  std::vector<Array> arrays = checked(read_one(tensor, "tensor", Access::read), true);
  const Kind kind = arrays[0].kind;
  comm_func::TensorAndHandle made = without_gil([&] { return comm_func::irecv(arrays[0].view, peer, name, mark); });
  std::unique_ptr<PythonHandle> pending = handle_of(std::move(made.second), std::move(arrays));
  after_call();
  const nb::object output = array_of(kind, made.first);
  return nb::make_tuple(output, object_of(std::move(pending)));
}

Kind kind_named(handle name) {
  const std::string text = text_of(name, "kind");
  return text == "torch" ? Kind::torch : text == "mindspore" ? Kind::mindspore : Kind::numpy;
}

// Each is a tuple (sends, tensor or None, peer, group, tag, shape, recv_dtype, kind of the result); shape and dtype stand for a
// tensor that is not there.
nb::tuple batch_isend_irecv(handle operations) {
  std::vector<Array> arrays;
  std::vector<comm_func::P2POp> letters;
  for (handle operation : list_of(operations, "p2p_op_list", "P2POp")) {
    comm_func::P2POp letter;
    letter.op = flag_of(nb::object(operation[0]), "op") ? comm_func::P2POp::Kind::isend : comm_func::P2POp::Kind::irecv;
    const nb::object tensor = operation[1], shape = operation[5], dtype = operation[6];
    if (!dtype.is_none()) letter.recv_dtype = dtype_of(dtype, "recv_dtype");
    Array array;
    if (tensor.is_none()) {
      array.view = {nullptr, letter.recv_dtype.value_or(DType::float32), shape_of(shape, "tensor")};
      array.kind = kind_named(nb::object(operation[7]));
    } else {
      array = read_array(tensor, "tensor", Access::read);
    }
    letter.tensor = array.view;
    letter.peer = whole_of(nb::object(operation[2]), "peer");
    letter.group = group_name_of(nb::object(operation[3]));
    letter.tag = whole_of(nb::object(operation[4]), "tag");
    arrays.push_back(std::move(array));
    letters.push_back(std::move(letter));
  }
  const std::vector<Tensor> made = released([&] { return comm_func::batch_isend_irecv(letters); });
  nb::list results;
  for (size_t index = 0; index < made.size(); ++index) results.append(array_of(arrays[index].kind, made[index]));
  return nb::tuple(results);
}

}  // namespace

void bind_letters_by_name(nb::module_& module) {
  define(module, "send", &send);
  define(module, "recv", &recv);
  define(module, "isend", &isend);
  define(module, "irecv", &irecv);
  define(module, "batch_isend_irecv", &batch_isend_irecv);
}

}  // namespace unisono::python
