// Sends and receives. Torch waits for the Work of a blocking one itself, so all are posted.
#include "torch_backend/perform.hpp"

namespace unisono::torch_backend {

using c10d::OpType;

TorchWork TorchBackend::send(Tensors& tensors, int destination, int tag) {
  Deed deed{OpType::SEND, "unisono:send"};
  const TensorView tensor = in_torch_words([&] { return deed.loan.read(only(tensors)); });
  return perform_letter(std::move(deed), [&] {
    return distributed::isend(tensor, world_rank(destination, "the destination"), {group(), tag, timeout_s()});
  });
}

TorchWork TorchBackend::recv(Tensors& tensors, int source, int tag) {
  Deed deed{OpType::RECV, "unisono:recv"};
  const TensorView tensor = in_torch_words([&] { return deed.loan.write(only(tensors)); });
  deed.outputs = tensors;
  return perform_letter(std::move(deed), [&] {
    return distributed::irecv(tensor, world_rank(source, "the source"), {group(), tag, timeout_s()});
  });
}

TorchWork TorchBackend::recvAnysource(Tensors& tensors, int tag) {
  Deed deed{OpType::RECVANYSOURCE, "unisono:recvAnySource"};
  const TensorView tensor = in_torch_words([&] { return deed.loan.write(only(tensors)); });
  deed.outputs = tensors;
  return perform_letter(std::move(deed), [&] { return distributed::irecv(tensor, std::nullopt, {group(), tag, timeout_s()}); });
}

}  // namespace unisono::torch_backend
