// The coalesced calls: the data, or each rank's piece, as a list of tensors. See trial.hpp.
#include <algorithm>

#include "tests/support/forms.hpp"
#include "tests/support/guarded.hpp"
#include "unisono/distributed.hpp"

namespace unisono::testing {
namespace {

using Buffers = std::vector<GuardedPtr>;

distributed::Options options_of(const Scene& scene) {
  return {.group = scene.handle(), .async_op = scene.trial.async_op, .timeout_s = {}};
}

distributed::ReduceOptions reduce_options_of(const Scene& scene) {
  return {.op = scene.trial.op, .group = scene.handle(), .async_op = scene.trial.async_op, .timeout_s = {}};
}

std::vector<TensorView> views(const Buffers& buffers) {
  std::vector<TensorView> list;
  for (const GuardedPtr& buffer : buffers) list.push_back(buffer->view());
  return list;
}

// How `count` elements are divided into tensors, and where each begins.
struct Division {
  std::vector<int64_t> counts, starts;
};

Division divide(const std::vector<int64_t>& counts) {
  Division division;
  int64_t at = 0;
  for (int64_t count : counts) {
    division.counts.push_back(count);
    division.starts.push_back(at);
    at += count;
  }
  return division;
}

// Long, empty, short and odd ones in turn.
Division into_few(int64_t count) {
  const int64_t half = count / 2, odd = std::min<int64_t>(count - half, 1), third = (count - half - odd) / 3;
  return divide({half, 0, odd, third, 0, count - half - odd - third});
}

// Two hundred that are nearly alike; of short data most are empty.
Division into_many(int64_t count) {
  std::vector<int64_t> counts;
  for (int64_t index = 0; index < 200; ++index) counts.push_back((count + (index * 67) % 200) / 200);
  return divide(counts);
}

Buffers filled(const Scene& scene, const Division& division, const Pattern& pattern, int64_t at) {
  Buffers buffers;
  for (size_t index = 0; index < division.counts.size(); ++index)
    buffers.push_back(guarded(scene.trial.dtype, pattern, at + division.starts[index], division.counts[index]));
  return buffers;
}

Buffers untouched(const Scene& scene, const Division& division, int64_t times = 1) {
  Buffers buffers;
  for (int64_t count : division.counts) buffers.push_back(guarded(scene.trial.dtype, count * times));
  return buffers;
}

void expect_buffers(const Buffers& buffers, const Division& division, const Pattern& pattern, int64_t at,
                    const std::string& what) {
  for (size_t index = 0; index < buffers.size(); ++index) {
    buffers[index]->expect(pattern, at + division.starts[index], what + ", tensor " + std::to_string(index));
    buffers[index]->expect_guards(what + ", tensor " + std::to_string(index));
  }
}

using Divide = Division(int64_t count);

template <Divide divided>
Started start_all_reduce(const Scene& scene) {
  const Division division = divided(scene.trial.count);
  const Buffers data = filled(scene, division, scene.mine(), 0);
  WorkPtr work = distributed::all_reduce_coalesced(views(data), reduce_options_of(scene));
  return {work, nullptr, [=] { expect_buffers(data, division, scene.reduced(), 0, "tensors"); }};
}

template <Divide divided, bool uneven>
Started start_all_gather(const Scene& scene) {
  auto piece = [&](int rank) { return divided(uneven ? uneven_count(scene.trial.count, rank) : scene.trial.count); };
  const Buffers inputs = filled(scene, piece(scene.me()), scene.mine(), 0);
  std::vector<Division> divisions;
  std::vector<Buffers> outputs;
  std::vector<std::vector<TensorView>> lists;
  for (int rank = 0; rank < scene.ranks(); ++rank) {
    divisions.push_back(piece(rank));
    outputs.push_back(untouched(scene, divisions.back()));
    lists.push_back(views(outputs.back()));
  }
  WorkPtr work = distributed::all_gather_coalesced(lists, views(inputs), options_of(scene));
  return {work, nullptr, [=] {
            expect_buffers(inputs, divisions[static_cast<size_t>(scene.me())], scene.mine(), 0, "input_tensor_list");
            for (size_t rank = 0; rank < outputs.size(); ++rank)
              expect_buffers(outputs[rank], divisions[rank], scene.given(static_cast<int>(rank)), 0,
                             "list " + std::to_string(rank));
          }};
}

template <Divide divided>
Started start_all_gather_into(const Scene& scene) {
  const Division division = divided(scene.trial.count);
  const Buffers inputs = filled(scene, division, scene.mine(), 0), outputs = untouched(scene, division, scene.ranks());
  WorkPtr work = distributed::all_gather_into_tensor_coalesced(views(outputs), views(inputs), options_of(scene));
  return {work, nullptr, [=] {
            expect_buffers(inputs, division, scene.mine(), 0, "inputs");
            for (size_t index = 0; index < outputs.size(); ++index) {
              const int64_t count = division.counts[index];
              for (int rank = 0; rank < scene.ranks(); ++rank)
                outputs[index]->expect(rank * count, count, scene.given(rank), division.starts[index],
                                       "output " + std::to_string(index));
              outputs[index]->expect_guards("output " + std::to_string(index));
            }
          }};
}

template <Divide divided, bool uneven>
Started start_reduce_scatter(const Scene& scene) {
  std::vector<Division> divisions;
  std::vector<int64_t> starts;
  std::vector<Buffers> pieces;
  int64_t at = 0;
  for (int rank = 0; rank < scene.ranks(); ++rank) {
    const int64_t count = uneven ? uneven_count(scene.trial.count, rank) : scene.trial.count;
    divisions.push_back(divided(count));
    starts.push_back(at);
    pieces.push_back(filled(scene, divisions.back(), scene.mine(), at));
    at += count;
  }
  const Division& mine = divisions[static_cast<size_t>(scene.me())];
  const Buffers outputs = untouched(scene, mine);
  std::vector<std::vector<TensorView>> lists(outputs.size());
  for (const Buffers& piece : pieces)
    for (size_t index = 0; index < piece.size(); ++index) lists[index].push_back(piece[index]->view());
  WorkPtr work = distributed::reduce_scatter_coalesced(views(outputs), lists, reduce_options_of(scene));
  return {work, nullptr, [=] {
            for (size_t rank = 0; rank < pieces.size(); ++rank)
              expect_buffers(pieces[rank], divisions[rank], scene.mine(), starts[rank], "input_lists");
            const auto me = static_cast<size_t>(scene.me());
            expect_buffers(outputs, divisions[me], scene.reduced(), starts[me], "outputs");
          }};
}

// The tensors hold what goes to rank 0, then what goes to rank 1, and so on.
template <Divide divided>
Started start_reduce_scatter_tensor(const Scene& scene) {
  const Division division = divided(scene.trial.count);
  Buffers inputs;
  for (size_t index = 0; index < division.counts.size(); ++index)
    inputs.push_back(
        guarded(scene.trial.dtype, scene.mine(), division.starts[index] * scene.ranks(), division.counts[index] * scene.ranks()));
  const Buffers outputs = untouched(scene, division);
  WorkPtr work = distributed::reduce_scatter_tensor_coalesced(views(outputs), views(inputs), reduce_options_of(scene));
  return {work, nullptr, [=] {
            for (size_t index = 0; index < inputs.size(); ++index) {
              const int64_t first = division.starts[index] * scene.ranks();
              inputs[index]->expect(scene.mine(), first, "inputs");
              outputs[index]->expect(scene.reduced(), first + division.counts[index] * scene.me(),
                                     "output " + std::to_string(index));
              outputs[index]->expect_guards("output " + std::to_string(index));
            }
          }};
}

constexpr auto torch = Dialect::distributed;
constexpr auto gathers = Collective::all_gather;
constexpr auto scatters = Collective::reduce_scatter;

// clang-format off
constexpr Form forms[] = {
    // name                                          collective                rooted reduces lists async
    {"all_reduce_coalesced", torch, Collective::all_reduce, false, true, true, true, start_all_reduce<into_few>},
    {"all_reduce_coalesced of many", torch, Collective::all_reduce, false, true, true, true, start_all_reduce<into_many>},
    {"all_gather_coalesced", torch, gathers, false, false, true, true, start_all_gather<into_few, false>},
    {"all_gather_coalesced of uneven pieces", torch, gathers, false, false, true, true, start_all_gather<into_few, true>},
    {"all_gather_into_tensor_coalesced", torch, gathers, false, false, true, true, start_all_gather_into<into_few>},
    {"all_gather_into_tensor_coalesced of many", torch, gathers, false, false, true, true, start_all_gather_into<into_many>},
    {"reduce_scatter_coalesced", torch, scatters, false, true, true, true, start_reduce_scatter<into_few, false>},
    {"reduce_scatter_coalesced of uneven pieces", torch, scatters, false, true, true, true, start_reduce_scatter<into_few, true>},
    {"reduce_scatter_tensor_coalesced", torch, scatters, false, true, true, true, start_reduce_scatter_tensor<into_few>},
    {"reduce_scatter_tensor_coalesced of many", torch, scatters, false, true, true, true, start_reduce_scatter_tensor<into_many>},
};
// clang-format on

}  // namespace

std::span<const Form> coalesced_forms() { return forms; }

}  // namespace unisono::testing
