// The comm_func dialect: send, recv and their relatives.
#include <map>

#include "dialects/comm_func_parts.hpp"
#include "dialects/default_world.hpp"

namespace unisono::comm_func {
namespace {

using Kind = Envelope::Kind;

std::shared_ptr<MailWork> make_work(const std::shared_ptr<Group>& group, const LetterParts& parts, std::shared_ptr<void> keep_alive) {
  return std::make_shared<MailWork>(group, envelope_of(*group, parts), std::move(keep_alive));
}

// Only the shape and dtype of what the caller passes count.
Tensor place_for(const TensorView& like) { return Tensor::empty(like.dtype, like.shape); }

}  // namespace

void send(const TensorView& tensor, Rank dst, const GroupName& group_name, int tag) {
  auto group = group_named(group_name, "send");
  throw_if_error(group->mailbox().run(envelope_of(*group, {Kind::send, tensor, dst, {}, tag})));
}

Tensor recv(const TensorView& tensor, Rank src, const GroupName& group_name, int tag) {
  auto group = group_named(group_name, "recv");
  Tensor output = place_for(tensor);
  throw_if_error(group->mailbox().run(envelope_of(*group, {Kind::receive, output, src, {}, tag})));
  return output;
}

CommHandlePtr isend(const TensorView& tensor, Rank dst, const GroupName& group_name, int tag) {
  auto group = group_named(group_name, "isend");
  auto work = make_work(group, {Kind::send, tensor, dst, {}, tag}, nullptr);
  group->mailbox().post({work});
  return handle_of(work);
}

TensorAndHandle irecv(const TensorView& tensor, Rank src, const GroupName& group_name, int tag) {
  auto group = group_named(group_name, "irecv");
  Tensor output = place_for(tensor);
  auto work = make_work(group, {Kind::receive, output, src, {}, tag}, output.storage());
  group->mailbox().post({work});
  return {std::move(output), handle_of(work)};
}

std::vector<Tensor> batch_isend_irecv(std::span<const P2POp> operations) {
  std::vector<Tensor> outputs;
  std::vector<std::shared_ptr<MailWork>> all;
  std::map<std::shared_ptr<Group>, std::vector<std::shared_ptr<MailWork>>> by_group;
  for (const P2POp& operation : operations) {
    auto group = group_named(operation.group, "batch_isend_irecv");
    const bool sends = operation.op == P2POp::Kind::isend;
    outputs.push_back(sends ? Tensor::zeros(DType::float32, Shape{1})
                            : Tensor::empty(operation.recv_dtype.value_or(operation.tensor.dtype), operation.tensor.shape));
    const Tensor& output = outputs.back();
    all.push_back(make_work(group,
                            {sends ? Kind::send : Kind::receive, sends ? operation.tensor : TensorView(output), operation.peer, {}, operation.tag},
                            output.storage()));
    by_group[group].push_back(all.back());
  }
  for (auto& [group, works] : by_group) group->mailbox().post(works);
  Status first;  // told when all are over: until then they use the caller's memory
  for (const auto& work : all) {
    try {
      work->wait(std::nullopt);
    } catch (const Error& error) {
      if (first.ok()) first = error.status();
    }
  }
  throw_if_error(first);
  return outputs;
}

}  // namespace unisono::comm_func
