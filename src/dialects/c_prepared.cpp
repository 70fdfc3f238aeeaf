// The C header: prepared calls. What they do: c_calls.cpp, and unisono/persistent.hpp.
#include "dialects/c_calls.hpp"

namespace unisono::c {
namespace {

// The call of a handle whose world was not left; made outside the group, it does nothing.
Prepared& call_of(unisono_prepared* prepared, const char* function) {
  need("prepared", prepared);
  group_of(prepared->membership, function);
  return prepared->call;
}

}  // namespace
}  // namespace unisono::c

namespace c = unisono::c;
using unisono::Collective;

unisono_status unisono_prepare_all_reduce(const void* input, void* output, int64_t count, unisono_dtype dtype,
                                          unisono_op op, const unisono_group* group, unisono_prepared** prepared) {
  return c::reduce_data({"unisono_prepare_all_reduce", Collective::all_reduce, group, prepared, dtype, op},
                        {input, output, count});
}

unisono_status unisono_prepare_scan(const void* input, void* output, int64_t count, unisono_dtype dtype, unisono_op op,
                                    const unisono_group* group, unisono_prepared** prepared) {
  return c::reduce_data({"unisono_prepare_scan", Collective::scan, group, prepared, dtype, op}, {input, output, count});
}

unisono_status unisono_prepare_exscan(const void* input, void* output, int64_t count, unisono_dtype dtype,
                                      unisono_op op, const unisono_group* group, unisono_prepared** prepared) {
  return c::reduce_data({"unisono_prepare_exscan", Collective::exscan, group, prepared, dtype, op},
                        {input, output, count});
}

unisono_status unisono_prepare_all_reduce_coalesced(void* const* tensors, const int64_t* counts, int tensor_count,
                                                    unisono_dtype dtype, unisono_op op, const unisono_group* group,
                                                    unisono_prepared** prepared) {
  return c::all_reduce_coalesced(
      {"unisono_prepare_all_reduce_coalesced", Collective::all_reduce, group, prepared, dtype, op},
      {nullptr, tensors, counts, tensor_count});
}

unisono_status unisono_prepare_all_gather_into_tensor_coalesced(const void* const* inputs, void* const* outputs,
                                                                const int64_t* counts, int tensor_count,
                                                                unisono_dtype dtype, const unisono_group* group,
                                                                unisono_prepared** prepared) {
  return c::all_gather_coalesced(
      {"unisono_prepare_all_gather_into_tensor_coalesced", Collective::all_gather, group, prepared, dtype},
      {inputs, outputs, counts, tensor_count});
}

unisono_status unisono_prepare_reduce_scatter_tensor_coalesced(const void* const* inputs, void* const* outputs,
                                                               const int64_t* counts, int tensor_count,
                                                               unisono_dtype dtype, unisono_op op,
                                                               const unisono_group* group,
                                                               unisono_prepared** prepared) {
  return c::reduce_scatter_coalesced(
      {"unisono_prepare_reduce_scatter_tensor_coalesced", Collective::reduce_scatter, group, prepared, dtype, op},
      {inputs, outputs, counts, tensor_count});
}

unisono_status unisono_prepare_reduce(const void* input, void* output, int64_t count, unisono_dtype dtype,
                                      unisono_op op, int group_dst, const unisono_group* group,
                                      unisono_prepared** prepared) {
  return c::reduce({"unisono_prepare_reduce", Collective::reduce, group, prepared, dtype, op}, {input, output, count},
                   group_dst);
}

unisono_status unisono_prepare_broadcast(void* tensor, int64_t count, unisono_dtype dtype, int group_src,
                                         const unisono_group* group, unisono_prepared** prepared) {
  return c::broadcast({"unisono_prepare_broadcast", Collective::broadcast, group, prepared, dtype}, tensor, count,
                      group_src);
}

unisono_status unisono_prepare_all_gather_into_tensor(const void* input, void* output, int64_t count,
                                                      unisono_dtype dtype, const unisono_group* group,
                                                      unisono_prepared** prepared) {
  return c::all_gather_into_tensor(
      {"unisono_prepare_all_gather_into_tensor", Collective::all_gather, group, prepared, dtype},
      {input, output, count});
}

unisono_status unisono_prepare_all_gather(const void* tensor, void* const* tensor_list, const int64_t* counts,
                                          unisono_dtype dtype, const unisono_group* group,
                                          unisono_prepared** prepared) {
  return c::all_gather({"unisono_prepare_all_gather", Collective::all_gather, group, prepared, dtype}, tensor,
                       {nullptr, tensor_list, counts});
}

unisono_status unisono_prepare_reduce_scatter_tensor(const void* input, void* output, int64_t count,
                                                     unisono_dtype dtype, unisono_op op, const unisono_group* group,
                                                     unisono_prepared** prepared) {
  return c::reduce_scatter_tensor(
      {"unisono_prepare_reduce_scatter_tensor", Collective::reduce_scatter, group, prepared, dtype, op},
      {input, output, count});
}

