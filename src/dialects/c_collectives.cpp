// The C header: collectives and letters. What differs from the torch.distributed dialect, an input beside the output
// and one buffer for all ranks, is made into a Call here; the rest is handed on.
#include <fmt/core.h>

#include <array>

#include "base/check.hpp"
#include "dialects/c_parts.hpp"
#include "dialects/distributed_parts.hpp"

namespace unisono::c {

TensorView view_of(const void* data, int64_t count, DType dtype) { return {const_cast<void*>(data), dtype, Shape{count}}; }

// A count that does not fit becomes one that cannot be, which the checks find.
TensorView Understood::view_for_all(const void* data, int64_t count) const {
  int64_t all = 0;
  if (count < 0 || __builtin_mul_overflow(count, static_cast<int64_t>(ranks()), &all)) all = -1;
  return view(data, all);
}

Call Understood::call(Collective kind, int64_t count) const {
  Call call;
  distributed::set_call(call, kind, view(nullptr, count), op);
  return call;
}

Status understand(const Given& given, Understood& understood) {
  if (given.dtype) RETURN_IF_ERROR(find_dtype(*given.dtype, understood.dtype));
  return given.op ? find_op(*given.op, understood.op) : Status::success();
}

namespace {

using Views = std::vector<TensorView>;

Views views_of(const Understood& understood, const void* const* list, const int64_t* counts, int length) {
  Views views;
  views.reserve(static_cast<size_t>(length));
  for (int index = 0; index < length; ++index) views.push_back(understood.view(list[index], counts[index]));
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

Status check_two(const char* one, const TensorView& output, const char* other, const TensorView& input) {
  return output.data == input.data && output.count() == input.count() ? Status::success()
                                                                      : check_apart(one, output, other, input);
}

struct Buffers {
  const void* input;
  void* output;
  int64_t count;

  const void* given() const { return input ? input : output; }
};

// all_reduce and the scans.
unisono_status reduce_data(const Given& given, const Buffers& buffers) noexcept {
  return collective(given, [&](const Understood& understood) {
    const TensorView input = understood.view(buffers.given(), buffers.count),
                     output = understood.view(buffers.output, buffers.count);
    Call call = understood.call(given.kind, buffers.count);
    Status checked = check_writable("output", output);
    if (checked.ok()) checked = check_two("output", output, "input", input);
    if (checked.ok()) checked = check_reducible(call, understood.group);
    if (checked.ok()) {
      call.input = pieces(input);
      call.output = pieces(output);
    }
    return understood.deliver(std::move(call), checked);
  });
}

WorkPtr reduce_to(const Understood& understood, const Buffers& buffers, int group_dst) {
  Call call = understood.call(Collective::reduce, buffers.count);
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
  const Status checked = check();
  return understood.deliver(std::move(call), checked);
}

WorkPtr scatter_from(const Understood& understood, const Buffers& buffers, int group_src) {
  Call call = understood.call(Collective::scatter, buffers.count);
  const TensorView input = understood.view_for_all(buffers.input, buffers.count),
                   output = understood.view(buffers.output, buffers.count);
  auto check = [&]() -> Status {
    RETURN_IF_ERROR(distributed::find_root("src", 0, group_src, understood.group, call.root));
    RETURN_IF_ERROR(check_writable("output", output));
    call.output = pieces(output);
    if (call.root != understood.me()) return Status::success();
    RETURN_IF_ERROR(check_tensor("input", input));
    call.input = pieces(input);
    const bool is_in_place = output.data == call.input.part(understood.me(), understood.ranks()).data;
    return is_in_place ? Status::success() : check_apart("output", output, "input", input);
  };
  const Status checked = check();
  return understood.deliver(std::move(call), checked);
}

WorkPtr gather_to(const Understood& understood, const Buffers& buffers, int group_dst) {
  Call call = understood.call(Collective::gather, buffers.count);
  const TensorView input = understood.view(buffers.input, buffers.count),
                   output = understood.view_for_all(buffers.output, buffers.count);
  auto check = [&]() -> Status {
    RETURN_IF_ERROR(distributed::find_root("dst", 0, group_dst, understood.group, call.root));
    RETURN_IF_ERROR(check_tensor("input", input));
    call.input = pieces(input);
    if (call.root != understood.me()) return Status::success();
    RETURN_IF_ERROR(check_writable("output", output));
    call.output = pieces(output);
    const bool is_in_place = input.data == call.output.part(understood.me(), understood.ranks()).data;
    return is_in_place ? Status::success() : check_apart("output", output, "input", input);
  };
  const Status checked = check();
  return understood.deliver(std::move(call), checked);
}

// The sum of all sizes; one that cannot be where it does not fit.
int64_t total(std::span<const int64_t> sizes) {
  int64_t sum = 0;
  for (int64_t size : sizes)
    if (__builtin_add_overflow(sum, size, &sum)) return -1;
  return sum;
}

}  // namespace
}  // namespace unisono::c

namespace c = unisono::c;
namespace distributed = unisono::distributed;
using c::Understood;
using unisono::Collective;

unisono_status unisono_all_reduce(const void* input, void* output, int64_t count, unisono_dtype dtype, unisono_op op,
                                  const unisono_group* group, unisono_work** work) {
  return c::reduce_data({"unisono_all_reduce", Collective::all_reduce, group, work, dtype, op}, {input, output, count});
}

unisono_status unisono_scan(const void* input, void* output, int64_t count, unisono_dtype dtype, unisono_op op,
                            const unisono_group* group, unisono_work** work) {
  return c::reduce_data({"unisono_scan", Collective::scan, group, work, dtype, op}, {input, output, count});
}

unisono_status unisono_exscan(const void* input, void* output, int64_t count, unisono_dtype dtype, unisono_op op,
                              const unisono_group* group, unisono_work** work) {
  return c::reduce_data({"unisono_exscan", Collective::exscan, group, work, dtype, op}, {input, output, count});
}

unisono_status unisono_all_reduce_coalesced(void* const* tensors, const int64_t* counts, int tensor_count, unisono_dtype dtype,
                                            unisono_op op, const unisono_group* group, unisono_work** work) {
  auto check = [&](const Understood&) -> unisono::Status {
    if (tensor_count < 0)
      return {unisono::ErrorCode::argument, fmt::format("tensor_count is {}; it is how many tensors there are", tensor_count)};
    auto checked = tensor_count > 0 ? c::check_given("tensors", tensors) : unisono::Status::success();
    return checked.ok() && tensor_count > 0 ? c::check_given("counts", counts) : checked;
  };
  return c::collective({"unisono_all_reduce_coalesced", Collective::all_reduce, group, work, dtype, op}, check,
                       [&](const Understood& understood) {
                         return distributed::all_reduce_coalesced(c::views_of(understood, tensors, counts, tensor_count),
                                                                  understood.reduce_options());
                       });
}

unisono_status unisono_reduce(const void* input, void* output, int64_t count, unisono_dtype dtype, unisono_op op, int group_dst,
                              const unisono_group* group, unisono_work** work) {
  return c::collective({"unisono_reduce", Collective::reduce, group, work, dtype, op}, [&](const Understood& understood) {
    return c::reduce_to(understood, {input, output, count}, group_dst);
  });
}

unisono_status unisono_broadcast(void* tensor, int64_t count, unisono_dtype dtype, int group_src, const unisono_group* group,
                                 unisono_work** work) {
  return c::collective({"unisono_broadcast", Collective::broadcast, group, work, dtype}, [&](const Understood& understood) {
    return distributed::broadcast(
        understood.view(tensor, count),
        {.group = understood.handle, .async_op = understood.async_op, .timeout_s = {}, .group_src = group_src});
  });
}

unisono_status unisono_all_gather_into_tensor(const void* input, void* output, int64_t count, unisono_dtype dtype,
                                              const unisono_group* group, unisono_work** work) {
  return c::collective({"unisono_all_gather_into_tensor", Collective::all_gather, group, work, dtype},
                       [&](const Understood& understood) {
                         const unisono::TensorView whole = understood.view_for_all(output, count);
                         unisono::TensorView mine = understood.view(input, count);
                         if (!input && output && unisono::check_tensor("output", whole).ok())
                           mine.data = unisono::pieces(whole).part(understood.me(), understood.ranks()).data;
                         return distributed::all_gather_into_tensor(whole, mine, understood.options());
                       });
}

unisono_status unisono_all_gather(const void* tensor, void* const* tensor_list, const int64_t* counts, unisono_dtype dtype,
                                  const unisono_group* group, unisono_work** work) {
  const auto check = c::check_given_all({{"tensor_list", tensor_list}, {"counts", counts}});
  return c::collective({"unisono_all_gather", Collective::all_gather, group, work, dtype}, check,
                       [&](const Understood& understood) {
                         return distributed::all_gather(c::views_of(understood, tensor_list, counts, understood.ranks()),
                                                        understood.view(tensor, counts[understood.me()]), understood.options());
                       });
}

unisono_status unisono_reduce_scatter_tensor(const void* input, void* output, int64_t count, unisono_dtype dtype, unisono_op op,
                                             const unisono_group* group, unisono_work** work) {
  return c::collective({"unisono_reduce_scatter_tensor", Collective::reduce_scatter, group, work, dtype, op},
                       [&](const Understood& understood) {
                         return distributed::reduce_scatter_tensor(
                             understood.view(output, count), understood.view_for_all(input, count), understood.reduce_options());
                       });
}

unisono_status unisono_reduce_scatter(const void* const* input_list, void* output, const int64_t* counts, unisono_dtype dtype,
                                      unisono_op op, const unisono_group* group, unisono_work** work) {
  const auto check = c::check_given_all({{"input_list", input_list}, {"counts", counts}});
  return c::collective({"unisono_reduce_scatter", Collective::reduce_scatter, group, work, dtype, op}, check,
                       [&](const Understood& understood) {
                         return distributed::reduce_scatter(understood.view(output, counts[understood.me()]),
                                                            c::views_of(understood, input_list, counts, understood.ranks()),
                                                            understood.reduce_options());
                       });
}

unisono_status unisono_scatter_tensor(const void* input, void* output, int64_t count, unisono_dtype dtype, int group_src,
                                      const unisono_group* group, unisono_work** work) {
  return c::collective({"unisono_scatter_tensor", Collective::scatter, group, work, dtype}, [&](const Understood& understood) {
    return c::scatter_from(understood, {input, output, count}, group_src);
  });
}

unisono_status unisono_scatter(const void* const* scatter_list, void* tensor, int64_t count, unisono_dtype dtype, int group_src,
                               const unisono_group* group, unisono_work** work) {
  return c::collective({"unisono_scatter", Collective::scatter, group, work, dtype}, [&](const Understood& understood) {
    return distributed::scatter(
        understood.view(tensor, count), c::views_of(understood, scatter_list, count),
        {.group = understood.handle, .async_op = understood.async_op, .timeout_s = {}, .group_src = group_src});
  });
}

unisono_status unisono_gather_into_tensor(const void* input, void* output, int64_t count, unisono_dtype dtype, int group_dst,
                                          const unisono_group* group, unisono_work** work) {
  return c::collective({"unisono_gather_into_tensor", Collective::gather, group, work, dtype}, [&](const Understood& understood) {
    return c::gather_to(understood, {input, output, count}, group_dst);
  });
}

unisono_status unisono_gather(const void* tensor, void* const* gather_list, int64_t count, unisono_dtype dtype, int group_dst,
                              const unisono_group* group, unisono_work** work) {
  return c::collective({"unisono_gather", Collective::gather, group, work, dtype}, [&](const Understood& understood) {
    return distributed::gather(
        understood.view(tensor, count), c::views_of(understood, gather_list, count),
        {.group = understood.handle, .async_op = understood.async_op, .timeout_s = {}, .group_dst = group_dst});
  });
}

unisono_status unisono_all_to_all_single(const void* input, void* output, int64_t count, unisono_dtype dtype,
                                         const unisono_group* group, unisono_work** work) {
  return c::collective(
      {"unisono_all_to_all_single", Collective::all_to_all, group, work, dtype}, [&](const Understood& understood) {
        return distributed::all_to_all_single(understood.view_for_all(output, count), understood.view_for_all(input, count),
                                              {.group = understood.handle, .async_op = understood.async_op, .timeout_s = {}});
      });
}

unisono_status unisono_all_to_all_single_split(const void* input, const int64_t* input_split_sizes, void* output,
                                               const int64_t* output_split_sizes, unisono_dtype dtype, const unisono_group* group,
                                               unisono_work** work) {
  const auto check = c::check_given_all({{"input_split_sizes", input_split_sizes}, {"output_split_sizes", output_split_sizes}});
  return c::collective(
      {"unisono_all_to_all_single_split", Collective::all_to_all, group, work, dtype}, check, [&](const Understood& understood) {
        const std::vector<int64_t> sent(input_split_sizes, input_split_sizes + understood.ranks());
        const std::vector<int64_t> received(output_split_sizes, output_split_sizes + understood.ranks());
        return distributed::all_to_all_single(understood.view(output, c::total(received)), understood.view(input, c::total(sent)),
                                              {.output_split_sizes = received,
                                               .input_split_sizes = sent,
                                               .group = understood.handle,
                                               .async_op = understood.async_op,
                                               .timeout_s = {}});
      });
}

unisono_status unisono_all_to_all(const void* const* input_list, const int64_t* input_counts, void* const* output_list,
                                  const int64_t* output_counts, unisono_dtype dtype, const unisono_group* group,
                                  unisono_work** work) {
  const auto check = c::check_given_all({{"input_list", input_list},
                                         {"input_counts", input_counts},
                                         {"output_list", output_list},
                                         {"output_counts", output_counts}});
  return c::collective({"unisono_all_to_all", Collective::all_to_all, group, work, dtype}, check,
                       [&](const Understood& understood) {
                         return distributed::all_to_all(c::views_of(understood, output_list, output_counts, understood.ranks()),
                                                        c::views_of(understood, input_list, input_counts, understood.ranks()),
                                                        understood.options());
                       });
}

unisono_status unisono_barrier(const unisono_group* group, unisono_work** work) {
  return c::collective({"unisono_barrier", Collective::barrier, group, work},
                       [&](const Understood& understood) { return distributed::barrier(understood.options()); });
}

unisono_status unisono_monitored_barrier(const unisono_group* group, double timeout_s) {
  return c::guarded([&] {
    const unisono::GroupHandle handle = c::handle_of(group);
    if (unisono::group_of(handle, "unisono_monitored_barrier"))
      distributed::monitored_barrier({.group = handle, .timeout_s = c::timeout_of(timeout_s)});
  });
}

unisono_status unisono_send(const void* tensor, int64_t count, unisono_dtype dtype, int group_peer, int tag,
                            const unisono_group* group, unisono_work** work) {
  return c::guarded([&] {
    const unisono::GroupHandle handle = c::handle_of(group);
    c::WorkPlace place(work, handle);
    unisono::WorkPtr posted;
    if (unisono::group_of(handle, "unisono_send")) {
      unisono::DType known = unisono::DType::uint8;
      throw_if_error(c::find_dtype(dtype, known));
      const distributed::LetterOptions options{.group = handle, .tag = tag, .timeout_s = {}, .group_peer = group_peer};
      if (work)
        posted = distributed::isend(c::view_of(tensor, count, known), 0, options);
      else
        distributed::send(c::view_of(tensor, count, known), 0, options);
    }
    place.fill(std::move(posted));
  });
}

unisono_status unisono_recv(void* tensor, int64_t count, unisono_dtype dtype, int group_peer, int tag, int* source,
                            const unisono_group* group, unisono_work** work) {
  return c::guarded([&] {
    const unisono::GroupHandle handle = c::handle_of(group);
    c::WorkPlace place(work, handle);
    if (source) *source = -1;
    unisono::WorkPtr posted;
    if (unisono::Group* found = unisono::group_of(handle, "unisono_recv")) {
      unisono::DType known = unisono::DType::uint8;
      throw_if_error(c::find_dtype(dtype, known));
      distributed::LetterOptions options{.group = handle, .tag = tag, .timeout_s = {}, .group_peer = {}};
      if (group_peer != UNISONO_ANY_SOURCE) options.group_peer = group_peer;
      if (work) {
        posted = distributed::irecv(c::view_of(tensor, count, known), {}, options);
      } else {
        const int sender = distributed::recv(c::view_of(tensor, count, known), {}, options);
        if (source) *source = found->index_of(sender);
      }
    }
    place.fill(std::move(posted));
  });
}
