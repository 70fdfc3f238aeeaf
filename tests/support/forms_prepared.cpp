// Calls that were prepared. See trial.hpp; what only they do is in persistent_test.cpp.
#include "tests/support/forms.hpp"
#include "tests/support/guarded.hpp"
#include "unisono/persistent.hpp"

namespace unisono::testing {
namespace {

// A prepared call that was started, as the Work that a trial waits for.
class PreparedWork final : public Work {
 public:
  // On a broken group there is nothing to prepare; other calls say so when they are waited for.
  template <typename Prepare>
  explicit PreparedWork(Prepare prepare) {
    try {
      prepared_ = prepare();
      prepared_.start();
    } catch (const Error& error) {
      status_ = error.status();
    }
  }
  bool wait(std::optional<double> timeout_s) override {
    if (!prepared_.is_started()) {
      throw_if_error(status_);
      return true;
    }
    try {
      return prepared_.wait(timeout_s);
    } catch (const Error& error) {
      if (!prepared_.is_started()) status_ = error.status();
      throw;
    }
  }
  bool is_completed() const override { return prepared_.is_completed(); }
  bool is_success() const override { return is_completed() && status_.ok(); }
  Status exception() const override { return status_; }
  void on_completion(std::function<void()>) override { throw StateError(Status(ErrorCode::state, "a prepared call tells nobody")); }

 private:
  Prepared prepared_;
  Status status_;
};

// Started or run, as the trial has it.
template <typename Prepare>
WorkPtr begin(const Scene& scene, Prepare prepare) {
  if (scene.trial.async_op) return std::make_shared<PreparedWork>(prepare);
  prepare().run();
  return nullptr;
}

Started start_all_reduce(const Scene& scene) {
  auto data = guarded(scene.trial.dtype, scene.mine(), 0, scene.trial.count);
  WorkPtr work = begin(scene, [&] { return distributed::prepare_all_reduce(data->view(), {.op = scene.trial.op, .group = scene.handle()}); });
  return {work, nullptr, [scene, data] {
            data->expect(scene.reduced(), 0, "tensor");
            data->expect_guards("tensor");
          }};
}

Started start_all_gather_into_tensor(const Scene& scene) {
  const int64_t count = scene.trial.count;
  auto input = guarded(scene.trial.dtype, scene.mine(), 0, count), output = guarded(scene.trial.dtype, count * scene.ranks());
  WorkPtr work =
      begin(scene, [&] { return distributed::prepare_all_gather_into_tensor(output->view(), input->view(), {.group = scene.handle()}); });
  return {work, nullptr, [scene, input, output, count] {
            input->expect(scene.mine(), 0, "input");
            for (int rank = 0; rank < scene.ranks(); ++rank) output->expect(rank * count, count, scene.given(rank), 0, "output");
            output->expect_guards("output");
          }};
}

Started start_all_to_all(const Scene& scene) {
  std::vector<GuardedPtr> inputs, outputs;
  std::vector<TensorView> sent, received;
  std::vector<int64_t> starts;  // of what comes from each rank, in what it sends
  int64_t at = 0;
  for (int peer = 0; peer < scene.ranks(); ++peer) {
    const int64_t goes = pair_count(scene.trial.count, scene.me(), peer), comes = pair_count(scene.trial.count, peer, scene.me());
    inputs.push_back(guarded(scene.trial.dtype, scene.mine(), at, goes));
    outputs.push_back(guarded(scene.trial.dtype, comes));
    at += goes;
    starts.push_back(0);
    for (int before = 0; before < scene.me(); ++before) starts.back() += pair_count(scene.trial.count, peer, before);
    sent.push_back(inputs.back()->view());
    received.push_back(outputs.back()->view());
  }
  WorkPtr work = begin(scene, [&] { return distributed::prepare_all_to_all(received, sent, {.group = scene.handle()}); });
  return {work, nullptr, [scene, inputs, outputs, starts] {
            for (size_t peer = 0; peer < outputs.size(); ++peer) {
              outputs[peer]->expect(scene.given(static_cast<int>(peer)), starts[peer], "element " + std::to_string(peer));
              outputs[peer]->expect_guards("element " + std::to_string(peer));
            }
          }};
}

constexpr auto torch = Dialect::distributed;

// clang-format off
constexpr Form forms[] = {
    // name                                         collective                 rooted reduces lists async
    {"all_reduce, prepared",             torch, Collective::all_reduce, false, true,  false, true, start_all_reduce},
    {"all_gather_into_tensor, prepared", torch, Collective::all_gather, false, false, false, true, start_all_gather_into_tensor},
    {"all_to_all, prepared",             torch, Collective::all_to_all, false, false, true,  true, start_all_to_all},
};
// clang-format on

}  // namespace

std::span<const Form> prepared_forms() { return forms; }

}  // namespace unisono::testing
