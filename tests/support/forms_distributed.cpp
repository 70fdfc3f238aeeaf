// Every function of the torch dialect but gathering and exchanging (forms_exchange.cpp), and its ways of being called. See
// trial.hpp.
#include "tests/support/forms.hpp"
#include "tests/support/guarded.hpp"
#include "unisono/distributed.hpp"

namespace unisono::testing {
namespace {

distributed::Options options_of(const Scene& scene) {
  return {.group = scene.handle(), .async_op = scene.trial.async_op, .timeout_s = {}};
}

distributed::ReduceOptions reduce_options_of(const Scene& scene) {
  return {.op = scene.trial.op, .group = scene.handle(), .async_op = scene.trial.async_op, .timeout_s = {}};
}

distributed::ScatterOptions scatter_options_of(const Scene& scene) {
  return {.src = scene.global_root(),
          .group = scene.handle(),
          .async_op = scene.trial.async_op,
          .timeout_s = {},
          .group_src = {}};
}

// One buffer a rank, of the lengths that `count_of` gives.
using Buffers = std::vector<GuardedPtr>;

std::vector<TensorView> views(const Buffers& buffers) {
  std::vector<TensorView> list;
  for (const GuardedPtr& buffer : buffers) list.push_back(buffer->view());
  return list;
}

Started start_all_reduce(const Scene& scene) {
  auto data = guarded(scene.trial.dtype, scene.mine(), 0, scene.trial.count);
  WorkPtr work = distributed::all_reduce(data->view(), reduce_options_of(scene));
  return {work, nullptr, [scene, data] {
            data->expect(scene.reduced(), 0, "tensor");
            data->expect_guards("tensor");
          }};
}

template <bool uneven>
Started start_all_gather(const Scene& scene) {
  auto count_of = [&scene](int rank) { return uneven ? uneven_count(scene.trial.count, rank) : scene.trial.count; };
  auto input = guarded(scene.trial.dtype, scene.mine(), 0, count_of(scene.me()));
  Buffers outputs;
  for (int rank = 0; rank < scene.ranks(); ++rank) outputs.push_back(guarded(scene.trial.dtype, count_of(rank)));
  WorkPtr work = distributed::all_gather(views(outputs), input->view(), options_of(scene));
  return {work, nullptr, [scene, input, outputs] {
            input->expect(scene.mine(), 0, "input");
            for (int rank = 0; rank < scene.ranks(); ++rank) {
              outputs[static_cast<size_t>(rank)]->expect(scene.given(rank), 0, "element " + std::to_string(rank));
              outputs[static_cast<size_t>(rank)]->expect_guards("element " + std::to_string(rank));
            }
          }};
}

template <bool stacked>
Started start_all_gather_into_tensor(const Scene& scene) {
  const int64_t count = scene.trial.count, ranks = scene.ranks();
  auto input = guarded(scene.trial.dtype, scene.mine(), 0, count), output = guarded(scene.trial.dtype, count * ranks);
  WorkPtr work = distributed::all_gather_into_tensor(output->view(stacked ? Shape{ranks, count} : Shape{ranks * count}),
                                                     input->view(), options_of(scene));
  return {work, nullptr, [scene, input, output, count] {
            input->expect(scene.mine(), 0, "input");
            for (int rank = 0; rank < scene.ranks(); ++rank)
              output->expect(rank * count, count, scene.given(rank), 0, "output");
            output->expect_guards("output");
          }};
}

template <bool uneven>
Started start_reduce_scatter(const Scene& scene) {
  auto count_of = [&scene](int rank) { return uneven ? uneven_count(scene.trial.count, rank) : scene.trial.count; };
  Buffers inputs;
  std::vector<int64_t> starts;
  int64_t at = 0;
  for (int rank = 0; rank < scene.ranks(); at += count_of(rank++)) {
    starts.push_back(at);
    inputs.push_back(guarded(scene.trial.dtype, scene.mine(), at, count_of(rank)));
  }
  auto output = guarded(scene.trial.dtype, count_of(scene.me()));
  WorkPtr work = distributed::reduce_scatter(output->view(), views(inputs), reduce_options_of(scene));
  return {work, nullptr, [scene, inputs, output, starts] {
            for (int rank = 0; rank < scene.ranks(); ++rank)
              inputs[static_cast<size_t>(rank)]->expect(scene.mine(), starts[static_cast<size_t>(rank)], "input list");
            output->expect(scene.reduced(), starts[static_cast<size_t>(scene.me())], "output");
            output->expect_guards("output");
          }};
}

template <bool stacked>
Started start_reduce_scatter_tensor(const Scene& scene) {
  const int64_t count = scene.trial.count, ranks = scene.ranks();
  auto input = guarded(scene.trial.dtype, scene.mine(), 0, count * ranks), output = guarded(scene.trial.dtype, count);
  WorkPtr work = distributed::reduce_scatter_tensor(
      output->view(), input->view(stacked ? Shape{ranks, count} : Shape{ranks * count}), reduce_options_of(scene));
  return {work, nullptr, [scene, input, output, count] {
            input->expect(scene.mine(), 0, "input");
            output->expect(scene.reduced(), scene.me() * count, "output");
            output->expect_guards("output");
          }};
}

Started start_reduce(const Scene& scene) {
  auto data = guarded(scene.trial.dtype, scene.mine(), 0, scene.trial.count);
  WorkPtr work = distributed::reduce(data->view(), scene.global_root(),
                                     {.op = scene.trial.op,
                                      .group = scene.handle(),
                                      .async_op = scene.trial.async_op,
                                      .timeout_s = {},
                                      .group_dst = {}});
  return {work, nullptr, [scene, data] {
            data->expect(scene.is_root() ? scene.reduced() : scene.mine(), 0, "tensor");
            data->expect_guards("tensor");
          }};
}

Started start_scatter(const Scene& scene) {
  const int64_t count = scene.trial.count;
  Buffers inputs;
  for (int rank = 0; rank < scene.ranks() && scene.is_root(); ++rank)
    inputs.push_back(guarded(scene.trial.dtype, scene.mine(), rank * count, count));
  auto output = guarded(scene.trial.dtype, count);
  WorkPtr work = distributed::scatter(output->view(), views(inputs), scatter_options_of(scene));
  return {work, nullptr, [scene, inputs, output, count] {
            for (size_t rank = 0; rank < inputs.size(); ++rank)
              inputs[rank]->expect(scene.mine(), static_cast<int64_t>(rank) * count, "scatter_list");
            output->expect(scene.given(scene.trial.root), scene.me() * count, "tensor");
            output->expect_guards("tensor");
          }};
}

Started start_broadcast(const Scene& scene) {
  auto data = guarded(scene.trial.dtype, scene.mine(), 0, scene.trial.count);
  WorkPtr work = distributed::broadcast(data->view(), scatter_options_of(scene));
  return {work, nullptr, [scene, data] {
            data->expect(scene.given(scene.trial.root), 0, "tensor");
            data->expect_guards("tensor");
          }};
}

Started start_barrier(const Scene& scene) {
  return {distributed::barrier(options_of(scene)), nullptr, [] {}};
}

constexpr auto torch = Dialect::distributed;

// clang-format off
constexpr Form forms[] = {
    // name                                  collective                  rooted reduces lists async
    {"all_reduce", torch, Collective::all_reduce, false, true, false, true, start_all_reduce},
    {"all_gather", torch, Collective::all_gather, false, false, true, true, start_all_gather<false>},
    {"all_gather of uneven pieces", torch, Collective::all_gather, false, false, true, true, start_all_gather<true>},
    {"all_gather_into_tensor", torch, Collective::all_gather, false, false, false, true, start_all_gather_into_tensor<false>},
    {"all_gather_into_tensor, stacked", torch, Collective::all_gather, false, false, false, true, start_all_gather_into_tensor<true>},
    {"reduce_scatter", torch, Collective::reduce_scatter, false, true, true, true, start_reduce_scatter<false>},
    {"reduce_scatter of uneven pieces", torch, Collective::reduce_scatter, false, true, true, true, start_reduce_scatter<true>},
    {"reduce_scatter_tensor", torch, Collective::reduce_scatter, false, true, false, true, start_reduce_scatter_tensor<false>},
    {"reduce_scatter_tensor, stacked", torch, Collective::reduce_scatter, false, true, false, true, start_reduce_scatter_tensor<true>},
    {"reduce", torch, Collective::reduce, true, true, false, true, start_reduce},
    {"scatter", torch, Collective::scatter, true, false, true, true, start_scatter},
    {"broadcast", torch, Collective::broadcast, true, false, false, true, start_broadcast},
    {"barrier", torch, Collective::barrier, false, false, false, true, start_barrier},
};
// clang-format on

}  // namespace

std::span<const Form> distributed_forms() { return forms; }

}  // namespace unisono::testing
