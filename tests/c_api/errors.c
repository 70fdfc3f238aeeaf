/* Wrong arguments, and ranks that differ. What one rank refuses, the others hear of, and the next call works. */
#include <stddef.h>
#include <string.h>

#include "ranks.h"

static int32_t memory[64];

void try_before_init(void) {
  int number = -2;
  unisono_group* group = NULL;
  unisono_prepared* prepared = NULL;
  void* shared = NULL;
  expect(unisono_version() == 10000 * UNISONO_VERSION_MAJOR + 100 * UNISONO_VERSION_MINOR + UNISONO_VERSION_PATCH, "the version");
  expect(strcmp(unisono_last_error(), "") == 0, "no error yet");
  expect(unisono_is_initialized() == 0, "not initialized");
  expect(strcmp(unisono_error_name(UNISONO_OK), "OK") == 0, "the name of no error");
  expect(strcmp(unisono_error_name(UNISONO_MISMATCH_ERROR), "MismatchError") == 0, "the name of an error");
  expect(strcmp(unisono_error_name(-1), "no such error") == 0 && strcmp(unisono_error_name(99), "no such error") == 0,
         "no such error");
  expect(unisono_dtype_bytes(UNISONO_FLOAT64) == 8 && unisono_dtype_bytes(UNISONO_COMPLEX128) == 16, "bytes of a dtype");
  expect(unisono_dtype_bytes(-1) == 0 && unisono_dtype_bytes(20) == 0, "bytes of no dtype");
  expect_error(unisono_group_rank(NULL, &number), UNISONO_STATE_ERROR, "call unisono_init() first", "rank before init");
  expect_error(unisono_barrier(NULL, NULL), UNISONO_STATE_ERROR, "unisono_barrier was called", "barrier before init");
  expect_error(unisono_group_new(NULL, 0, NULL, 0, &group), UNISONO_STATE_ERROR, "unisono_group_new", "group_new before init");
  expect_error(unisono_group_agree(NULL, 1, 0, &number), UNISONO_STATE_ERROR, "unisono_init()", "agree before init");
  expect_error(unisono_send(memory, 1, UNISONO_INT32, 0, 0, NULL, NULL), UNISONO_STATE_ERROR, "unisono_send", "send before init");
  expect_error(unisono_prepare_barrier(NULL, &prepared), UNISONO_STATE_ERROR, "unisono_prepare_barrier", "prepare before init");
  expect_error(unisono_batch_send_recv(NULL, 0, NULL, NULL), UNISONO_STATE_ERROR, "unisono_batch", "a batch before init");
  expect_error(unisono_shared_alloc(1, UNISONO_INT32, &shared), UNISONO_STATE_ERROR, "unisono_init()", "memory before init");
  expect_error(unisono_finalize(), UNISONO_STATE_ERROR, "never joined", "finalize before init");
  expect_error(unisono_init_with(5, -1, NULL, 0), UNISONO_ARGUMENT_ERROR, "rank", "init_with a rank and no size");
  expect_error(unisono_init_with(-1, -1, NULL, -1), UNISONO_ARGUMENT_ERROR, "timeout_s is -1", "init_with a negative timeout");
  expect(strncmp(unisono_last_error(), "ArgumentError: ", 15) == 0, "the last error stays");
  expect_error(unisono_op_premul_sum(2, NULL), UNISONO_ARGUMENT_ERROR, "op is a null pointer", "op_premul_sum into NULL");
  expect_error(unisono_op_free(UNISONO_SUM), UNISONO_ARGUMENT_ERROR, "was not made", "op_free of one that was not made");
}

static void expect_refused(unisono_status status, const char* part, const char* what) {
  expect_error(status, UNISONO_ARGUMENT_ERROR, part, what);
}

