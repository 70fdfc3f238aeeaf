// Every function of the comm_func dialect but gathering and exchanging: forms_exchange.cpp. See trial.hpp.
#include <algorithm>

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
// clang-format on

}  // namespace

std::span<const Form> comm_func_forms() { return forms; }

}  // namespace unisono::testing
