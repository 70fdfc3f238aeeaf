// Collecting calls of the torch dialect and making them together, as torch's coalescing manager does:
//
//   distributed::Coalescing together(group);
//   for (auto& gradient : gradients) together.all_reduce(view(gradient));
//   together.end();
//
// One call is made for each kind, dtype and op, in the order of their first use: ranks that collect the same things in the same
// order make the same calls. Used by one thread at a time. Tensors must live until end(), or wait() where it is asynchronous.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "unisono/distributed.hpp"

#pragma GCC visibility push(default)
namespace unisono::distributed {

struct CoalescingOptions {
  bool async_op = false;                 // end() does not wait
  std::optional<double> timeout_s = {};  // of each call; otherwise the group's
};

class Coalescing {
 public:
  explicit Coalescing(GroupHandle group = {}, const CoalescingOptions& options = {});
  // Ends what was not ended, and throws what end() throws. One that an exception destroys has made no call and says nothing.
  ~Coalescing() noexcept(false);
  Coalescing(const Coalescing&) = delete;
  Coalescing& operator=(const Coalescing&) = delete;

  // Each notes a call; nothing is checked or sent before end(). StateError after it.
  void all_reduce(TensorView tensor, ReduceOp op = ReduceOp::sum);
  void all_gather_into_tensor(TensorView output, TensorView input);
  void reduce_scatter_tensor(TensorView output, TensorView input, ReduceOp op = ReduceOp::sum);

  // Makes all calls, also where one fails, so that ranks stay in step; then throws the first error, which says of which call it
  // is and how many failed. StateError the second time.
  void end();
  // Ends where nobody has, and blocks until all calls are over; true, or throws the first error. See Work::wait().
  bool wait(std::optional<double> timeout_s = std::nullopt);
  bool is_completed() const;  // ended, and all calls are over

 private:
  struct Collected {  // what becomes one call
    Collective kind;
    DType dtype;
    ReduceOp op;
    std::vector<TensorView> outputs, inputs;  // all_reduce has outputs only
    WorkPtr work;                             // once it is made, where it is asynchronous
  };
  // How many failed, and why the first did.
  struct Failures {
    size_t count = 0, first = 0;  // `first` is an index
    Status why;
    void add(size_t index, const Status& status);
  };
  Collected& collected(Collective kind, DType dtype, ReduceOp op);
  WorkPtr make(const Collected& call) const;
  std::string describe(size_t index) const;
  void throw_if_any(const Failures& failures) const;

  GroupHandle group_;
  CoalescingOptions options_;
  int exceptions_;  // that were under way when this was made
  bool ended_ = false;
  std::vector<Collected> calls_;
};

}  // namespace unisono::distributed
#pragma GCC visibility pop
