// The functions of the stores, of the handles and of the C header, in the order of their headers; and the list of headers.
#include "tests/functions_rows.hpp"

namespace unisono::testing {
namespace {

// clang-format off
constexpr FunctionRow of_store[] = {
    {"Store::set", "key, value", "store_test", sync},
    {"Store::get", "key", "store_test", sync},
    {"Store::add", "key, amount", "store_test", sync},
    {"Store::compare_set", "key, expected, desired", "store_test", sync},
    {"Store::wait", "keys, timeout_s", "store_test", sync},
    {"Store::check", "keys", "store_test", sync},
    {"Store::delete_key", "key", "store_test", sync},
    {"Store::num_keys", "", "store_test", sync},
    {"Store::append", "key, value", "store_test", sync},
    {"Store::multi_get", "keys", "store_test", sync},
    {"Store::multi_set", "keys, values", "store_test", sync},
    {"Store::timeout", "", "store_test", local},
    {"Store::set_timeout", "seconds", "store_test", local},
    {"Store::perform", "requests", "join_store_test", sync},
    {"Store::await_values", "keys, timeout_s", "join_store_test", sync},
    {"HashStore", "", "store_test", local},
    {"PrefixStore", "prefix, store", "store_test", local},
    {"PrefixStore::underlying_store", "", "store_test", local},
    {"FileStore", "path, world_size", "file_store_test", sync},
    {"FileStore::path", "", "file_store_test", local},
};

constexpr FunctionRow of_work[] = {
    {"Work::wait", "timeout_s", "async_test", sync},
    {"Work::is_completed", "", "async_test", local},
    {"Work::is_success", "", "async_test", local},
    {"Work::exception", "", "async_test", local},
    {"Work::source_rank", "", "letters_test", local},
    {"CommHandle", "work", "async_test", local},
    {"CommHandle::wait", "timeout_s", "async_test", sync},
    {"CommHandle::is_completed", "", "async_test", local},
    {"CommHandle::exception", "", "async_test", local},
};

constexpr std::string_view program = "c_api_test";  // and the C program that it runs, in tests/c_api
constexpr FunctionRow of_c[] = {
    {"unisono_version", "", program, local},
    {"unisono_error_name", "status", program, local},
    {"unisono_last_error", "", program, local},
    {"unisono_dtype_bytes", "dtype", program, local},
    {"unisono_op_premul_sum", "factor, op", program, local},
    {"unisono_op_create", "name, combine, context, commutative, op", program, local},
    {"unisono_op_free", "op", program, local},
    {"unisono_init", "", program, sync},
    {"unisono_init_with", "rank, size, job, timeout_s", program, sync},
    {"unisono_finalize", "", program, sync},
    {"unisono_is_initialized", "", program, local},
    {"unisono_group_rank", "group, rank", program, local},
    {"unisono_group_size", "group, size", program, local},
    {"unisono_group_to_world", "group, rank, world_rank", program, local},
    {"unisono_group_from_world", "group, world_rank, rank", program, local},
    {"unisono_group_new", "world_ranks, count, name, timeout_s, made", program, sync},
    {"unisono_group_split", "group, colour, key, made", program, sync},
    {"unisono_group_shrink", "group, excluded, count, made", program, sync},
    {"unisono_group_destroy", "group", program, sync},
    {"unisono_group_agree", "group, flag, timeout_s, answer", program, sync},
    {"unisono_group_abort", "group, why", program, local},
    {"unisono_work_wait", "work, timeout_s", program, sync},
    {"unisono_work_test", "work, is_over", program, local},
    {"unisono_work_source", "work, source", program, local},
    {"unisono_work_free", "work", program, local},
    {"unisono_all_reduce", "input, output, count, dtype, op, group, work", program, both, "all_reduce"},
    {"unisono_scan", "input, output, count, dtype, op, group, work", program, both, "scan"},
    {"unisono_exscan", "input, output, count, dtype, op, group, work", program, both, "exscan"},
    {"unisono_all_reduce_coalesced", "tensors, counts, tensor_count, dtype, op, group, work", program, both,
     "all_reduce_coalesced"},
    {"unisono_reduce", "input, output, count, dtype, op, group_dst, group, work", program, both, "reduce"},
    {"unisono_broadcast", "tensor, count, dtype, group_src, group, work", program, both, "broadcast"},
    {"unisono_all_gather_into_tensor", "input, output, count, dtype, group, work", program, both, "all_gather_into_tensor"},
    {"unisono_all_gather", "tensor, tensor_list, counts, dtype, group, work", program, both, "all_gather"},
    {"unisono_reduce_scatter_tensor", "input, output, count, dtype, op, group, work", program, both, "reduce_scatter_tensor"},
    {"unisono_reduce_scatter", "input_list, output, counts, dtype, op, group, work", program, both, "reduce_scatter"},
    {"unisono_scatter_tensor", "input, output, count, dtype, group_src, group, work", program, both, "scatter"},
    {"unisono_scatter", "scatter_list, tensor, count, dtype, group_src, group, work", program, both, "scatter"},
    {"unisono_gather_into_tensor", "input, output, count, dtype, group_dst, group, work", program, both, "gather"},
    {"unisono_gather", "tensor, gather_list, count, dtype, group_dst, group, work", program, both, "gather"},
    {"unisono_all_to_all_single", "input, output, count, dtype, group, work", program, both, "all_to_all_single"},
    {"unisono_all_to_all_single_split", "input, input_split_sizes, output, output_split_sizes, dtype, group, work", program, both,
     "all_to_all_single"},
    {"unisono_all_to_all", "input_list, input_counts, output_list, output_counts, dtype, group, work", program, both,
     "all_to_all"},
    {"unisono_barrier", "group, work", program, both},
    {"unisono_monitored_barrier", "group, timeout_s", program, sync},
    {"unisono_send", "tensor, count, dtype, group_peer, tag, group, work", program, both, "all_gather"},
    {"unisono_recv", "tensor, count, dtype, group_peer, tag, source, group, work", program, both, "all_gather"},
};
// clang-format on

}  // namespace

std::span<const FunctionRow> store_rows() { return of_store; }
std::span<const FunctionRow> work_rows() { return of_work; }
std::span<const FunctionRow> c_rows() { return of_c; }

std::span<const HeaderRows> all_headers() {
  static const HeaderRows headers[] = {
      {"distributed.hpp", "torch.distributed's shape", Column::distributed, "", distributed_rows()},
      {"comm_func.hpp", "MindSpore's shape, functional", Column::comm_func, "", comm_func_rows()},
      {"communication.hpp", "MindSpore's shape, joining and groups", Column::comm_func, "communication::", communication_rows()},
      {"store.hpp", "stores, for the distributed dialect", Column::distributed, "", store_rows()},
      {"work.hpp", "handles of both dialects", Column::either, "", work_rows()},
      {"persistent.hpp", "calls that are made again and again", Column::distributed, "", persistent_rows()},
      {"coalescing.hpp", "many calls as few", Column::distributed, "", coalescing_rows()},
      {"reduction.hpp", "reductions of the user's own", Column::either, "", reduction_rows()},
      {"shared_tensor.hpp", "shared tensors", Column::either, "", shared_tensor_rows()},
      {"interrupt.hpp", "interruptions", Column::either, "", interrupt_rows()},
      {"unisono.h", "C99", Column::from_c, "", c_rows()},
  };
  return headers;
}

}  // namespace unisono::testing
