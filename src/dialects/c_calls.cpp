// The C header: what its collectives do. What differs from the torch.distributed dialect, an input beside the output
// and one buffer for all ranks, is made into a Request here; the rest is handed on.
#include "dialects/c_calls.hpp"

#include <fmt/core.h>

#include <array>

#include "base/check.hpp"
#include "dialects/distributed_parts.hpp"

namespace unisono::c {
namespace {

using Views = std::vector<TensorView>;

Views views_of(const Understood& understood, const void* const* list, const int64_t* counts, int length) {
  Views views;
  views.reserve(static_cast<size_t>(length));
  for (int index = 0; index < length; ++index) views.push_back(understood.view(list[index], counts[index]));
  return views;
}

// The same, of counts[i] elements for every rank.
Views views_for_all(const Understood& understood, const void* const* list, const int64_t* counts, int length) {
  Views views;
  views.reserve(static_cast<size_t>(length));
  for (int index = 0; index < length; ++index) views.push_back(understood.view_for_all(list[index], counts[index]));
  return views;
}

// One a rank, all equally long; none where there is no list, as on ranks that have nothing to give or to get.
Views views_of(const Understood& understood, const void* const* list, int64_t count) {
  Views views;
  for (int rank = 0; list && rank < understood.ranks(); ++rank) views.push_back(understood.view(list[rank], count));
  return views;
}

struct Argument {
  const char* name;
  const void* pointer;
};
template <size_t number>
auto check_given_all(const Argument (&arguments)[number]) {
  return [arguments = std::to_array(arguments)](const Understood&) -> Status {
    for (const Argument& argument : arguments) RETURN_IF_ERROR(check_given(argument.name, argument.pointer));
    return Status::success();
  };
}

// Of lists that have a length of their own; an empty one is for the dialect to refuse.
template <size_t number>
auto check_given_lists(int length, const Argument (&arguments)[number]) {
  return [length, arguments = std::to_array(arguments)](const Understood&) -> Status {
    if (length < 0) return wrong(fmt::format("tensor_count is {}; it is how many tensors there are", length));
    for (const Argument& argument : arguments)
      if (length > 0) RETURN_IF_ERROR(check_given(argument.name, argument.pointer));
    return Status::success();
  };
}

Status check_two(const char* one, const TensorView& output, const char* other, const TensorView& input) {
  return output.data == input.data && output.count() == input.count() ? Status::success()
                                                                      : check_apart(one, output, other, input);
}

// This rank's place in `whole`, where it is one that can be.
void* place_in(const Understood& understood, const TensorView& whole) {
  if (!whole.data || !check_tensor("output", whole).ok()) return nullptr;
  return pieces(whole).part(understood.me(), understood.ranks()).data;
}

Request reduce_data_request(const Understood& understood, Collective kind, const Buffers& buffers) {
  Request request = understood.request(kind, buffers.count);
  const TensorView input = understood.view(buffers.given(), buffers.count),
                   output = understood.view(buffers.output, buffers.count);
  request.checked = check_writable("output", output);
  if (request.checked.ok()) request.checked = check_two("output", output, "input", input);
  if (request.checked.ok()) request.checked = check_reducible(request.call, understood.group);
  if (request.checked.ok()) {
    request.call.input = pieces(input);
    request.call.output = pieces(output);
  }
  return request;
}

Request reduce_request(const Understood& understood, const Buffers& buffers, int group_dst) {
  Request request = understood.request(Collective::reduce, buffers.count);
  Call& call = request.call;
  call.shape = {buffers.count};
  call.compare_shapes = true;
  const TensorView input = understood.view(buffers.given(), buffers.count),
                   output = understood.view(buffers.output, buffers.count);
  auto check = [&]() -> Status {
    RETURN_IF_ERROR(distributed::find_root("dst", 0, group_dst, understood.group, call.root));
    const bool is_root = call.root == understood.me();
    RETURN_IF_ERROR(check_tensor("input", input));
    if (is_root) RETURN_IF_ERROR(check_writable("output", output));
    if (is_root) RETURN_IF_ERROR(check_two("output", output, "input", input));
    RETURN_IF_ERROR(check_reducible(call, understood.group));
    call.input = pieces(input);
    call.output = pieces(is_root ? output : input);  // which is written to on the root only
    return Status::success();
  };
  request.checked = check();
  return request;
}

Request scatter_tensor_request(const Understood& understood, const Buffers& buffers, int group_src) {
  Request request = understood.request(Collective::scatter, buffers.count);
  Call& call = request.call;
  const TensorView input = understood.view_for_all(buffers.input, buffers.count),
                   output = understood.view(buffers.output, buffers.count);
  auto check = [&]() -> Status {
    RETURN_IF_ERROR(distributed::find_root("src", 0, group_src, understood.group, call.root));
    RETURN_IF_ERROR(check_writable("output", output));
    call.output = pieces(output);
    if (call.root != understood.me()) return Status::success();
    RETURN_IF_ERROR(check_tensor("input", input));
    call.input = pieces(input);
    return output.data == place_in(understood, input) ? Status::success()
                                                      : check_apart("output", output, "input", input);
  };
  request.checked = check();
  return request;
}

Request gather_into_request(const Understood& understood, const Buffers& buffers, int group_dst) {
  Request request = understood.request(Collective::gather, buffers.count);
  Call& call = request.call;
  const TensorView input = understood.view(buffers.input, buffers.count),
                   output = understood.view_for_all(buffers.output, buffers.count);
  auto check = [&]() -> Status {
    RETURN_IF_ERROR(distributed::find_root("dst", 0, group_dst, understood.group, call.root));
    RETURN_IF_ERROR(check_tensor("input", input));
    call.input = pieces(input);
    if (call.root != understood.me()) return Status::success();
    RETURN_IF_ERROR(check_writable("output", output));
    call.output = pieces(output);
    return input.data == place_in(understood, output) ? Status::success()
                                                      : check_apart("output", output, "input", input);
  };
  request.checked = check();
  return request;
}

// The sum of all sizes; one that cannot be where it does not fit.
int64_t total(std::span<const int64_t> sizes) {
  int64_t sum = 0;
  for (int64_t size : sizes)
    if (__builtin_add_overflow(sum, size, &sum)) return -1;
  return sum;
}

}  // namespace

TensorView view_of(const void* data, int64_t count, DType dtype) {
  return {const_cast<void*>(data), dtype, Shape{count}};
}

// A count that does not fit becomes one that cannot be, which the checks find.
TensorView Understood::view_for_all(const void* data, int64_t count) const {
  int64_t all = 0;
  if (count < 0 || __builtin_mul_overflow(count, static_cast<int64_t>(ranks()), &all)) all = -1;
  return view(data, all);
}

Request Understood::request(Collective kind, int64_t count) const {
  Request request{.group = &group};
  request.call.kind = kind;
  set_call(request.call, view(nullptr, count), op);
  return request;
}

Status understand(const Given& given, Understood& understood) {
  if (given.dtype) RETURN_IF_ERROR(find_dtype(*given.dtype, understood.dtype));
  return given.op ? find_op(*given.op, understood.op) : Status::success();
}

Request refused(Group& group, Collective kind, const Status& why) {
  Request request{.group = &group};
  request.call.kind = kind;
  request.checked = why;
  return request;
}

void make(const Given& given, const GroupHandle& handle, Request&& request) {
  if (!given.outcome.work) {  // small calls are made so, where every instruction counts
    deliver(std::move(request), {false, call_timeout(), nullptr});
    return;
  }
  WorkPlace place(given.outcome.work, handle);
  place.fill(deliver(std::move(request), {true, call_timeout(), nullptr}));
}

void keep(const Given& given, const GroupHandle& handle, Request&& request) {
  need("prepared", given.outcome.prepared);
  auto kept = std::make_unique<unisono_prepared>();
  kept->membership = {handle, current_world(given.function)};
  if (request.group) kept->membership.handle = GroupHandle(request.group->shared_from_this());
  kept->call = prepare(std::move(request), call_timeout());
  *given.outcome.prepared = kept.release();
}

unisono_status reduce_data(const Given& given, const Buffers& buffers) noexcept {
  return collective(given,
                    [&](const Understood& understood) { return reduce_data_request(understood, given.kind, buffers); });
}

unisono_status all_reduce_coalesced(const Given& given, const Lists& lists) noexcept {
  const auto check = check_given_lists(lists.length, {{"tensors", lists.outputs}, {"counts", lists.counts}});
  return collective(given, check, [&](const Understood& understood) {
    return distributed::all_reduce_coalesced_request(views_of(understood, lists.outputs, lists.counts, lists.length),
                                                     understood.reduce_options());
  });
}

unisono_status all_gather_coalesced(const Given& given, const Lists& lists) noexcept {
  const auto check = check_given_lists(lists.length, {{"outputs", lists.outputs}, {"counts", lists.counts}});
  return collective(given, check, [&](const Understood& understood) {
    const Views outputs = views_for_all(understood, lists.outputs, lists.counts, lists.length);
    Views inputs;
    for (int index = 0; index < lists.length; ++index) {
      const void* input =
          lists.inputs ? lists.inputs[index] : place_in(understood, outputs[static_cast<size_t>(index)]);
      inputs.push_back(understood.view(input, lists.counts[index]));
    }
    return distributed::all_gather_into_coalesced_request(outputs, inputs, understood.options());
  });
}

unisono_status reduce_scatter_coalesced(const Given& given, const Lists& lists) noexcept {
  const auto check =
      check_given_lists(lists.length, {{"inputs", lists.inputs}, {"outputs", lists.outputs}, {"counts", lists.counts}});
  return collective(given, check, [&](const Understood& understood) {
    return distributed::reduce_scatter_into_coalesced_request(
        views_of(understood, lists.outputs, lists.counts, lists.length),
        views_for_all(understood, lists.inputs, lists.counts, lists.length), understood.reduce_options());
  });
}

unisono_status reduce(const Given& given, const Buffers& buffers, int group_dst) noexcept {
  return collective(given,
                    [&](const Understood& understood) { return reduce_request(understood, buffers, group_dst); });
}

unisono_status broadcast(const Given& given, void* tensor, int64_t count, int group_src) noexcept {
  return collective(given, [&](const Understood& understood) {
    return distributed::broadcast_request(understood.view(tensor, count),
                                          {.group = understood.handle, .group_src = group_src});
  });
}

unisono_status all_gather_into_tensor(const Given& given, const Buffers& buffers) noexcept {
  return collective(given, [&](const Understood& understood) {
    const TensorView whole = understood.view_for_all(buffers.output, buffers.count);
    const void* mine = buffers.input ? buffers.input : place_in(understood, whole);
    return distributed::all_gather_into_request(whole, understood.view(mine, buffers.count), understood.options());
  });
}

unisono_status all_gather(const Given& given, const void* tensor, const Lists& lists) noexcept {
  const auto check = check_given_all({{"tensor_list", lists.outputs}, {"counts", lists.counts}});
  return collective(given, check, [&](const Understood& understood) {
    return distributed::all_gather_request(views_of(understood, lists.outputs, lists.counts, understood.ranks()),
                                           understood.view(tensor, lists.counts[understood.me()]),
                                           understood.options());
  });
}

unisono_status reduce_scatter_tensor(const Given& given, const Buffers& buffers) noexcept {
  return collective(given, [&](const Understood& understood) {
    return distributed::reduce_scatter_tensor_request(understood.view(buffers.output, buffers.count),
                                                      understood.view_for_all(buffers.input, buffers.count),
                                                      understood.reduce_options());
  });
}

unisono_status reduce_scatter(const Given& given, const Lists& lists, void* output) noexcept {
  const auto check = check_given_all({{"input_list", lists.inputs}, {"counts", lists.counts}});
  return collective(given, check, [&](const Understood& understood) {
    return distributed::reduce_scatter_request(understood.view(output, lists.counts[understood.me()]),
                                               views_of(understood, lists.inputs, lists.counts, understood.ranks()),
                                               understood.reduce_options());
  });
}

unisono_status scatter_tensor(const Given& given, const Buffers& buffers, int group_src) noexcept {
  return collective(
      given, [&](const Understood& understood) { return scatter_tensor_request(understood, buffers, group_src); });
}

unisono_status scatter(const Given& given, const void* const* list, const Buffers& buffers, int group_src) noexcept {
  return collective(given, [&](const Understood& understood) {
    return distributed::scatter_request(understood.view(buffers.output, buffers.count),
                                        views_of(understood, list, buffers.count),
                                        {.group = understood.handle, .group_src = group_src});
  });
}

unisono_status gather_into_tensor(const Given& given, const Buffers& buffers, int group_dst) noexcept {
  return collective(given,
                    [&](const Understood& understood) { return gather_into_request(understood, buffers, group_dst); });
}

unisono_status gather(const Given& given, void* const* list, const Buffers& buffers, int group_dst) noexcept {
  return collective(given, [&](const Understood& understood) {
    return distributed::gather_request(understood.view(buffers.input, buffers.count),
                                       views_of(understood, list, buffers.count),
                                       {.group = understood.handle, .group_dst = group_dst});
  });
}

unisono_status all_to_all_single(const Given& given, const Buffers& buffers) noexcept {
  return collective(given, [&](const Understood& understood) {
    return distributed::all_to_all_single_request(understood.view_for_all(buffers.output, buffers.count),
                                                  understood.view_for_all(buffers.input, buffers.count),
                                                  {.group = understood.handle});
  });
}

unisono_status all_to_all_single_split(const Given& given, const SplitBuffers& buffers) noexcept {
  const auto check =
      check_given_all({{"input_split_sizes", buffers.input_sizes}, {"output_split_sizes", buffers.output_sizes}});
  return collective(given, check, [&](const Understood& understood) {
    const std::vector<int64_t> sent(buffers.input_sizes, buffers.input_sizes + understood.ranks());
    const std::vector<int64_t> received(buffers.output_sizes, buffers.output_sizes + understood.ranks());
    return distributed::all_to_all_single_request(
        understood.view(buffers.output, total(received)), understood.view(buffers.input, total(sent)),
        {.output_split_sizes = received, .input_split_sizes = sent, .group = understood.handle});
  });
}

unisono_status all_to_all(const Given& given, const SplitLists& lists) noexcept {
  const auto check = check_given_all({{"input_list", lists.inputs},
                                      {"input_counts", lists.input_counts},
                                      {"output_list", lists.outputs},
                                      {"output_counts", lists.output_counts}});
  return collective(given, check, [&](const Understood& understood) {
    return distributed::all_to_all_request(views_of(understood, lists.outputs, lists.output_counts, understood.ranks()),
                                           views_of(understood, lists.inputs, lists.input_counts, understood.ranks()),
                                           understood.options());
  });
}

unisono_status barrier(const Given& given) noexcept {
  return collective(given,
                    [&](const Understood& understood) { return distributed::barrier_request(understood.options()); });
}

}  // namespace unisono::c
