// Letters of the distributed dialect.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include "python/core/calls.hpp"

namespace unisono::python {
namespace {

using distributed::LetterOptions;
using Peer = std::optional<int>;

LetterOptions letter_options(nb::handle group, int tag, Peer group_peer) {
  return {.group = group_of(group), .tag = tag, .group_peer = group_peer};
}

// dst or group_dst, and exactly one of them.
Rank destination(Peer dst, const LetterOptions& options) {
  check_root("dst", dst, Place{options.group, false, options.group_peer});
  return dst.value_or(0);
}

void send(nb::handle tensor, Peer dst, nb::handle group, int tag, Peer group_dst) {
  const LetterOptions options = letter_options(group, tag, group_dst);
  const Rank to = destination(dst, options);
  const Array array = read_array(tensor, "tensor", Access::read);
  released([&] { return distributed::send(array.view, to, options), 0; });
}

Rank recv(nb::handle tensor, Peer src, nb::handle group, int tag, Peer group_src) {
  const LetterOptions options = letter_options(group, tag, group_src);
  const Array array = read_array(tensor, "tensor", Access::write);
  const Rank source = released([&] { return distributed::recv(array.view, src, options); });
  copy_back(array);
  return source;
}

nb::object isend(nb::handle tensor, Peer dst, nb::handle group, int tag, Peer group_dst) {
  const LetterOptions options = letter_options(group, tag, group_dst);
  const Rank to = destination(dst, options);
  std::vector<Array> arrays = read_one(tensor, "tensor", Access::read);
  const TensorView view = arrays[0].view;
  return perform(std::move(arrays), [&] { return distributed::isend(view, to, options); });
}

nb::object irecv(nb::handle tensor, Peer src, nb::handle group, int tag, Peer group_src) {
  const LetterOptions options = letter_options(group, tag, group_src);
  std::vector<Array> arrays = read_one(tensor, "tensor", Access::write);
  const TensorView view = arrays[0].view;
  return perform(std::move(arrays), [&] { return distributed::irecv(view, src, options); });
}

// Each is a tuple (sends, tensor, peer, group, tag, group_peer).
nb::list batch_isend_irecv(nb::handle operations) {
  std::vector<Array> arrays;
  std::vector<distributed::P2POp> letters;
  for (nb::handle operation : operations) {
    const bool sends = nb::cast<bool>(operation[0]);
    const LetterOptions options = letter_options(operation[3], nb::cast<int>(operation[4]), nb::cast<Peer>(operation[5]));
    if (!options.group.is_member()) continue;
    const Peer peer = nb::cast<Peer>(operation[2]);
    arrays.push_back(read_array(operation[1], "tensor", sends ? Access::read : Access::write));
    letters.push_back({.op = sends ? distributed::P2POp::Kind::isend : distributed::P2POp::Kind::irecv,
                       .tensor = arrays.back().view, .peer = peer, .options = options});
  }
  std::vector<WorkPtr> works = released([&] { return distributed::batch_isend_irecv(letters); });
  nb::list result;
  for (size_t index = 0; index < works.size(); ++index) {
    std::vector<Array> own;
    own.push_back(std::move(arrays[index]));
    result.append(nb::cast(new PythonWork(std::move(works[index]), std::move(own)), nb::rv_policy::take_ownership));
  }
  return result;
}

}  // namespace

void bind_letters(nb::module_& module) {
  module.def("send", &send, nb::arg(), nb::arg().none(), nb::arg().none(), nb::arg(), nb::arg().none());
  module.def("recv", &recv, nb::arg(), nb::arg().none(), nb::arg().none(), nb::arg(), nb::arg().none());
  module.def("isend", &isend, nb::arg(), nb::arg().none(), nb::arg().none(), nb::arg(), nb::arg().none());
  module.def("irecv", &irecv, nb::arg(), nb::arg().none(), nb::arg().none(), nb::arg(), nb::arg().none());
  module.def("batch_isend_irecv", &batch_isend_irecv);
}

}  // namespace unisono::python
