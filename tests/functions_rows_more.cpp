// The functions that neither reference has: prepared calls, the coalescing context, reductions of the user's own, shared
// tensors; in the order of their headers.
#include "tests/functions_rows.hpp"

namespace unisono::testing {
namespace {

constexpr std::string_view rehearsal = "persistent_test", encore = "persistent_more_test";

// clang-format off
constexpr FunctionRow of_persistent[] = {
    {"Prepared", "group, call", rehearsal, local},
    {"Prepared::start", "", rehearsal, async},
    {"Prepared::wait", "timeout_s", rehearsal, sync},
    {"Prepared::run", "", rehearsal, sync},
    {"Prepared::is_started", "", rehearsal, local},
    {"Prepared::is_completed", "", rehearsal, local},
    {"prepare_all_reduce", "tensor, {op, group, timeout_s}", rehearsal, local, "all_reduce"},
    {"prepare_scan", "tensor, {op, group, timeout_s}", encore, local, "scan"},
    {"prepare_exscan", "tensor, {op, group, timeout_s}", encore, local, "exscan"},
    {"prepare_all_gather", "tensor_list, tensor, {group, timeout_s}", rehearsal, local, "all_gather"},
    {"prepare_all_gather_into_tensor", "output, input, {group, timeout_s}", rehearsal, local, "all_gather_into_tensor"},
    {"prepare_reduce_scatter", "output, input_list, {op, group, timeout_s}", rehearsal, local, "reduce_scatter"},
    {"prepare_reduce_scatter_tensor", "output, input, {op, group, timeout_s}", rehearsal, local, "reduce_scatter_tensor"},
    {"prepare_reduce", "tensor, dst, {op, group, timeout_s, group_dst}", rehearsal, local, "reduce"},
    {"prepare_scatter", "tensor, scatter_list, {src, group, timeout_s, group_src}", rehearsal, local, "scatter"},
    {"prepare_gather", "tensor, gather_list, {dst, group, timeout_s, group_dst}", rehearsal, local, "gather"},
    {"prepare_all_to_all", "output_list, input_list, {group, timeout_s}", rehearsal, local, "all_to_all"},
    {"prepare_all_to_all_single", "output, input, {output_split_sizes, input_split_sizes, group, timeout_s}", rehearsal, local, "all_to_all_single"},
    {"prepare_broadcast", "tensor, {src, group, timeout_s, group_src}", rehearsal, local, "broadcast"},
    {"prepare_barrier", "{group, timeout_s}", rehearsal, local},
    {"prepare_all_reduce_coalesced", "tensors, {op, group, timeout_s}", rehearsal, local, "all_reduce_coalesced"},
    {"prepare_all_gather_coalesced", "output_tensor_lists, input_tensor_list, {group, timeout_s}", encore, local, "all_gather_coalesced"},
    {"prepare_all_gather_into_tensor_coalesced", "outputs, inputs, {group, timeout_s}", encore, local, "all_gather_into_tensor_coalesced"},
    {"prepare_reduce_scatter_coalesced", "outputs, input_lists, {op, group, timeout_s}", encore, local, "reduce_scatter_coalesced"},
    {"prepare_reduce_scatter_tensor_coalesced", "outputs, inputs, {op, group, timeout_s}", encore, local, "reduce_scatter_tensor_coalesced"},
};

constexpr FunctionRow of_coalescing[] = {
    {"Coalescing", "group, {async_op, timeout_s}", "coalescing_test", local},
    {"Coalescing::all_reduce", "tensor, op", "coalescing_test", local, "all_reduce"},
    {"Coalescing::all_gather_into_tensor", "output, input", "coalescing_test", local, "all_gather_into_tensor"},
    {"Coalescing::reduce_scatter_tensor", "output, input, op", "coalescing_test", local, "reduce_scatter_tensor"},
    {"Coalescing::end", "", "coalescing_test", both},
    {"Coalescing::wait", "timeout_s", "coalescing_test", sync},
    {"Coalescing::is_completed", "", "coalescing_test", local},
};

constexpr FunctionRow of_reduction[] = {
    {"make_reduction", "reduction", "user_reduction_test", local},
    {"make_reduction", "name, combine, commutative, dtype", "user_reduction_test", local},
};

constexpr FunctionRow of_shared_tensor[] = {
    {"alloc_shared", "shape, dtype", "shared_tensor_test", local},
};

constexpr FunctionRow of_binding[] = {
    {"set_interrupt_check", "check", "interrupt_test", local},
    {"outside_interrupt_check", "", "interrupt_test", local},
    {"say_last_words", "why", "death_test", local},
    {"refuse", "kind, why, group", "refusals_test", sync},
    {"group_name", "group", "groups_test", local},
};
// clang-format on

}  // namespace

std::span<const FunctionRow> persistent_rows() { return of_persistent; }
std::span<const FunctionRow> coalescing_rows() { return of_coalescing; }
std::span<const FunctionRow> reduction_rows() { return of_reduction; }
std::span<const FunctionRow> shared_tensor_rows() { return of_shared_tensor; }
std::span<const FunctionRow> binding_rows() { return of_binding; }

}  // namespace unisono::testing
