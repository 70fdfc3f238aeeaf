// scan and exscan of both dialects. See trial.hpp.
#include <algorithm>

#include "tests/support/forms.hpp"
#include "tests/support/guarded.hpp"
#include "unisono/comm_func.hpp"
#include "unisono/distributed.hpp"

namespace unisono::testing {
namespace {

template <Collective kind>
Started start_in_place(const Scene& scene) {
  constexpr auto function = kind == Collective::scan ? distributed::scan : distributed::exscan;
  auto data = guarded(scene.trial.dtype, scene.mine(), 0, scene.trial.count);
  const distributed::ReduceOptions options{
      .op = scene.trial.op, .group = scene.handle(), .async_op = scene.trial.async_op, .timeout_s = {}};
  WorkPtr work = function(data->view(), options);
  return {work, nullptr, [scene, data] {
            const int last = scene.me() - (kind == Collective::scan ? 0 : 1);
            data->expect(last < 0 ? scene.mine() : scene.reduced_up_to(last), 0, "tensor");
            data->expect_guards("tensor");
          }};
}

template <Collective kind>
Started start_new(const Scene& scene) {
  constexpr auto function = kind == Collective::scan ? comm_func::scan : comm_func::exscan;
  auto input = guarded(scene.trial.dtype, scene.mine(), 0, scene.trial.count);
  const comm_func::ReduceOptions options{.op = scene.trial.op, .group = scene.group->name(), .async_op = scene.trial.async_op};
  auto [output, handle] = function(input->view({1, scene.trial.count}), options);
  return {nullptr, handle, [scene, input, output = output] {
            EXPECT_EQ(output.dtype(), scene.trial.dtype);
            EXPECT_EQ(output.shape(), (Shape{1, scene.trial.count}));
            auto* data = static_cast<const std::byte*>(output.data());
            const int last = scene.me() - (kind == Collective::scan ? 0 : 1);
            if (last < 0)
              EXPECT_TRUE(std::all_of(data, data + output.bytes(), [](std::byte byte) { return byte == std::byte{0}; }))
                  << "rank 0 gets zeros";
            else
              EXPECT_EQ(scene.reduced_up_to(last).difference(data, 0, output.count()), -1);
            input->expect(scene.mine(), 0, "input");
          }};
}

constexpr auto torch = Dialect::distributed;
constexpr auto mindspore = Dialect::comm_func;

// clang-format off
constexpr Form forms[] = {
    // name                          collective     rooted reduces lists async
    {"scan", torch, Collective::scan, false, true, false, true, start_in_place<Collective::scan>},
    {"exscan", torch, Collective::exscan, false, true, false, true, start_in_place<Collective::exscan>},
    {"scan", mindspore, Collective::scan, false, true, false, true, start_new<Collective::scan>},
    {"exscan", mindspore, Collective::exscan, false, true, false, true, start_new<Collective::exscan>},
};
// clang-format on

}  // namespace

std::span<const Form> scan_forms() { return forms; }

}  // namespace unisono::testing