void try_bad_arguments(void) {
  int32_t* m = memory;
  const unisono_dtype type = UNISONO_INT32;
  const unisono_op sum = UNISONO_SUM;
  unisono_op freed = -1;
  unisono_work* work = (unisono_work*)memory;
  expect_refused(unisono_all_reduce(m, NULL, 1, type, sum, NULL, NULL), "output of shape (1) is a null pointer",
                 "all_reduce into NULL");
  expect_refused(unisono_all_reduce(m, m, -1, type, sum, NULL, NULL), "shape (-1)", "all_reduce of a negative count");
  expect_refused(unisono_all_reduce(m, m, INT64_MAX, type, sum, NULL, NULL), "which cannot be", "all_reduce of too many");
  expect_refused(unisono_all_reduce(m, m, 1, 20, sum, NULL, NULL), "dtype is number 20", "all_reduce of no dtype");
  expect_refused(unisono_all_reduce(m, m, 1, 1000003, sum, NULL, NULL), "dtype is number 1000003", "all_reduce of a large dtype");
  expect_refused(unisono_all_reduce(m, m, 1, type, 77, NULL, NULL), "op is number 77", "all_reduce with no op");
  expect_refused(unisono_all_reduce(m, m, 1, type, 8, NULL, NULL), "op is number 8", "premul_sum without a factor");
  expect_refused(unisono_all_reduce(m, m, 1, type, -1, NULL, NULL), "op is number -1", "all_reduce with a negative op");
  expect_refused(unisono_all_reduce(m, m, 1, UNISONO_FLOAT32, UNISONO_BAND, NULL, NULL), "bitwise", "band of floats");
  expect_refused(unisono_all_reduce(m, m + 1, 2, type, sum, NULL, NULL), "overlap", "all_reduce of what overlaps");
  expect_refused(unisono_all_reduce(m, m, 1, 20, sum, NULL, &work), "dtype is number 20", "all_reduce of no dtype, with a work");
  expect(work == NULL, "no work after an error");
  expect_refused(unisono_scan(m, m, 1, type, UNISONO_AVG, NULL, NULL), "avg of a scan", "avg of a scan");
  expect_refused(unisono_exscan(m, NULL, 1, type, sum, NULL, NULL), "output", "exscan into NULL");
  expect_refused(unisono_reduce(m, m, 1, type, sum, world_size, NULL, NULL), "group_dst", "reduce to nobody");
  expect_refused(unisono_reduce(m, m, 1, type, sum, -1, NULL, NULL), "group_dst", "reduce to a negative rank");
  expect_refused(unisono_reduce(NULL, NULL, 1, type, sum, 0, NULL, NULL), "null pointer", "reduce of NULL");
  expect_refused(unisono_broadcast(NULL, 1, type, 0, NULL, NULL), "null pointer", "broadcast of NULL");
  expect_refused(unisono_broadcast(m, 1, type, world_size, NULL, NULL), "group_src", "broadcast from nobody");
  expect_refused(unisono_all_gather_into_tensor(m, NULL, 1, type, NULL, NULL), "output", "all_gather_into_tensor into NULL");
  expect_refused(unisono_all_gather_into_tensor(NULL, NULL, 1, type, NULL, NULL), "null pointer",
                 "all_gather_into_tensor of NULL");
  expect_refused(unisono_all_gather_into_tensor(m, m + 1, INT64_MAX / 2, type, NULL, NULL), "cannot be",
                 "all_gather_into_tensor of too many");
  expect_refused(unisono_reduce_scatter_tensor(NULL, m, 1, type, sum, NULL, NULL), "input", "reduce_scatter_tensor of NULL");
  expect_refused(unisono_scatter_tensor(m, NULL, 1, type, 0, NULL, NULL), "output", "scatter_tensor into NULL");
  expect_refused(unisono_scatter_tensor(m, m + 32, 1, type, -1, NULL, NULL), "group_src", "scatter_tensor from a negative rank");
  expect_refused(unisono_gather_into_tensor(NULL, m, 1, type, 0, NULL, NULL), "input", "gather_into_tensor of NULL");
  expect_refused(unisono_gather_into_tensor(m, m, -2, type, 0, NULL, NULL), "shape (-2)",
                 "gather_into_tensor of a negative count");
  expect_refused(unisono_all_to_all_single(m, m, 1, type, NULL, NULL), "overlap", "all_to_all_single in place");
  expect_ok(unisono_op_premul_sum(0.5, &freed), "op_premul_sum");
  expect_refused(unisono_all_reduce(m, m, 1, type, freed, NULL, NULL), "whole factor", "half of whole numbers");
  expect_ok(unisono_op_free(freed), "op_free");
  expect_refused(unisono_op_free(freed), "freed already", "op_free again");
  expect_refused(unisono_all_reduce(m, m, 1, UNISONO_FLOAT32, freed, NULL, NULL), "which there is not",
                 "all_reduce with an op that was freed");
}

