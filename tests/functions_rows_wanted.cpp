// What the pages of torch.distributed and of mindspore.communication have, and where each of it is here.
#include "tests/functions_rows.hpp"

namespace unisono::testing {
namespace {

constexpr std::string_view none = "-";
constexpr std::string_view python = "Python";
constexpr std::string_view cpp = "C++";

// clang-format off
constexpr Note all_notes[] = {
    {none, "this side does not have it, and there is nothing that it would be called"},
    {python, "belongs to the Python layer: it is about Python objects, or about tensors that a call returns"},
    {cpp, "only from C++ so far"},
};

constexpr WantedRow joining[] = {
    // torch, mindspore, distributed, comm_func, C
    {"init_process_group", "init", "init_process_group", "communication::init",
     "unisono_init, unisono_init_with, unisono_init_at"},
    {"init_process_group(tcp://)", none, "init_process_group", none, "unisono_init_at"},
    {"destroy_process_group", "release", "destroy_process_group", "communication::release", "unisono_finalize"},
    {"is_initialized", "GlobalComm.INITED", "is_initialized", "communication::GlobalComm::INITED", "unisono_is_initialized"},
    {"is_available", none, "is_available", none, none},
    {"get_backend", none, "get_backend", none, none},
    {"get_rank", "get_rank", "get_rank", "communication::get_rank", "unisono_group_rank"},
    {"get_world_size", "get_group_size", "get_world_size", "communication::get_group_size", "unisono_group_size"},
    {none, "get_local_rank", none, "communication::get_local_rank", none},
    {none, "get_local_rank_size", none, "communication::get_local_rank_size", none},
    {none, "GlobalComm.WORLD_COMM_GROUP", none, "communication::GlobalComm::WORLD_COMM_GROUP", none},
    {none, none, none, none, "unisono_version"},
    {none, none, none, none, "unisono_error_name, unisono_last_error"},
};

constexpr WantedRow groups[] = {
    {"new_group", "create_group", "new_group", "communication::create_group", "unisono_group_new"},
    {"new_subgroups", none, "new_subgroups", none, "unisono_group_split"},
    {"new_subgroups_by_enumeration", none, "new_subgroups_by_enumeration", none, "unisono_group_split"},
    {"split_group", none, "split_group", none, "unisono_group_split"},
    {"shrink_group", none, "shrink_group", none, "unisono_group_shrink"},
    {"destroy_process_group(group)", "destroy_group", "destroy_process_group", "communication::destroy_group",
     "unisono_group_destroy"},
    {"get_process_group_ranks", "get_process_group_ranks", "get_process_group_ranks", "communication::get_process_group_ranks",
     "unisono_group_to_world"},
    {"get_group_rank", "get_group_rank_from_world_rank", "get_group_rank", "communication::get_group_rank_from_world_rank",
     "unisono_group_from_world"},
    {"get_global_rank", "get_world_rank_from_group_rank", "get_global_rank", "communication::get_world_rank_from_group_rank",
     "unisono_group_to_world"},
    {none, none, "agree", none, "unisono_group_agree"},
    {none, none, "failed_ranks", none, "unisono_group_failed_ranks"},
    {none, none, "abort", none, "unisono_group_abort"},
};

constexpr WantedRow collectives[] = {
    {"all_reduce", "all_reduce", "all_reduce", "all_reduce", "unisono_all_reduce"},
    {"all_reduce_coalesced", none, "all_reduce_coalesced", none, "unisono_all_reduce_coalesced"},
    {"broadcast", "broadcast", "broadcast", "broadcast", "unisono_broadcast"},
    {"reduce", "reduce", "reduce", "reduce", "unisono_reduce"},
    {"all_gather", none, "all_gather", none, "unisono_all_gather"},
    {"all_gather_into_tensor, all_gather_single", "all_gather_into_tensor", "all_gather_into_tensor, all_gather_single",
     "all_gather_into_tensor", "unisono_all_gather_into_tensor"},
    {"all_gather_coalesced", none, "all_gather_coalesced, all_gather_into_tensor_coalesced", none,
     "unisono_all_gather_into_tensor_coalesced"},
    {"gather", none, "gather", none, "unisono_gather"},
    {none, "gather_into_tensor", none, "gather_into_tensor", "unisono_gather_into_tensor"},
    {"scatter", none, "scatter", none, "unisono_scatter"},
    {none, "scatter_tensor", none, "scatter_tensor", "unisono_scatter_tensor"},
    {"reduce_scatter", none, "reduce_scatter", none, "unisono_reduce_scatter"},
    {"reduce_scatter_tensor, reduce_scatter_single", "reduce_scatter_tensor", "reduce_scatter_tensor, reduce_scatter_single",
     "reduce_scatter_tensor", "unisono_reduce_scatter_tensor"},
    {"reduce_scatter_coalesced", none, "reduce_scatter_coalesced, reduce_scatter_tensor_coalesced", none,
     "unisono_reduce_scatter_tensor_coalesced"},
    {"all_to_all", "all_to_all_with_output_shape", "all_to_all", "all_to_all_with_output_shape", "unisono_all_to_all"},
    {"all_to_all_single", "all_to_all_single_with_output_shape", "all_to_all_single", "all_to_all_single_with_output_shape",
     "unisono_all_to_all_single, unisono_all_to_all_single_split"},
    {none, "all_to_all_v_c", none, "all_to_all_v_c", "unisono_all_to_all_single_split"},
    {"barrier", "barrier", "barrier", "barrier", "unisono_barrier"},
    {"monitored_barrier", none, "monitored_barrier", none, "unisono_monitored_barrier"},
    {none, none, "scan", "scan", "unisono_scan"},
    {none, none, "exscan", "exscan", "unisono_exscan"},
};

constexpr WantedRow letters[] = {
    {"send", "send", "send", "send", "unisono_send"},
    {"recv", "recv", "recv", "recv", "unisono_recv"},
    {"isend", "isend", "isend", "isend", "unisono_send"},
    {"irecv", "irecv", "irecv", "irecv", "unisono_recv"},
    {"P2POp", "P2POp", "P2POp", "P2POp", "unisono_letter"},
    {"batch_isend_irecv", "batch_isend_irecv", "batch_isend_irecv", "batch_isend_irecv", "unisono_batch_send_recv"},
};

constexpr WantedRow objects[] = {
    {"all_gather_object", none, python, none, python},
    {"gather_object", none, python, none, python},
    {"scatter_object_list", none, python, none, python},
    {"broadcast_object_list", none, python, none, python},
    {"send_object_list, recv_object_list", none, python, none, python},
};

constexpr WantedRow works[] = {
    {"Work.wait", "CommHandle.wait", "Work::wait", "CommHandle::wait", "unisono_work_wait"},
    {"Work.is_completed", none, "Work::is_completed", "CommHandle::is_completed", "unisono_work_test"},
    {"Work.is_success", none, "Work::is_success", none, "unisono_work_test"},
    {"Work.exception", none, "Work::exception", "CommHandle::exception", "unisono_work_test"},
    {"Work.result", none, python, none, none},
    {"Work.source_rank", none, "Work::source_rank", none, "unisono_work_source"},
    {none, none, "Work::on_completion", "CommHandle::on_completion", cpp},
    {none, none, none, "CommHandle", "unisono_work_free"},
};

constexpr WantedRow numbers[] = {
    {"ReduceOp.SUM", "ReduceOp.SUM", "ReduceOp::sum", "ReduceOp::sum", "UNISONO_SUM"},
    {"ReduceOp.AVG", none, "ReduceOp::avg", "ReduceOp::avg", "UNISONO_AVG"},
    {"ReduceOp.PRODUCT", "ReduceOp.PROD", "ReduceOp::product", "ReduceOp::product", "UNISONO_PRODUCT"},
    {"ReduceOp.MIN", "ReduceOp.MIN", "ReduceOp::min", "ReduceOp::min", "UNISONO_MIN"},
    {"ReduceOp.MAX", "ReduceOp.MAX", "ReduceOp::max", "ReduceOp::max", "UNISONO_MAX"},
    {"ReduceOp.BAND", none, "ReduceOp::band", "ReduceOp::band", "UNISONO_BAND"},
    {"ReduceOp.BOR", none, "ReduceOp::bor", "ReduceOp::bor", "UNISONO_BOR"},
    {"ReduceOp.BXOR", none, "ReduceOp::bxor", "ReduceOp::bxor", "UNISONO_BXOR"},
    {"PREMUL_SUM(factor)", none, "ReduceOp::premul_sum", "ReduceOp::premul_sum", "unisono_op_premul_sum, unisono_op_free"},
    {"dtypes", "dtypes", "DType", "DType", "unisono_dtype, unisono_dtype_bytes"},
};

constexpr WantedRow stores[] = {
    {"TCPStore", none, "TCPStore, TCPStore::host, TCPStore::port", none, cpp},
    {"FileStore", none, "FileStore, FileStore::path", none, cpp},
    {"HashStore", none, "HashStore", none, cpp},
    {"PrefixStore", none, "PrefixStore, PrefixStore::underlying_store", none, cpp},
    {"Store.set", none, "Store::set", none, cpp},
    {"Store.get", none, "Store::get", none, cpp},
    {"Store.add", none, "Store::add", none, cpp},
    {"Store.compare_set", none, "Store::compare_set", none, cpp},
    {"Store.wait", none, "Store::wait", none, cpp},
    {"Store.check", none, "Store::check", none, cpp},
    {"Store.delete_key", none, "Store::delete_key", none, cpp},
    {"Store.num_keys", none, "Store::num_keys", none, cpp},
    {"Store.append", none, "Store::append", none, cpp},
    {"Store.multi_get", none, "Store::multi_get", none, cpp},
    {"Store.multi_set", none, "Store::multi_set", none, cpp},
    {"Store.timeout, Store.set_timeout", none, "Store::timeout, Store::set_timeout", none, cpp},
    {none, none, "Store::reach, Store::perform, Store::await_values", none, cpp},
};

constexpr WantedRow more[] = {
    {none, none, none, none, "unisono_set_call_timeout"},
    {none, none, "alloc_shared", "alloc_shared", "unisono_shared_alloc, unisono_shared_free"},
    {none, none, "set_interrupt_check, outside_interrupt_check, say_last_words, refuse, group_name", "set_interrupt_check, outside_interrupt_check, say_last_words, refuse", cpp},
    {none, none, "make_reduction", "make_reduction", "unisono_op_create"},
    {none, none, "Prepared, Prepared::start, Prepared::wait, Prepared::run, Prepared::is_started, Prepared::is_completed", none,
     "unisono_prepared_start, unisono_prepared_wait, unisono_prepared_run, unisono_prepared_test, unisono_prepared_free"},
    {none, none, "prepare_all_reduce", none, "unisono_prepare_all_reduce"},
    {none, none, "prepare_scan", none, "unisono_prepare_scan"},
    {none, none, "prepare_exscan", none, "unisono_prepare_exscan"},
    {none, none, "prepare_all_gather", none, "unisono_prepare_all_gather"},
    {none, none, "prepare_all_gather_into_tensor", none, "unisono_prepare_all_gather_into_tensor"},
    {none, none, "prepare_reduce_scatter", none, "unisono_prepare_reduce_scatter"},
    {none, none, "prepare_reduce_scatter_tensor", none, "unisono_prepare_reduce_scatter_tensor"},
    {none, none, "prepare_reduce", none, "unisono_prepare_reduce"},
    {none, none, "prepare_scatter", none, "unisono_prepare_scatter, unisono_prepare_scatter_tensor"},
    {none, none, "prepare_gather", none, "unisono_prepare_gather, unisono_prepare_gather_into_tensor"},
    {none, none, "prepare_all_to_all", none, "unisono_prepare_all_to_all"},
    {none, none, "prepare_all_to_all_single", none, "unisono_prepare_all_to_all_single, unisono_prepare_all_to_all_single_split"},
    {none, none, "prepare_broadcast", none, "unisono_prepare_broadcast"},
    {none, none, "prepare_barrier", none, "unisono_prepare_barrier"},
    {none, none, "prepare_all_reduce_coalesced", none, "unisono_prepare_all_reduce_coalesced"},
    {none, none, "prepare_all_gather_coalesced", none, cpp},
    {none, none, "prepare_all_gather_into_tensor_coalesced", none, "unisono_prepare_all_gather_into_tensor_coalesced"},
    {none, none, "prepare_reduce_scatter_coalesced", none, cpp},
    {none, none, "prepare_reduce_scatter_tensor_coalesced", none, "unisono_prepare_reduce_scatter_tensor_coalesced"},
    {none, none, "Coalescing, Coalescing::all_reduce, Coalescing::all_gather_into_tensor, Coalescing::reduce_scatter_tensor", none, cpp},
    {none, none, "Coalescing::end, Coalescing::wait, Coalescing::is_completed", none, cpp},
};

constexpr WantedPart parts[] = {
    {"Joining", joining}, {"Groups", groups}, {"Collectives", collectives}, {"From rank to rank", letters},
    {"Objects", objects}, {"Handles", works}, {"Numbers", numbers}, {"Stores", stores},
    {"What neither of them has", more},
};
// clang-format on

}  // namespace

std::span<const Note> notes() { return all_notes; }
std::span<const WantedPart> wanted_parts() { return parts; }

}  // namespace unisono::testing
