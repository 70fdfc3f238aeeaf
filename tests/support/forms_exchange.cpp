// gather and the forms of all_to_all, in both dialects. See trial.hpp.
#include <numeric>

#include "tests/support/forms.hpp"
#include "tests/support/guarded.hpp"
#include "unisono/comm_func.hpp"
#include "unisono/distributed.hpp"

namespace unisono::testing {
namespace {

using Counts = std::vector<int64_t>;

std::vector<TensorView> views(const std::vector<GuardedPtr>& buffers) {
  std::vector<TensorView> list;
  for (const GuardedPtr& buffer : buffers) list.push_back(buffer->view());
  return list;
}

// How many elements go between each two ranks: all the same, or all different.
struct Traffic {
  const Scene& scene;
  bool uneven;

  int64_t count(int from, int to) const { return uneven ? pair_count(scene.trial.count, from, to) : scene.trial.count; }
  Counts sent() const { return counts([this](int peer) { return count(scene.me(), peer); }); }
  Counts received() const { return counts([this](int peer) { return count(peer, scene.me()); }); }
  int64_t start(int from, int to) const {  // of what `to` gets, in the data of `from`
    int64_t start = 0;
    for (int before = 0; before < to; ++before) start += count(from, before);
    return start;
  }
  template <typename CountOf>
  Counts counts(CountOf count_of) const {
    Counts counts;
    for (int peer = 0; peer < scene.ranks(); ++peer) counts.push_back(count_of(peer));
    return counts;
  }
};

int64_t total(const Counts& counts) { return std::accumulate(counts.begin(), counts.end(), int64_t{0}); }

// Piece by piece: what came from each rank.
void expect_pieces(const Scene& scene, bool uneven, const std::function<void(int peer, int64_t at, int64_t count, int64_t start)>& expect) {
  const Traffic traffic{scene, uneven};
  int64_t at = 0;
  for (int peer = 0; peer < scene.ranks(); ++peer) {
    const int64_t count = traffic.count(peer, scene.me());
    expect(peer, at, count, traffic.start(peer, scene.me()));
    at += count;
  }
}

void expect_output(const Scene& scene, bool uneven, const std::byte* data) {
  expect_pieces(scene, uneven, [&](int peer, int64_t at, int64_t count, int64_t start) {
    const int64_t index = scene.given(peer).difference(data + at * element_bytes(scene.trial.dtype), start, count);
    EXPECT_EQ(index, -1) << "element " << index << " of what rank " << peer << " sent is wrong";
  });
}

Started start_gather(const Scene& scene) {
  const int64_t count = scene.trial.count;
  auto input = guarded(scene.trial.dtype, scene.mine(), 0, count);
  std::vector<GuardedPtr> outputs;
  for (int rank = 0; rank < scene.ranks() && scene.is_root(); ++rank) outputs.push_back(guarded(scene.trial.dtype, count));
  WorkPtr work = distributed::gather(input->view(), views(outputs),
                                     {.dst = scene.global_root(), .group = scene.handle(), .async_op = scene.trial.async_op,
                                      .timeout_s = {}, .group_dst = {}});
  return {work, nullptr, [scene, input, outputs] {
            input->expect(scene.mine(), 0, "input");
            for (size_t rank = 0; rank < outputs.size(); ++rank) {
              outputs[rank]->expect(scene.given(static_cast<int>(rank)), 0, "element " + std::to_string(rank));
              outputs[rank]->expect_guards("element " + std::to_string(rank));
            }
          }};
}

Started start_all_to_all(const Scene& scene) {
  const Traffic traffic{scene, true};
  std::vector<GuardedPtr> inputs, outputs;
  for (int peer = 0; peer < scene.ranks(); ++peer) {
    inputs.push_back(guarded(scene.trial.dtype, scene.mine(), traffic.start(scene.me(), peer), traffic.count(scene.me(), peer)));
    outputs.push_back(guarded(scene.trial.dtype, traffic.count(peer, scene.me())));
  }
  WorkPtr work = distributed::all_to_all(views(outputs), views(inputs),
                                         {.group = scene.handle(), .async_op = scene.trial.async_op, .timeout_s = {}});
  return {work, nullptr, [scene, inputs, outputs] {
            expect_pieces(scene, true, [&](int peer, int64_t, int64_t, int64_t start) {
              outputs[static_cast<size_t>(peer)]->expect(scene.given(peer), start, "element " + std::to_string(peer));
              outputs[static_cast<size_t>(peer)]->expect_guards("element " + std::to_string(peer));
            });
            for (int peer = 0; peer < scene.ranks(); ++peer)
              inputs[static_cast<size_t>(peer)]->expect(scene.mine(), Traffic{scene, true}.start(scene.me(), peer), "input list");
          }};
}

template <bool uneven>
Started start_all_to_all_single(const Scene& scene) {
  const Counts sent = Traffic{scene, uneven}.sent(), received = Traffic{scene, uneven}.received();
  auto input = guarded(scene.trial.dtype, scene.mine(), 0, total(sent)), output = guarded(scene.trial.dtype, total(received));
  WorkPtr work = distributed::all_to_all_single(output->view(), input->view(),
                                                {.output_split_sizes = uneven ? received : Counts(),
                                                 .input_split_sizes = uneven ? sent : Counts(),
                                                 .group = scene.handle(),
                                                 .async_op = scene.trial.async_op,
                                                 .timeout_s = {}});
  return {work, nullptr, [scene, input, output] {
            input->expect(scene.mine(), 0, "input");
            expect_output(scene, uneven, output->data());
            output->expect_guards("output");
          }};
}

Started start_gather_into_tensor(const Scene& scene) {
  const int64_t count = scene.trial.count;
  auto input = guarded(scene.trial.dtype, scene.mine(), 0, count);
  Tensor output = comm_func::gather_into_tensor(input->view({count, 1}), scene.global_root(), scene.group->name());
  return {nullptr, nullptr, [scene, input, output, count] {
            input->expect(scene.mine(), 0, "input");
            EXPECT_EQ(output.dtype(), scene.trial.dtype);
            EXPECT_EQ(output.shape(), scene.is_root() ? (Shape{count * scene.ranks(), 1}) : Shape{1});
            auto* data = static_cast<const std::byte*>(output.data());
            const int64_t element = element_bytes(scene.trial.dtype);
            if (!scene.is_root()) {
              EXPECT_TRUE(std::all_of(data, data + element, [](std::byte byte) { return byte == std::byte{0}; }));
            }
            for (int rank = 0; rank < scene.ranks() && scene.is_root(); ++rank)
              EXPECT_EQ(scene.given(rank).difference(data + rank * count * element, 0, count), -1) << "piece " << rank;
          }};
}

template <bool uneven>
Started start_all_to_all_with_shape(const Scene& scene) {
  const Counts sent = Traffic{scene, uneven}.sent(), received = Traffic{scene, uneven}.received();
  auto input = guarded(scene.trial.dtype, scene.mine(), 0, total(sent));
  auto [output, handle] = comm_func::all_to_all_single_with_output_shape({total(received), 1}, input->view({total(sent), 1}),
                                                                         {.output_split_sizes = uneven ? received : Counts(),
                                                                          .input_split_sizes = uneven ? sent : Counts(),
                                                                          .group = scene.group->name(),
                                                                          .async_op = scene.trial.async_op});
  return {nullptr, handle, [scene, input, output = output, received] {
            EXPECT_EQ(output.shape(), (Shape{total(received), 1}));
            input->expect(scene.mine(), 0, "input");
            expect_output(scene, uneven, static_cast<const std::byte*>(output.data()));
          }};
}

Started start_all_to_all_with_shapes(const Scene& scene) {
  const Traffic traffic{scene, true};
  std::vector<GuardedPtr> inputs;
  std::vector<Shape> shapes;
  for (int peer = 0; peer < scene.ranks(); ++peer) {
    inputs.push_back(guarded(scene.trial.dtype, scene.mine(), traffic.start(scene.me(), peer), traffic.count(scene.me(), peer)));
    shapes.push_back({traffic.count(peer, scene.me())});
  }
  auto [outputs, handle] = comm_func::all_to_all_with_output_shape(
      shapes, views(inputs), {.group = scene.group->name(), .async_op = scene.trial.async_op});
  return {nullptr, handle, [scene, inputs, outputs = outputs] {
            ASSERT_EQ(outputs.size(), static_cast<size_t>(scene.ranks()));
            expect_pieces(scene, true, [&](int peer, int64_t, int64_t count, int64_t start) {
              const Tensor& output = outputs[static_cast<size_t>(peer)];
              EXPECT_EQ(output.shape(), Shape{count});
              EXPECT_EQ(scene.given(peer).difference(static_cast<const std::byte*>(output.data()), start, count), -1) << peer;
            });
          }};
}

Started start_all_to_all_v_c(const Scene& scene) {
  const Traffic traffic{scene, true};
  Counts matrix;
  for (int from = 0; from < scene.ranks(); ++from)
    for (int to = 0; to < scene.ranks(); ++to) matrix.push_back(traffic.count(from, to));
  auto input = guarded(scene.trial.dtype, scene.mine(), 0, total(traffic.sent()));
  auto output = guarded(scene.trial.dtype, total(traffic.received()));
  CommHandlePtr handle = comm_func::all_to_all_v_c(output->view(), input->view(), matrix,
                                                   {.group = scene.group->name(), .async_op = scene.trial.async_op});
  return {nullptr, handle, [scene, input, output] {
            input->expect(scene.mine(), 0, "input");
            expect_output(scene, true, output->data());
            output->expect_guards("output");
          }};
}

constexpr auto torch = Dialect::distributed;
constexpr auto mindspore = Dialect::comm_func;
constexpr auto exchange = Collective::all_to_all;

// clang-format off
constexpr Form forms[] = {
    // name                              dialect    collective          rooted reduces lists async
    {"gather",                           torch,     Collective::gather, true,  false,  true,  true,  start_gather},
    {"all_to_all",                       torch,     exchange,           false, false,  true,  true,  start_all_to_all},
    {"all_to_all_single",                torch,     exchange,           false, false,  false, true,  start_all_to_all_single<false>},
    {"all_to_all_single, split sizes",   torch,     exchange,           false, false,  true,  true,  start_all_to_all_single<true>},
    {"gather_into_tensor",               mindspore, Collective::gather, true,  false,  false, false, start_gather_into_tensor},
    {"all_to_all_single_with_output_shape", mindspore, exchange,        false, false,  false, true,  start_all_to_all_with_shape<false>},
    {"all_to_all_single_with_output_shape, split sizes", mindspore, exchange, false, false, true, true, start_all_to_all_with_shape<true>},
    {"all_to_all_with_output_shape",     mindspore, exchange,           false, false,  true,  true,  start_all_to_all_with_shapes},
    {"all_to_all_v_c",                   mindspore, exchange,           false, false,  true,  true,  start_all_to_all_v_c},
};
// clang-format on

}  // namespace

std::span<const Form> exchange_forms() { return forms; }

}  // namespace unisono::testing