void try_bad_arguments_of_lists(void) {
  int32_t* m = memory;
  const unisono_dtype type = UNISONO_INT32;
  const void* sources[MOST_RANKS];
  void* places[MOST_RANKS];
  int64_t counts[MOST_RANKS], negative[MOST_RANKS];
  int rank;
  for (rank = 0; rank < MOST_RANKS; ++rank) {
    sources[rank] = m + rank;
    places[rank] = m + 32 + rank;
    counts[rank] = 1;
    negative[rank] = -1;
  }
  expect_refused(unisono_all_gather(m, NULL, counts, type, NULL, NULL), "tensor_list is a null pointer",
                 "all_gather into no list");
  expect_refused(unisono_all_gather(m, places, NULL, type, NULL, NULL), "counts is a null pointer", "all_gather without counts");
  expect_refused(unisono_all_gather(m, places, negative, type, NULL, NULL), "shape (-1)", "all_gather of negative counts");
  expect_refused(unisono_reduce_scatter(NULL, m, counts, type, UNISONO_SUM, NULL, NULL), "input_list is a null pointer",
                 "reduce_scatter of no list");
  expect_refused(unisono_reduce_scatter(sources, m, NULL, type, UNISONO_SUM, NULL, NULL), "counts is a null pointer",
                 "reduce_scatter without counts");
  expect_refused(unisono_reduce_scatter(sources, m + 40, counts, type, 99, NULL, NULL), "op is number 99",
                 "reduce_scatter with no op");
  expect_refused(unisono_all_to_all(NULL, counts, places, counts, type, NULL, NULL), "input_list is a null pointer",
                 "all_to_all of no list");
  expect_refused(unisono_all_to_all(sources, NULL, places, counts, type, NULL, NULL), "input_counts",
                 "all_to_all without counts");
  expect_refused(unisono_all_to_all(sources, counts, NULL, counts, type, NULL, NULL), "output_list", "all_to_all into no list");
  expect_refused(unisono_all_to_all(sources, counts, places, NULL, type, NULL, NULL), "output_counts",
                 "all_to_all into no counts");
  expect_refused(unisono_all_to_all_single_split(m, NULL, m + 32, counts, type, NULL, NULL), "input_split_sizes",
                 "split without sizes");
  expect_refused(unisono_all_to_all_single_split(m, counts, m + 32, NULL, type, NULL, NULL), "output_split_sizes",
                 "split into no sizes");
  expect_refused(unisono_all_to_all_single_split(m, negative, m + 32, counts, type, NULL, NULL), "cannot be",
                 "split of negative sizes");
  expect_refused(unisono_all_reduce_coalesced(NULL, counts, 1, type, UNISONO_SUM, NULL, NULL), "tensors is a null pointer",
                 "coalesced NULL");
  expect_refused(unisono_all_reduce_coalesced(places, NULL, 1, type, UNISONO_SUM, NULL, NULL), "counts is a null pointer",
                 "coalesced, no counts");
  expect_refused(unisono_all_reduce_coalesced(places, counts, -1, type, UNISONO_SUM, NULL, NULL), "tensor_count is -1",
                 "coalesced, negative");
  expect_refused(unisono_all_reduce_coalesced(places, counts, 0, type, UNISONO_SUM, NULL, NULL), "empty", "coalesced, none");
  expect_refused(unisono_all_gather_into_tensor_coalesced(sources, NULL, counts, 1, type, NULL, NULL),
                 "outputs is a null pointer", "a coalesced all_gather into NULL");
  expect_refused(unisono_all_gather_into_tensor_coalesced(sources, places, NULL, 1, type, NULL, NULL), "counts is a null pointer",
                 "a coalesced all_gather without counts");
  expect_refused(unisono_all_gather_into_tensor_coalesced(sources, places, negative, 1, type, NULL, NULL), "shape (-1)",
                 "a coalesced all_gather of negative counts");
  expect_refused(unisono_all_gather_into_tensor_coalesced(sources, places, counts, -1, type, NULL, NULL), "tensor_count is -1",
                 "a coalesced all_gather of a negative number");
  expect_refused(unisono_reduce_scatter_tensor_coalesced(NULL, places, counts, 1, type, UNISONO_SUM, NULL, NULL),
                 "inputs is a null pointer", "a coalesced reduce_scatter of NULL");
  expect_refused(unisono_reduce_scatter_tensor_coalesced(sources, places, counts, 0, type, UNISONO_SUM, NULL, NULL), "empty",
                 "a coalesced reduce_scatter of none");
  expect_refused(unisono_reduce_scatter_tensor_coalesced(sources, places, counts, 1, type, 99, NULL, NULL), "op is number 99",
                 "a coalesced reduce_scatter with no op");
  if (world_rank == 0)
    expect_refused(unisono_scatter(NULL, m, 1, type, 0, NULL, NULL), "scatter_list must be given", "scatter of no list");
  else
    expect_refused(unisono_scatter(sources, m + 40, 1, type, 0, NULL, NULL), "given on the source only",
                   "scatter of a list elsewhere");
  if (world_rank == 0)
    expect_refused(unisono_gather(m, NULL, 1, type, 0, NULL, NULL), "gather_list must be given", "gather into no list");
  else
    expect_refused(unisono_gather(m, places, 1, type, 0, NULL, NULL), "gather_list is given on", "gather into a list elsewhere");
}

