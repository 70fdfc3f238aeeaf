// Every function of the comm_func dialect; and gather and all_to_all, which have no function in a dialect yet, as calls
// made by hand. See trial.hpp.
#include <algorithm>

#include "engine/call.hpp"
#include "tests/support/forms.hpp"
#include "tests/support/guarded.hpp"
#include "unisono/comm_func.hpp"

namespace unisono::testing {
namespace {

comm_func::ReduceOptions reduce_options_of(const Scene& scene) {
  return {.op = scene.trial.op, .group = scene.group->name(), .async_op = scene.trial.async_op};
}

void expect_tensor(const Tensor& output, const Scene& scene, const Pattern& pattern, int64_t at) {
  EXPECT_EQ(output.dtype(), scene.trial.dtype);
  int64_t index = pattern.difference(static_cast<const std::byte*>(output.data()), at, output.count());
  EXPECT_EQ(index, -1) << "element " << index << " of " << output.count() << " is wrong";
}

void expect_zeros(const Tensor& output) {
  auto* data = static_cast<const std::byte*>(output.data());
  EXPECT_TRUE(std::all_of(data, data + output.bytes(), [](std::byte byte) { return byte == std::byte{0}; }))
      << "a rank that is not dst gets zeros";
}

Started start_all_reduce(const Scene& scene) {
  auto input = guarded(scene.trial.dtype, scene.mine(), 0, scene.trial.count);
  auto [output, handle] = comm_func::all_reduce(input->view({1, scene.trial.count}), reduce_options_of(scene));
  return {nullptr, handle, [scene, input, output = output] {
            EXPECT_EQ(output.shape(), (Shape{1, scene.trial.count}));
            expect_tensor(output, scene, scene.reduced(), 0);
            input->expect(scene.mine(), 0, "input");
          }};
}

Started start_all_gather_into_tensor(const Scene& scene) {
  const int64_t count = scene.trial.count;
  auto input = guarded(scene.trial.dtype, scene.mine(), 0, count);
  auto [output, handle] = comm_func::all_gather_into_tensor(
      input->view({count, 1}), {.group = scene.group->name(), .async_op = scene.trial.async_op});
  return {
      nullptr, handle, [scene, input, count, output = output] {
        EXPECT_EQ(output.shape(), (Shape{count * scene.ranks(), 1}));
        auto* data = static_cast<const std::byte*>(output.data());
        for (int rank = 0; rank < scene.ranks(); ++rank)
          EXPECT_EQ(scene.given(rank).difference(data + rank * count * element_bytes(scene.trial.dtype), 0, count), -1)
              << "piece " << rank;
        input->expect(scene.mine(), 0, "input");
      }};
}

Started start_reduce_scatter_tensor(const Scene& scene) {
  const int64_t count = scene.trial.count;
  auto input = guarded(scene.trial.dtype, scene.mine(), 0, count * scene.ranks());
  auto [output, handle] = comm_func::reduce_scatter_tensor(input->view(), reduce_options_of(scene));
  return {nullptr, handle, [scene, input, count, output = output] {
            EXPECT_EQ(output.shape(), Shape{count});
            expect_tensor(output, scene, scene.reduced(), scene.me() * count);
            input->expect(scene.mine(), 0, "input");
          }};
}

Started start_reduce(const Scene& scene) {
  auto input = guarded(scene.trial.dtype, scene.mine(), 0, scene.trial.count);
  Tensor output =
      comm_func::reduce(input->view(), scene.global_root(), {.op = scene.trial.op, .group = scene.group->name()});
  return {nullptr, nullptr, [scene, input, output] {
            EXPECT_EQ(output.shape(), Shape{scene.trial.count});
            if (scene.is_root())
              expect_tensor(output, scene, scene.reduced(), 0);
            else
              expect_zeros(output);
            input->expect(scene.mine(), 0, "input");
          }};
}

Started start_scatter_tensor(const Scene& scene) {
  const int64_t count = scene.trial.count;
  auto input = guarded(scene.trial.dtype, scene.mine(), 0, count * scene.ranks());
  Tensor output = comm_func::scatter_tensor(input->view(), scene.global_root(), scene.group->name());
  return {nullptr, nullptr, [scene, input, count, output] {
            EXPECT_EQ(output.shape(), Shape{count});
            expect_tensor(output, scene, scene.given(scene.trial.root), scene.me() * count);
            input->expect(scene.mine(), 0, "input");
          }};
}

Started start_broadcast(const Scene& scene) {
  auto input = guarded(scene.trial.dtype, scene.mine(), 0, scene.trial.count);
  Tensor output = comm_func::broadcast(input->view(), scene.global_root(), scene.group->name());
  return {nullptr, nullptr, [scene, input, output] {
            EXPECT_EQ(output.shape(), Shape{scene.trial.count});
            expect_tensor(output, scene, scene.given(scene.trial.root), 0);
            input->expect(scene.mine(), 0, "input");
          }};
}

Started start_barrier(const Scene& scene) {
  comm_func::barrier(scene.group->name());
  return {nullptr, nullptr, [] {}};
}

// A call as a dialect would make it, of `input` and `output` pieces of the trial's length.
Started start_by_hand(const Scene& scene, const GuardedPtr& input, const GuardedPtr& output,
                      std::function<void()> check) {
  const int64_t element = element_bytes(scene.trial.dtype);
  Call call;
  call.kind = scene.trial.form->collective;
  call.dtype = scene.trial.dtype;
  call.count = scene.trial.count;
  call.root = scene.trial.root;
  call.input = Pieces(input->data(), input->count() * element);
  call.output = Pieces(output->data(), output->count() * element);
  if (scene.trial.async_op) return {scene.group->post(std::move(call), nullptr), nullptr, check};
  throw_if_error(scene.group->run(std::move(call)));
  return {nullptr, nullptr, check};
}

Started start_gather(const Scene& scene) {
  const int64_t count = scene.trial.count;
  auto input = guarded(scene.trial.dtype, scene.mine(), 0, count);
  auto output = guarded(scene.trial.dtype, scene.is_root() ? count * scene.ranks() : 0);
  return start_by_hand(scene, input, output, [scene, input, output, count] {
    input->expect(scene.mine(), 0, "input");
    for (int rank = 0; rank < scene.ranks() && scene.is_root(); ++rank)
      output->expect(rank * count, count, scene.given(rank), 0, "output");
    output->expect_guards("output");
  });
}

Started start_all_to_all(const Scene& scene) {
  const int64_t count = scene.trial.count;
  auto input = guarded(scene.trial.dtype, scene.mine(), 0, count * scene.ranks());
  auto output = guarded(scene.trial.dtype, count * scene.ranks());
  return start_by_hand(scene, input, output, [scene, input, output, count] {
    input->expect(scene.mine(), 0, "input");
    for (int rank = 0; rank < scene.ranks(); ++rank)
      output->expect(rank * count, count, scene.given(rank), scene.me() * count, "output");
    output->expect_guards("output");
  });
}

constexpr auto mindspore = Dialect::comm_func;

// clang-format off
constexpr Form forms[] = {
    // name                              collective                  rooted reduces lists async
    {"all_reduce", mindspore, Collective::all_reduce, false, true, false, true, start_all_reduce},
    {"all_gather_into_tensor", mindspore, Collective::all_gather, false, false, false, true, start_all_gather_into_tensor},
    {"reduce_scatter_tensor", mindspore, Collective::reduce_scatter, false, true, false, true, start_reduce_scatter_tensor},
    {"reduce", mindspore, Collective::reduce, true, true, false, false, start_reduce},
    {"scatter_tensor", mindspore, Collective::scatter, true, false, false, false, start_scatter_tensor},
    {"broadcast", mindspore, Collective::broadcast, true, false, false, false, start_broadcast},
    {"barrier", mindspore, Collective::barrier, false, false, false, false, start_barrier},
};

constexpr Form by_hand[] = {
    {"gather", Dialect::engine, Collective::gather, true, false, false, true, start_gather},
    {"all_to_all", Dialect::engine, Collective::all_to_all, false, false, false, true, start_all_to_all},
};
// clang-format on

}  // namespace

std::span<const Form> comm_func_forms() { return forms; }
std::span<const Form> engine_forms() { return by_hand; }

}  // namespace unisono::testing
