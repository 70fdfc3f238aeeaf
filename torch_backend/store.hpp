// A store of torch's as one of the library's, by which the ranks of a job find each other.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "unisono/store.hpp"

namespace unisono::torch_backend {

class TorchStore final : public distributed::Store {
 public:
  explicit TorchStore(c10::intrusive_ptr<c10d::Store> store) : store_(std::move(store)) {}

  double timeout() const override;
  void set_timeout(double seconds) override;
  distributed::StoreReach reach() const override;  // other machines', unless it is a FileStore or a HashStore
  // One after the other; others may come in between, for torch's stores have nothing that prevents it. Joining asks for one
  // thing at a time.
  Result<std::vector<distributed::StoreAnswer>> perform(const std::vector<distributed::StoreRequest>& requests) override;
  Result<std::vector<std::string>> await_values(const std::vector<std::string>& keys, double timeout_s) override;

 private:
  distributed::StoreAnswer answer(const distributed::StoreRequest& request);

  c10::intrusive_ptr<c10d::Store> store_;
};

}  // namespace unisono::torch_backend
