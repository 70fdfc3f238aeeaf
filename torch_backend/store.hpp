// A store of torch's as one of the library's, by which the ranks of a job find each other.
#pragma once

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

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
  bool come_within(const std::vector<std::string>& keys, double timeout_s);

  c10::intrusive_ptr<c10d::Store> store_;
  std::vector<std::string> awaited_;                 // by the last call, and since when; one thread at a time waits
  std::chrono::steady_clock::time_point since_ = {};
};

}  // namespace unisono::torch_backend