unisono_status unisono_prepare_reduce_scatter(const void* const* input_list, void* output, const int64_t* counts,
                                              unisono_dtype dtype, unisono_op op, const unisono_group* group,
                                              unisono_prepared** prepared) {
  return c::reduce_scatter({"unisono_prepare_reduce_scatter", Collective::reduce_scatter, group, prepared, dtype, op},
                           {input_list, nullptr, counts}, output);
}

unisono_status unisono_prepare_scatter_tensor(const void* input, void* output, int64_t count, unisono_dtype dtype,
                                              int group_src, const unisono_group* group, unisono_prepared** prepared) {
  return c::scatter_tensor({"unisono_prepare_scatter_tensor", Collective::scatter, group, prepared, dtype},
                           {input, output, count}, group_src);
}

unisono_status unisono_prepare_scatter(const void* const* scatter_list, void* tensor, int64_t count,
                                       unisono_dtype dtype, int group_src, const unisono_group* group,
                                       unisono_prepared** prepared) {
  return c::scatter({"unisono_prepare_scatter", Collective::scatter, group, prepared, dtype}, scatter_list,
                    {nullptr, tensor, count}, group_src);
}

unisono_status unisono_prepare_gather_into_tensor(const void* input, void* output, int64_t count, unisono_dtype dtype,
                                                  int group_dst, const unisono_group* group,
                                                  unisono_prepared** prepared) {
  return c::gather_into_tensor({"unisono_prepare_gather_into_tensor", Collective::gather, group, prepared, dtype},
                               {input, output, count}, group_dst);
}

unisono_status unisono_prepare_gather(const void* tensor, void* const* gather_list, int64_t count, unisono_dtype dtype,
                                      int group_dst, const unisono_group* group, unisono_prepared** prepared) {
  return c::gather({"unisono_prepare_gather", Collective::gather, group, prepared, dtype}, gather_list,
                   {tensor, nullptr, count}, group_dst);
}

unisono_status unisono_prepare_all_to_all_single(const void* input, void* output, int64_t count, unisono_dtype dtype,
                                                 const unisono_group* group, unisono_prepared** prepared) {
  return c::all_to_all_single({"unisono_prepare_all_to_all_single", Collective::all_to_all, group, prepared, dtype},
                              {input, output, count});
}

unisono_status unisono_prepare_all_to_all_single_split(const void* input, const int64_t* input_split_sizes,
                                                       void* output, const int64_t* output_split_sizes,
                                                       unisono_dtype dtype, const unisono_group* group,
                                                       unisono_prepared** prepared) {
  return c::all_to_all_single_split(
      {"unisono_prepare_all_to_all_single_split", Collective::all_to_all, group, prepared, dtype},
      {input, input_split_sizes, output, output_split_sizes});
}

unisono_status unisono_prepare_all_to_all(const void* const* input_list, const int64_t* input_counts,
                                          void* const* output_list, const int64_t* output_counts, unisono_dtype dtype,
                                          const unisono_group* group, unisono_prepared** prepared) {
  return c::all_to_all({"unisono_prepare_all_to_all", Collective::all_to_all, group, prepared, dtype},
                       {input_list, input_counts, output_list, output_counts});
}

unisono_status unisono_prepare_barrier(const unisono_group* group, unisono_prepared** prepared) {
  return c::barrier({"unisono_prepare_barrier", Collective::barrier, group, prepared});
}

unisono_status unisono_prepared_start(unisono_prepared* prepared) {
  return c::guarded([&] { c::call_of(prepared, "unisono_prepared_start").start(); });
}

unisono_status unisono_prepared_wait(unisono_prepared* prepared, double timeout_s) {
  return c::guarded([&] {
    c::need("prepared", prepared);
    const std::optional<double> timeout = c::timeout_of(timeout_s);
    // What was started has an end of its own to tell of, also when its world was left meanwhile.
    if (!prepared->call.is_started()) c::group_of(prepared->membership, "unisono_prepared_wait");
    prepared->call.wait(timeout);
  });
}

unisono_status unisono_prepared_test(const unisono_prepared* prepared, int* is_over) {
  return c::guarded([&] {
    c::need("prepared", prepared);
    c::need("is_over", is_over);
    *is_over = prepared->call.is_completed() ? 1 : 0;
  });
}

unisono_status unisono_prepared_run(unisono_prepared* prepared) {
  return c::guarded([&] { c::call_of(prepared, "unisono_prepared_run").run(); });
}

void unisono_prepared_free(unisono_prepared* prepared) { const std::unique_ptr<unisono_prepared> owned(prepared); }
