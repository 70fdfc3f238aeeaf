// Letters of the distributed dialect. A wrong argument concerns this rank alone: a receive elsewhere may be meant for another.
#include "python/core/calls.hpp"

namespace unisono::python {
namespace {

using distributed::LetterOptions;
using nb::handle;

// The parameters beside the tensor, as they were given.
struct Address {
  const char* name;  // of the peer: src or dst
  handle peer, group, tag, group_peer;
};

struct Letter {
  std::optional<int> peer;
  LetterOptions options;
};

// To send, one of the two peers has to be given; to receive, none of them means any rank.
Letter letter_of(const Address& address, bool sends) {
  const std::string name = address.name, in_group = "group_" + name;
  Letter letter{whole_or_none(address.peer, address.name),
                {.group = group_of(address.group), .tag = whole_of(address.tag, "tag")}};
  letter.options.group_peer = whole_or_none(address.group_peer, in_group.c_str());
  if (letter.peer && letter.options.group_peer)
    fail(ErrorCode::argument, name + " and " + in_group + " are both given; give one of them");
  if (sends && !letter.peer && !letter.options.group_peer) fail(ErrorCode::argument, "give " + name + " or " + in_group);
  return letter;
}

void send(handle tensor, handle dst, handle group, handle tag, handle group_dst) {
  const Letter letter = letter_of({"dst", dst, group, tag, group_dst}, true);
  const Array array = read_array(tensor, "tensor", Access::read);
  released([&] { return distributed::send(array.view, letter.peer.value_or(0), letter.options), 0; });
}

Rank recv(handle tensor, handle src, handle group, handle tag, handle group_src) {
  const Letter letter = letter_of({"src", src, group, tag, group_src}, false);
  const Array array = read_array(tensor, "tensor", Access::write);
  const Rank source = released([&] { return distributed::recv(array.view, letter.peer, letter.options); });
  copy_back(array);
  return source;
}

nb::object isend(handle tensor, handle dst, handle group, handle tag, handle group_dst) {
  const Letter letter = letter_of({"dst", dst, group, tag, group_dst}, true);
  std::vector<Array> arrays = checked(read_one(tensor, "tensor", Access::read), true);
  const TensorView view = arrays[0].view;
  return perform(std::move(arrays), [&] { return distributed::isend(view, letter.peer.value_or(0), letter.options); });
}

nb::object irecv(handle tensor, handle src, handle group, handle tag, handle group_src) {
  const Letter letter = letter_of({"src", src, group, tag, group_src}, false);
  std::vector<Array> arrays = checked(read_one(tensor, "tensor", Access::write), true);
  const TensorView view = arrays[0].view;
  return perform(std::move(arrays), [&] { return distributed::irecv(view, letter.peer, letter.options); });
}

// Each is a tuple (sends, tensor, peer, group, tag, group_peer).
nb::list batch_isend_irecv(handle operations) {
  std::vector<Array> arrays;
  std::vector<distributed::P2POp> letters;
  for (handle operation : list_of(operations, "p2p_op_list", "P2POp")) {
    const bool sends = flag_of(nb::object(operation[0]), "op");
    const nb::object peer = operation[2], group = operation[3], tag = operation[4], group_peer = operation[5];
    const Letter letter = letter_of({"peer", peer, group, tag, group_peer}, sends);
    if (!letter.options.group.is_member()) continue;
    arrays.push_back(read_array(nb::object(operation[1]), "tensor", sends ? Access::read : Access::write));
    letters.push_back({.op = sends ? distributed::P2POp::Kind::isend : distributed::P2POp::Kind::irecv,
                       .tensor = arrays.back().view, .peer = letter.peer, .options = letter.options});
  }
  hold_storages(arrays);
  std::vector<WorkPtr> works = without_gil([&] { return distributed::batch_isend_irecv(letters); });
  std::vector<std::unique_ptr<PythonWork>> made;
  for (size_t index = 0; index < works.size(); ++index) {
    std::vector<Array> own;
    own.push_back(std::move(arrays[index]));
    made.push_back(std::make_unique<PythonWork>(std::move(works[index]), std::move(own)));
  }
  after_call();
  nb::list result;
  for (std::unique_ptr<PythonWork>& work : made) result.append(nb::cast(work.release(), nb::rv_policy::take_ownership));
  return result;
}

}  // namespace

void bind_letters(nb::module_& module) {
  define(module, "send", &send);
  define(module, "recv", &recv);
  define(module, "isend", &isend);
  define(module, "irecv", &irecv);
  define(module, "batch_isend_irecv", &batch_isend_irecv);
}

}  // namespace unisono::python
