// The C header: collectives. What they do: c_calls.cpp.
#include "dialects/c_calls.hpp"

namespace c = unisono::c;
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

unisono_status unisono_all_reduce_coalesced(void* const* tensors, const int64_t* counts, int tensor_count,
                                            unisono_dtype dtype, unisono_op op, const unisono_group* group,
                                            unisono_work** work) {
  return c::all_reduce_coalesced({"unisono_all_reduce_coalesced", Collective::all_reduce, group, work, dtype, op},
                                 {nullptr, tensors, counts, tensor_count});
}

unisono_status unisono_all_gather_into_tensor_coalesced(const void* const* inputs, void* const* outputs,
                                                        const int64_t* counts, int tensor_count, unisono_dtype dtype,
                                                        const unisono_group* group, unisono_work** work) {
  return c::all_gather_coalesced(
      {"unisono_all_gather_into_tensor_coalesced", Collective::all_gather, group, work, dtype},
      {inputs, outputs, counts, tensor_count});
}

unisono_status unisono_reduce_scatter_tensor_coalesced(const void* const* inputs, void* const* outputs,
                                                       const int64_t* counts, int tensor_count, unisono_dtype dtype,
                                                       unisono_op op, const unisono_group* group, unisono_work** work) {
  return c::reduce_scatter_coalesced(
      {"unisono_reduce_scatter_tensor_coalesced", Collective::reduce_scatter, group, work, dtype, op},
      {inputs, outputs, counts, tensor_count});
}

unisono_status unisono_reduce(const void* input, void* output, int64_t count, unisono_dtype dtype, unisono_op op,
                              int group_dst, const unisono_group* group, unisono_work** work) {
  return c::reduce({"unisono_reduce", Collective::reduce, group, work, dtype, op}, {input, output, count}, group_dst);
}

unisono_status unisono_broadcast(void* tensor, int64_t count, unisono_dtype dtype, int group_src,
                                 const unisono_group* group, unisono_work** work) {
  return c::broadcast({"unisono_broadcast", Collective::broadcast, group, work, dtype}, tensor, count, group_src);
}

unisono_status unisono_all_gather_into_tensor(const void* input, void* output, int64_t count, unisono_dtype dtype,
                                              const unisono_group* group, unisono_work** work) {
  return c::all_gather_into_tensor({"unisono_all_gather_into_tensor", Collective::all_gather, group, work, dtype},
                                   {input, output, count});
}

unisono_status unisono_all_gather(const void* tensor, void* const* tensor_list, const int64_t* counts,
                                  unisono_dtype dtype, const unisono_group* group, unisono_work** work) {
  return c::all_gather({"unisono_all_gather", Collective::all_gather, group, work, dtype}, tensor,
                       {nullptr, tensor_list, counts});
}

unisono_status unisono_reduce_scatter_tensor(const void* input, void* output, int64_t count, unisono_dtype dtype,
                                             unisono_op op, const unisono_group* group, unisono_work** work) {
  return c::reduce_scatter_tensor({"unisono_reduce_scatter_tensor", Collective::reduce_scatter, group, work, dtype, op},
                                  {input, output, count});
}

unisono_status unisono_reduce_scatter(const void* const* input_list, void* output, const int64_t* counts,
                                      unisono_dtype dtype, unisono_op op, const unisono_group* group,
                                      unisono_work** work) {
  return c::reduce_scatter({"unisono_reduce_scatter", Collective::reduce_scatter, group, work, dtype, op},
                           {input_list, nullptr, counts}, output);
}

unisono_status unisono_scatter_tensor(const void* input, void* output, int64_t count, unisono_dtype dtype,
                                      int group_src, const unisono_group* group, unisono_work** work) {
  return c::scatter_tensor({"unisono_scatter_tensor", Collective::scatter, group, work, dtype}, {input, output, count},
                           group_src);
}

unisono_status unisono_scatter(const void* const* scatter_list, void* tensor, int64_t count, unisono_dtype dtype,
                               int group_src, const unisono_group* group, unisono_work** work) {
  return c::scatter({"unisono_scatter", Collective::scatter, group, work, dtype}, scatter_list,
                    {nullptr, tensor, count}, group_src);
}

unisono_status unisono_gather_into_tensor(const void* input, void* output, int64_t count, unisono_dtype dtype,
                                          int group_dst, const unisono_group* group, unisono_work** work) {
  return c::gather_into_tensor({"unisono_gather_into_tensor", Collective::gather, group, work, dtype},
                               {input, output, count}, group_dst);
}

unisono_status unisono_gather(const void* tensor, void* const* gather_list, int64_t count, unisono_dtype dtype,
                              int group_dst, const unisono_group* group, unisono_work** work) {
  return c::gather({"unisono_gather", Collective::gather, group, work, dtype}, gather_list, {tensor, nullptr, count},
                   group_dst);
}

unisono_status unisono_all_to_all_single(const void* input, void* output, int64_t count, unisono_dtype dtype,
                                         const unisono_group* group, unisono_work** work) {
  return c::all_to_all_single({"unisono_all_to_all_single", Collective::all_to_all, group, work, dtype},
                              {input, output, count});
}

unisono_status unisono_all_to_all_single_split(const void* input, const int64_t* input_split_sizes, void* output,
                                               const int64_t* output_split_sizes, unisono_dtype dtype,
                                               const unisono_group* group, unisono_work** work) {
  return c::all_to_all_single_split({"unisono_all_to_all_single_split", Collective::all_to_all, group, work, dtype},
                                    {input, input_split_sizes, output, output_split_sizes});
}

unisono_status unisono_all_to_all(const void* const* input_list, const int64_t* input_counts, void* const* output_list,
                                  const int64_t* output_counts, unisono_dtype dtype, const unisono_group* group,
                                  unisono_work** work) {
  return c::all_to_all({"unisono_all_to_all", Collective::all_to_all, group, work, dtype},
                       {input_list, input_counts, output_list, output_counts});
}

unisono_status unisono_barrier(const unisono_group* group, unisono_work** work) {
  return c::barrier({"unisono_barrier", Collective::barrier, group, work});
}

unisono_status unisono_monitored_barrier(const unisono_group* group, double timeout_s) {
  return c::guarded([&] {
    if (c::group_of(group, "unisono_monitored_barrier"))  // a wrong deadline is refused there, so that the others hear of it
      unisono::distributed::monitored_barrier(
          {.group = c::handle_of(group), .timeout_s = timeout_s == 0 ? c::call_timeout() : timeout_s});
  });
}
