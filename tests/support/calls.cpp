// See calls.hpp.
#include "tests/support/calls.hpp"

#include <gtest/gtest.h>

#include "group/group.hpp"
#include "unisono/settings.hpp"

namespace unisono::testing {
namespace {

WorkPtr make_group_call(Group& group, Scratch& scratch, const CallChoice& choice) {
  const int ranks = group.size();
  bool all_pieces_in = choice.kind == Collective::all_to_all;
  TensorView input = scratch.tensor(choice.dtype, {choice.count * (all_pieces_in ? ranks : 1)});
  TensorView output = scratch.tensor(choice.dtype, {choice.count * ranks});
  Call call;
  call.kind = choice.kind;
  call.input = Pieces(input.data, input.bytes());
  call.output = Pieces(output.data, output.bytes());
  call.dtype = choice.dtype;
  call.count = choice.count;
  call.root = choice.root;
  call.timeout_s = choice.timeout_s;
  if (choice.async_op) return group.post(std::move(call), nullptr);
  throw_if_error(group.run(std::move(call)));
  return nullptr;
}

}  // namespace

std::string numbered(const std::string& text) {
  auto settings = settings_from(process_environment());
  if (!settings.ok()) return text;
  std::string result;
  for (size_t at = 0; at < text.size();) {
    size_t digits = 0;
    if (text[at] == '#') digits = text.find_first_not_of("0123456789", at + 1) - at - 1;
    result += text[at++];
    if (digits == 0) continue;
    const auto nth = static_cast<uint32_t>(std::stoul(text.substr(at, digits)));
    result += std::to_string(nth + static_cast<uint32_t>(settings->first_call) - 1);
    at += std::min(digits, text.size() - at);
  }
  return result;
}

WorkPtr make_call(const GroupHandle& group, Scratch& scratch, const CallChoice& choice) {
  using namespace distributed;
  const int ranks = group.group()->size();
  std::optional<double> timeout = choice.timeout_s > 0 ? std::optional(choice.timeout_s) : std::nullopt;
  auto tensor = [&](int64_t count) { return scratch.tensor(choice.dtype, Shape{count}); };
  const Options plain{group, choice.async_op, timeout};
  const ReduceOptions reducing{choice.op, group, choice.async_op, timeout};
  ScatterOptions rooted{.group = group, .async_op = choice.async_op, .timeout_s = timeout, .group_src = choice.root};
  switch (choice.kind) {
    case Collective::all_reduce: return all_reduce(tensor(choice.count), reducing);
    case Collective::all_gather: return all_gather_into_tensor(tensor(choice.count * ranks), tensor(choice.count), plain);
    case Collective::reduce_scatter: return reduce_scatter_tensor(tensor(choice.count), tensor(choice.count * ranks), reducing);
    case Collective::reduce:
      return reduce(tensor(choice.count), 0, {choice.op, group, choice.async_op, timeout, choice.root});
    case Collective::scatter: {
      std::vector<TensorView> list;
      for (int rank = 0; rank < ranks && group.group()->me() == choice.root; ++rank) list.push_back(tensor(choice.count));
      return scatter(tensor(choice.count), list, rooted);
    }
    case Collective::scan: return scan(tensor(choice.count), reducing);
    case Collective::exscan: return exscan(tensor(choice.count), reducing);
    case Collective::broadcast: return broadcast(tensor(choice.count), rooted);
    case Collective::barrier: return barrier(plain);
    case Collective::gather:
    case Collective::all_to_all: return make_group_call(*group.group(), scratch, choice);
  }
  return nullptr;
}

void expect_works(const TestWorld& world) { expect_works(world, world.group()); }

void expect_works(const TestWorld& world, const GroupHandle& group) {
  std::vector<int32_t> data = {1, world.rank(), 100};
  int32_t sum = 0, members = 0;
  for (int rank : group.group()->ranks()) {
    sum += rank;
    ++members;
  }
  distributed::all_reduce(view(data), {.op = ReduceOp::sum, .group = group, .async_op = false, .timeout_s = {}});
  EXPECT_EQ(data, (std::vector<int32_t>{members, sum, 100 * members})) << "on rank " << world.rank();
}

}  // namespace unisono::testing