void try_differences(void) {
  unisono_status status;
  unisono_work* work = NULL;
  int is_over = -1;
  if (world_size == 1) return;
  status = unisono_all_reduce(NULL, world_rank == 1 ? NULL : memory, 3, UNISONO_INT32, UNISONO_SUM, NULL, NULL);
  if (world_rank == 1)
    expect_refused(status, "output of shape (3) is a null pointer", "the rank that is wrong");
  else
    expect_error(status, UNISONO_PEER_ARGUMENT_ERROR, "rank 1 refused its all_reduce", "the ranks beside one that is wrong");
  status = unisono_reduce_scatter_tensor(memory, memory + 40, 3, world_rank == 1 ? 31 : UNISONO_INT32, UNISONO_SUM, NULL, NULL);
  if (world_rank == 1)
    expect_refused(status, "dtype is number 31", "the rank with no dtype");
  else
    expect_error(status, UNISONO_PEER_ARGUMENT_ERROR, "rank 1 refused its reduce_scatter", "the ranks beside one with no dtype");
  status = unisono_all_reduce(NULL, memory, world_rank == 1 ? 4 : 3, UNISONO_INT32, UNISONO_SUM, NULL, NULL);
  expect_error(status, UNISONO_MISMATCH_ERROR, "all_reduce count", "counts that differ");
  expect_ok(unisono_all_reduce(NULL, memory, 3, UNISONO_INT32, world_rank == 1 ? UNISONO_MAX : UNISONO_SUM, NULL, &work),
            "posting what differs");
  expect_error(unisono_work_wait(work, 0), UNISONO_MISMATCH_ERROR, "op", "waiting for what differs");
  expect_error(unisono_work_test(work, &is_over), UNISONO_MISMATCH_ERROR, "op", "test of what differs");
  expect(is_over == 1, "what differed is over");
  unisono_work_free(work);
  expect_ok(unisono_barrier(NULL, NULL), "the call after errors");
}
