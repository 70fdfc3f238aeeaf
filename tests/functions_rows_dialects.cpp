// The functions of both dialects, in the order of their headers.
#include "tests/functions_rows.hpp"

namespace unisono::testing {
namespace {

constexpr std::string_view matrix = "collectives_test";  // by the forms of tests/support/forms_*.cpp

// clang-format off
constexpr FunctionRow of_distributed[] = {
    {"init_process_group", "{rank, world_size, job, timeout_s, init_method, store}", "state_test join_store_test", sync},
    {"destroy_process_group", "group", "state_test groups_test", sync},
    {"is_initialized", "", "state_test", local},
    {"is_available", "", "state_test", local},
    {"get_backend", "", "state_test", local},
    {"get_rank", "group", "groups_test", local},
    {"get_world_size", "group", "groups_test", local},
    {"get_process_group_ranks", "group", "groups_test", local},
    {"get_group_rank", "group, global_rank", "groups_test", local},
    {"get_global_rank", "group, group_rank", "groups_test", local},
    {"new_group", "ranks, {timeout_s, name, run_ahead, reproducible}", "groups_test groups_error_test", sync},
    {"split_group", "group, colour, key, {timeout_s, name, run_ahead, reproducible}", "groups_test", sync},
    {"new_subgroups", "group_size, {timeout_s, name, run_ahead, reproducible}", "agree_test", sync},
    {"new_subgroups_by_enumeration", "ranks_per_subgroup, {timeout_s, name, run_ahead, reproducible}", "agree_test", sync},
    {"shrink_group", "ranks_to_exclude, group, {timeout_s, name, run_ahead, reproducible}", "agree_test", sync},
    {"agree", "flag, group, timeout_s", "agree_test", sync},
    {"failed_ranks", "group", "failed_ranks_test", local},
    {"abort", "group, why", "abort_test", local},
    {"all_reduce", "tensor, {op, group, async_op, timeout_s}", matrix},
    {"scan", "tensor, {op, group, async_op, timeout_s}", matrix},
    {"exscan", "tensor, {op, group, async_op, timeout_s}", matrix},
    {"all_gather", "tensor_list, tensor, {group, async_op, timeout_s}", matrix},
    {"all_gather_into_tensor", "output, input, {group, async_op, timeout_s}", matrix},
    {"reduce_scatter", "output, input_list, {op, group, async_op, timeout_s}", matrix},
    {"reduce_scatter_tensor", "output, input, {op, group, async_op, timeout_s}", matrix},
    {"reduce", "tensor, dst, {op, group, async_op, timeout_s, group_dst}", matrix},
    {"scatter", "tensor, scatter_list, {src, group, async_op, timeout_s, group_src}", matrix},
    {"gather", "tensor, gather_list, {dst, group, async_op, timeout_s, group_dst}", matrix},
    {"all_to_all", "output_list, input_list, {group, async_op, timeout_s}", matrix},
    {"all_to_all_single", "output, input, {output_split_sizes, input_split_sizes, group, async_op, timeout_s}", matrix},
    {"broadcast", "tensor, {src, group, async_op, timeout_s, group_src}", matrix},
    {"barrier", "{group, async_op, timeout_s}", matrix},
    {"send", "tensor, dst, {group, tag, timeout_s, group_peer}", "letters_test", sync, "all_gather"},
    {"recv", "tensor, src, {group, tag, timeout_s, group_peer}", "letters_test", sync, "all_gather"},
    {"isend", "tensor, dst, {group, tag, timeout_s, group_peer}", "letters_test", async, "all_gather"},
    {"irecv", "tensor, src, {group, tag, timeout_s, group_peer}", "letters_test", async, "all_gather"},
    {"batch_isend_irecv", "operations", "letters_test", async, "all_gather"},
    {"monitored_barrier", "{group, timeout_s, wait_all_ranks}", "agree_test", sync},
    {"all_reduce_coalesced", "tensors, {op, group, async_op, timeout_s}", matrix},
    {"all_gather_coalesced", "output_tensor_lists, input_tensor_list, {group, async_op, timeout_s}", matrix},
    {"all_gather_into_tensor_coalesced", "outputs, inputs, {group, async_op, timeout_s}", matrix},
    {"reduce_scatter_coalesced", "outputs, input_lists, {op, group, async_op, timeout_s}", matrix},
    {"reduce_scatter_tensor_coalesced", "outputs, inputs, {op, group, async_op, timeout_s}", matrix},
    {"all_gather_single", "output, input, {group, async_op, timeout_s}", "dialects_test", both, "all_gather_into_tensor"},
    {"reduce_scatter_single", "output, input, {op, group, async_op, timeout_s}", "dialects_test", both, "reduce_scatter_tensor"},
};

constexpr FunctionRow of_comm_func[] = {
    {"all_reduce", "tensor, {op, group, async_op}", matrix},
    {"scan", "tensor, {op, group, async_op}", matrix},
    {"exscan", "tensor, {op, group, async_op}", matrix},
    {"all_gather_into_tensor", "tensor, {group, async_op}", matrix},
    {"reduce_scatter_tensor", "tensor, {op, group, async_op}", matrix},
    {"reduce", "tensor, dst, {op, group}", matrix},
    {"scatter_tensor", "tensor, src, group", matrix},
    {"gather_into_tensor", "tensor, dst, group", matrix},
    {"all_to_all_single_with_output_shape", "output_shape, tensor, {output_split_sizes, input_split_sizes, group, async_op}",
     matrix},
    {"all_to_all_with_output_shape", "output_shape_list, input_tensor_list, {group, async_op}", matrix},
    {"all_to_all_v_c", "output, input, send_count_matrix, {group, async_op}", matrix},
    {"broadcast", "tensor, src, group", matrix},
    {"barrier", "group", matrix},
    {"send", "tensor, dst, group, tag", "letters_test", sync, "all_gather"},
    {"recv", "tensor, src, group, tag", "letters_test", sync, "all_gather"},
    {"isend", "tensor, dst, group, tag", "letters_test", async, "all_gather"},
    {"irecv", "tensor, src, group, tag", "letters_test", async, "all_gather"},
    {"batch_isend_irecv", "operations", "letters_test", sync, "all_gather"},
};

constexpr FunctionRow of_communication[] = {
    {"GlobalComm::INITED", "", "dialects_test", local},
    {"init", "", "state_test", sync},
    {"release", "", "state_test", sync},
    {"get_rank", "group", "groups_test", local},
    {"get_group_size", "group", "groups_test", local},
    {"get_local_rank", "group", "groups_test", local},
    {"get_local_rank_size", "group", "groups_test", local},
    {"create_group", "group, rank_ids", "groups_test groups_error_test", sync},
    {"destroy_group", "group", "groups_test", sync},
    {"get_world_rank_from_group_rank", "group, group_rank_id", "groups_test", local},
    {"get_group_rank_from_world_rank", "world_rank_id, group", "groups_test", local},
    {"get_process_group_ranks", "group", "groups_test", local},
};
// clang-format on

}  // namespace

std::span<const FunctionRow> distributed_rows() { return of_distributed; }
std::span<const FunctionRow> comm_func_rows() { return of_comm_func; }
std::span<const FunctionRow> communication_rows() { return of_communication; }

}  // namespace unisono::testing
