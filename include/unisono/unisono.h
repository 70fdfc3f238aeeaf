/* Unisono for C99, and for every language that can call C: the calls of unisono/distributed.hpp with pointers, counts and
 * numbers. Names, numbers and parameters here stay as they are; new ones are added at the end of their list.
 *
 * What holds for all functions:
 *   - A unisono_status comes back: UNISONO_OK (0), or what went wrong, with unisono_last_error() as the sentence.
 *   - `group` NULL is the world. Ranks are ranks of the group that is given; only where a name says world are they others.
 *   - `work` NULL: the call is over when the function returns. Otherwise the function returns at once, *work is a promise to be
 *     waited for and freed, and all memory that was given must live until then; arrays of pointers, counts or letters need not.
 *     After an error *work is NULL.
 *   - Counts are elements of `dtype`. Input and output may be the same memory, or one may be this rank's place in the other
 *     where that is for all ranks; otherwise they must not overlap, and those of all_to_all never.
 *   - A rank outside the group may make calls and letters: nothing happens, and it gets UNISONO_OK and a work that is over.
 *   - `timeout_s` 0 is the default: that of the group, or for a wait as long as the call takes. Negative ones are errors. A call
 *     without one has the deadline of its group, or that of unisono_set_call_timeout().
 *   - A group, or a prepared call, of a world that was left is UNISONO_STATE_ERROR, whether or not another was joined.
 *   - Any thread may call; calls on one group happen in the order made. */
#ifndef UNISONO_UNISONO_H
#define UNISONO_UNISONO_H

#include <stdint.h>

#define UNISONO_VERSION_MAJOR 0
#define UNISONO_VERSION_MINOR 1
#define UNISONO_VERSION_PATCH 0

#pragma GCC visibility push(default)

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t unisono_status;
enum {
  UNISONO_OK = 0,
  UNISONO_ARGUMENT_ERROR = 1,      /* this rank's arguments; no byte was moved, the group is usable */
  UNISONO_ARGUMENT_TYPE_ERROR = 2, /* likewise, of a type; not from C */
  UNISONO_PEER_ARGUMENT_ERROR = 3, /* another rank refused this call; the group is usable */
  UNISONO_MISMATCH_ERROR = 4,      /* ranks made different calls; the group is usable */
  UNISONO_PEER_LOST_ERROR = 5,     /* a member died, left, or went silent; the group is broken */
  UNISONO_TIMEOUT_ERROR = 6,       /* the deadline passed; the group is broken, but not by a wait that gave up */
  UNISONO_REVOKED_ERROR = 7,       /* somebody aborted or broke the group */
  UNISONO_INIT_ERROR = 8,          /* joining failed */
  UNISONO_AUTH_ERROR = 9,          /* joining: not who they should be */
  UNISONO_VERSION_ERROR = 10,      /* joining: another version of the library */
  UNISONO_RESOURCE_ERROR = 11,     /* descriptors, threads, shared memory */
  UNISONO_MEMORY_ERROR = 12,       /* memory */
  UNISONO_PROTOCOL_ERROR = 13,     /* bytes that cannot be */
  UNISONO_CORRUPTION_ERROR = 14,   /* a checksum does not match */
  UNISONO_STATE_ERROR = 15,        /* use before init, after finalize, after fork */
  UNISONO_STORE_LOST_ERROR = 16,   /* the file that ranks meet by cannot be used */
  UNISONO_INTERNAL_ERROR = 17      /* a bug of the library */
};

typedef int32_t unisono_dtype;
enum {
  UNISONO_BOOL = 0,
  UNISONO_INT8 = 1,
  UNISONO_INT16 = 2,
  UNISONO_INT32 = 3,
  UNISONO_INT64 = 4,
  UNISONO_UINT8 = 5,
  UNISONO_UINT16 = 6,
  UNISONO_UINT32 = 7,
  UNISONO_UINT64 = 8,
  UNISONO_FLOAT16 = 9,
  UNISONO_BFLOAT16 = 10,
  UNISONO_FLOAT32 = 11,
  UNISONO_FLOAT64 = 12,
  UNISONO_COMPLEX64 = 13,
  UNISONO_COMPLEX128 = 14,
  UNISONO_FLOAT8_E4M3FN = 15,
  UNISONO_FLOAT8_E5M2 = 16,
  UNISONO_FLOAT8_E4M3FNUZ = 17, /* this and the next two move, but do not add */
  UNISONO_FLOAT8_E5M2FNUZ = 18,
  UNISONO_FLOAT8_E8M0FNU = 19
};

typedef int32_t unisono_op;
enum {
  UNISONO_SUM = 0,
  UNISONO_AVG = 1, /* not of a scan */
  UNISONO_PRODUCT = 2,
  UNISONO_MIN = 3,
  UNISONO_MAX = 4,
  UNISONO_BAND = 5,
  UNISONO_BOR = 6,
  UNISONO_BXOR = 7
  /* 8 is premul_sum, which needs a factor, and 9 a function of your own: unisono_op_premul_sum(), unisono_op_create(). Ops
     that are made have numbers from 256 on. */
};

enum { UNISONO_ANY_SOURCE = -1 };
enum { UNISONO_SEND = 0, UNISONO_RECV = 1 };

typedef struct unisono_group unisono_group;
typedef struct unisono_work unisono_work;
typedef struct unisono_prepared unisono_prepared;

/* One letter of a batch. */
typedef struct unisono_letter {
  int32_t kind;        /* UNISONO_SEND or UNISONO_RECV */
  unisono_dtype dtype;
  void* tensor;        /* where it is sent, it is only read */
  int64_t count;
  int32_t group_peer;  /* to receive from any rank, UNISONO_ANY_SOURCE */
  int32_t tag;
} unisono_letter;

/* ---- What there is to ask at any time. */

/* The library's version, as 10000 * major + 100 * minor + patch. */
int unisono_version(void);
/* "MismatchError"; of a number that is no status, "no such error". */
const char* unisono_error_name(unisono_status status);
/* The sentence of the last error in this thread, beginning with its name; "" where there was none. Stays until the next. */
const char* unisono_last_error(void);
/* How long one element is; 0 of a number that is no dtype. */
int64_t unisono_dtype_bytes(unisono_dtype dtype);
/* Makes the op that multiplies every contribution by `factor` and adds; integers need a whole one. */
unisono_status unisono_op_premul_sum(double factor, unisono_op* op);
/* Combines `count` elements of two ranks: upper[i] becomes lower[i] combined with upper[i], `lower` being the lower rank's. */
typedef void (*unisono_combine)(const void* lower, void* upper, int64_t count, unisono_dtype dtype, void* context);
/* Makes an op of a function of your own, for every dtype. It has to be associative; where it is not commutative, ranks are
   combined in their order. All ranks give the same name. It may run on another thread, and must not call the library. */
unisono_status unisono_op_create(const char* name, unisono_combine combine, void* context, int commutative, unisono_op* op);
/* Forgets an op that was made; calls under way have it still. */
unisono_status unisono_op_free(unisono_op op);

/* ---- Joining and leaving. */

/* Joins the world as the launcher says; without one, a world of one. A second call finds the world there. */
unisono_status unisono_init(void);
/* The same as rank `rank` of `size`; both -1: as the launcher says. Ranks with the same `job` meet; NULL: the launcher's.
   `timeout_s` is the deadline of joining and of calls; 0: those of UNISONO_JOIN_TIMEOUT and UNISONO_TIMEOUT. */
unisono_status unisono_init_with(int rank, int size, const char* job, double timeout_s);
/* The same through `init_method`: of "file:///path", ranks that name the same file meet, and both rank and size are needed; the
   file is made if absent and not removed. "env://" and NULL: as the launcher says. */
unisono_status unisono_init_at(const char* init_method, int rank, int size, double timeout_s);
/* Leaves the world and all groups; it may be joined again. Handles are still to be freed, and are good for nothing else. */
unisono_status unisono_finalize(void);
/* 1 between unisono_init() and unisono_finalize(), else 0. */
int unisono_is_initialized(void);

/* ---- Groups. */

/* This rank in the group; -1 outside it. */
unisono_status unisono_group_rank(const unisono_group* group, int* rank);
/* How many ranks the group has; -1 outside it. */
unisono_status unisono_group_size(const unisono_group* group, int* size);
/* The world's rank of a rank of the group. */
unisono_status unisono_group_to_world(const unisono_group* group, int rank, int* world_rank);
/* The group's rank of a rank of the world; UNISONO_ARGUMENT_ERROR when it is not in the group. */
unisono_status unisono_group_from_world(const unisono_group* group, int world_rank, int* rank);
/* A group of these ranks of the world, in this order; count 0: of all. `name` NULL: one is made. The members call; others may. */
unisono_status unisono_group_new(const int* world_ranks, int count, const char* name, double timeout_s, unisono_group** made);
/* Every rank of `group` calls; those of the same colour form a group, ordered by key and then by rank. Negative: none. */
unisono_status unisono_group_split(const unisono_group* group, int colour, int key, unisono_group** made);
/* The group without these ranks and without those that are gone; the others call, also when the group is broken. */
unisono_status unisono_group_shrink(const unisono_group* group, const int* excluded, int count, unisono_group** made);
/* Leaves the group and frees the handle, whatever comes back; of a group whose world was left, UNISONO_STATE_ERROR does. */
unisono_status unisono_group_destroy(unisono_group* group);
/* *answer is 1 when every rank of the group that is still there passes a flag that is not 0; all get the same answer. */
unisono_status unisono_group_agree(const unisono_group* group, int flag, double timeout_s, int* answer);
/* The ranks of the world, in their order, of those members that are known to have died or left, also on a broken group: *count
   becomes how many they are, and the first `capacity` of them are written to `failed`, which may be NULL where that is 0. */
unisono_status unisono_group_failed_ranks(const unisono_group* group, int* failed, int capacity, int* count);
/* Ends every call on the group on every rank with UNISONO_REVOKED_ERROR; the group is broken afterwards. `why` may be NULL. */
unisono_status unisono_group_abort(const unisono_group* group, const char* why);

/* ---- Deadlines. */

/* The deadline of every collective, letter and agreement that this thread makes or prepares from now on; 0: that of the group
   again. *before, unless NULL, becomes what it was, for whoever has to put it back. It is one number a thread, since a deadline
   is that of a phase of a program rather than of one call, and so every other function stays as short as it is. */
unisono_status unisono_set_call_timeout(double timeout_s, double* before);

/* ---- Works. */

/* Returns once the call is over, with its status; UNISONO_TIMEOUT_ERROR when that takes longer, and then it goes on. */
unisono_status unisono_work_wait(unisono_work* work, double timeout_s);
/* *is_over is 1 when the call is over, and then its status comes back; never waits. */
unisono_status unisono_work_test(unisono_work* work, int* is_over);
/* Of a receive that is over: who sent it, as a rank of the group. -1 of everything else. */
unisono_status unisono_work_source(const unisono_work* work, int* source);
/* Frees the handle; a call under way goes on. NULL is nothing to free. */
void unisono_work_free(unisono_work* work);

/* ---- Collectives. Where `input` may be NULL, the input is what `output` holds. */

/* The reduction of everybody's input, in everybody's output. `input` may be NULL. */
unisono_status unisono_all_reduce(const void* input, void* output, int64_t count, unisono_dtype dtype, unisono_op op,
                                  const unisono_group* group, unisono_work** work);
/* Rank r gets the reduction of the inputs of ranks 0 to r. `input` may be NULL. */
unisono_status unisono_scan(const void* input, void* output, int64_t count, unisono_dtype dtype, unisono_op op,
                            const unisono_group* group, unisono_work** work);
/* Rank r gets the reduction of the inputs of ranks 0 to r - 1; rank 0's output keeps its bytes. `input` may be NULL. */
unisono_status unisono_exscan(const void* input, void* output, int64_t count, unisono_dtype dtype, unisono_op op,
                              const unisono_group* group, unisono_work** work);
/* Many pieces of memory in one call, each in place: tensors[i] has counts[i] elements. */
unisono_status unisono_all_reduce_coalesced(void* const* tensors, const int64_t* counts, int tensor_count, unisono_dtype dtype,
                                            unisono_op op, const unisono_group* group, unisono_work** work);
/* outputs[j] is what unisono_all_gather_into_tensor() makes of inputs[j], of counts[j] elements each. `inputs` may be NULL. */
unisono_status unisono_all_gather_into_tensor_coalesced(const void* const* inputs, void* const* outputs, const int64_t* counts,
                                                        int tensor_count, unisono_dtype dtype, const unisono_group* group,
                                                        unisono_work** work);
/* outputs[j], of counts[j] elements, is what unisono_reduce_scatter_tensor() makes of everybody's inputs[j]. */
unisono_status unisono_reduce_scatter_tensor_coalesced(const void* const* inputs, void* const* outputs, const int64_t* counts,
                                                       int tensor_count, unisono_dtype dtype, unisono_op op,
                                                       const unisono_group* group, unisono_work** work);
/* The reduction in group_dst's output; the others' is not touched and may be NULL. `input` may be NULL. */
unisono_status unisono_reduce(const void* input, void* output, int64_t count, unisono_dtype dtype, unisono_op op, int group_dst,
                              const unisono_group* group, unisono_work** work);
/* `count` elements of `tensor` on group_src, on every rank. */
unisono_status unisono_broadcast(void* tensor, int64_t count, unisono_dtype dtype, int group_src, const unisono_group* group,
                                 unisono_work** work);
/* Rank i's `count` elements stand at place i of everybody's output. `input` may be NULL: then it stands in its place already. */
unisono_status unisono_all_gather_into_tensor(const void* input, void* output, int64_t count, unisono_dtype dtype,
                                              const unisono_group* group, unisono_work** work);
/* tensor_list[i] becomes rank i's tensor, of counts[i] elements; `tensor` has as many as this rank's place says. */
unisono_status unisono_all_gather(const void* tensor, void* const* tensor_list, const int64_t* counts, unisono_dtype dtype,
                                  const unisono_group* group, unisono_work** work);
/* `output`, of `count` elements, is the reduction of place r of everybody's input, r being this rank. */
unisono_status unisono_reduce_scatter_tensor(const void* input, void* output, int64_t count, unisono_dtype dtype, unisono_op op,
                                             const unisono_group* group, unisono_work** work);
/* The same of everybody's input_list[r]; input_list[i] has counts[i] elements. */
unisono_status unisono_reduce_scatter(const void* const* input_list, void* output, const int64_t* counts, unisono_dtype dtype,
                                      unisono_op op, const unisono_group* group, unisono_work** work);
/* `output` gets the `count` elements at place r of group_src's input, r being this rank; the others' input is not looked at. */
unisono_status unisono_scatter_tensor(const void* input, void* output, int64_t count, unisono_dtype dtype, int group_src,
                                      const unisono_group* group, unisono_work** work);
/* The same of group_src's scatter_list[r]; NULL on the others. */
unisono_status unisono_scatter(const void* const* scatter_list, void* tensor, int64_t count, unisono_dtype dtype, int group_src,
                               const unisono_group* group, unisono_work** work);
/* Rank i's `count` elements stand at place i of group_dst's output; the others' is not touched and may be NULL. */
unisono_status unisono_gather_into_tensor(const void* input, void* output, int64_t count, unisono_dtype dtype, int group_dst,
                                          const unisono_group* group, unisono_work** work);
/* The same in group_dst's gather_list[i]; NULL on the others. */
unisono_status unisono_gather(const void* tensor, void* const* gather_list, int64_t count, unisono_dtype dtype, int group_dst,
                              const unisono_group* group, unisono_work** work);
/* The `count` elements at place i of `output` are those at place r of rank i's input, r being this rank. */
unisono_status unisono_all_to_all_single(const void* input, void* output, int64_t count, unisono_dtype dtype,
                                         const unisono_group* group, unisono_work** work);
/* The same where input_split_sizes[i] elements go to rank i and output_split_sizes[i] come from it, one after the other. */
unisono_status unisono_all_to_all_single_split(const void* input, const int64_t* input_split_sizes, void* output,
                                               const int64_t* output_split_sizes, unisono_dtype dtype, const unisono_group* group,
                                               unisono_work** work);
/* The same wherever each of them lies. */
unisono_status unisono_all_to_all(const void* const* input_list, const int64_t* input_counts, void* const* output_list,
                                  const int64_t* output_counts, unisono_dtype dtype, const unisono_group* group,
                                  unisono_work** work);
/* Returns, or is over, once every rank has come. */
unisono_status unisono_barrier(const unisono_group* group, unisono_work** work);
/* A barrier for finding out who does not come: UNISONO_TIMEOUT_ERROR on those who did, naming the others. */
unisono_status unisono_monitored_barrier(const unisono_group* group, double timeout_s);

/* ---- From one rank to another. A letter meets the receive with its tag, in the order sent; sizes and dtypes must agree. */

/* Small ones are on their way when this returns; large ones have been taken. */
unisono_status unisono_send(const void* tensor, int64_t count, unisono_dtype dtype, int group_peer, int tag,
                            const unisono_group* group, unisono_work** work);
/* From group_peer, or from any rank with UNISONO_ANY_SOURCE. *source, unless NULL, becomes who sent it; with `work`, ask that. */
unisono_status unisono_recv(void* tensor, int64_t count, unisono_dtype dtype, int group_peer, int tag, int* source,
                            const unisono_group* group, unisono_work** work);
/* All of them at once, in any order, and none where one of them cannot be. `works` has a place for each, or is NULL: then all are
   over when this returns, with the first error. */
unisono_status unisono_batch_send_recv(const unisono_letter* letters, int letter_count, const unisono_group* group,
                                       unisono_work** works);

/* ---- Calls that are made again and again: checked, planned and described once, and then only performed. On the wire a prepared
   call is the call: other ranks may make it either way. Preparing is no call, and tells nobody anything, also of what is wrong.
   One is used by one thread at a time; all memory that was given must live as long as it is used. */

/* Each prepares the call that is named after it. */
unisono_status unisono_prepare_all_reduce(const void* input, void* output, int64_t count, unisono_dtype dtype, unisono_op op,
                                          const unisono_group* group, unisono_prepared** prepared);
unisono_status unisono_prepare_scan(const void* input, void* output, int64_t count, unisono_dtype dtype, unisono_op op,
                                    const unisono_group* group, unisono_prepared** prepared);
unisono_status unisono_prepare_exscan(const void* input, void* output, int64_t count, unisono_dtype dtype, unisono_op op,
                                      const unisono_group* group, unisono_prepared** prepared);
unisono_status unisono_prepare_all_reduce_coalesced(void* const* tensors, const int64_t* counts, int tensor_count,
                                                    unisono_dtype dtype, unisono_op op, const unisono_group* group,
                                                    unisono_prepared** prepared);
unisono_status unisono_prepare_all_gather_into_tensor_coalesced(const void* const* inputs, void* const* outputs,
                                                                const int64_t* counts, int tensor_count, unisono_dtype dtype,
                                                                const unisono_group* group, unisono_prepared** prepared);
unisono_status unisono_prepare_reduce_scatter_tensor_coalesced(const void* const* inputs, void* const* outputs,
                                                               const int64_t* counts, int tensor_count, unisono_dtype dtype,
                                                               unisono_op op, const unisono_group* group,
                                                               unisono_prepared** prepared);
unisono_status unisono_prepare_reduce(const void* input, void* output, int64_t count, unisono_dtype dtype, unisono_op op,
                                      int group_dst, const unisono_group* group, unisono_prepared** prepared);
unisono_status unisono_prepare_broadcast(void* tensor, int64_t count, unisono_dtype dtype, int group_src,
                                         const unisono_group* group, unisono_prepared** prepared);
unisono_status unisono_prepare_all_gather_into_tensor(const void* input, void* output, int64_t count, unisono_dtype dtype,
                                                      const unisono_group* group, unisono_prepared** prepared);
unisono_status unisono_prepare_all_gather(const void* tensor, void* const* tensor_list, const int64_t* counts,
                                          unisono_dtype dtype, const unisono_group* group, unisono_prepared** prepared);
unisono_status unisono_prepare_reduce_scatter_tensor(const void* input, void* output, int64_t count, unisono_dtype dtype,
                                                     unisono_op op, const unisono_group* group, unisono_prepared** prepared);
unisono_status unisono_prepare_reduce_scatter(const void* const* input_list, void* output, const int64_t* counts,
                                              unisono_dtype dtype, unisono_op op, const unisono_group* group,
                                              unisono_prepared** prepared);
unisono_status unisono_prepare_scatter_tensor(const void* input, void* output, int64_t count, unisono_dtype dtype, int group_src,
                                              const unisono_group* group, unisono_prepared** prepared);
unisono_status unisono_prepare_scatter(const void* const* scatter_list, void* tensor, int64_t count, unisono_dtype dtype,
                                       int group_src, const unisono_group* group, unisono_prepared** prepared);
unisono_status unisono_prepare_gather_into_tensor(const void* input, void* output, int64_t count, unisono_dtype dtype,
                                                  int group_dst, const unisono_group* group, unisono_prepared** prepared);
unisono_status unisono_prepare_gather(const void* tensor, void* const* gather_list, int64_t count, unisono_dtype dtype,
                                      int group_dst, const unisono_group* group, unisono_prepared** prepared);
unisono_status unisono_prepare_all_to_all_single(const void* input, void* output, int64_t count, unisono_dtype dtype,
                                                 const unisono_group* group, unisono_prepared** prepared);
unisono_status unisono_prepare_all_to_all_single_split(const void* input, const int64_t* input_split_sizes, void* output,
                                                       const int64_t* output_split_sizes, unisono_dtype dtype,
                                                       const unisono_group* group, unisono_prepared** prepared);
unisono_status unisono_prepare_all_to_all(const void* const* input_list, const int64_t* input_counts, void* const* output_list,
                                          const int64_t* output_counts, unisono_dtype dtype, const unisono_group* group,
                                          unisono_prepared** prepared);
unisono_status unisono_prepare_barrier(const unisono_group* group, unisono_prepared** prepared);
/* Makes the call, without waiting for it. UNISONO_STATE_ERROR where the last one was not waited for. */
unisono_status unisono_prepared_start(unisono_prepared* prepared);
/* Returns once the call that was started is over, with its status; then it may be started again. UNISONO_TIMEOUT_ERROR when that
   takes longer, and then it goes on. UNISONO_STATE_ERROR where none was started. */
unisono_status unisono_prepared_wait(unisono_prepared* prepared, double timeout_s);
/* *is_over is 1 when no call is under way; never waits. What was started is to be waited for all the same. */
unisono_status unisono_prepared_test(const unisono_prepared* prepared, int* is_over);
/* Both, start and wait. */
unisono_status unisono_prepared_run(unisono_prepared* prepared);
/* Frees the handle; a call under way goes on. NULL is nothing to free. */
void unisono_prepared_free(unisono_prepared* prepared);

/* ---- Shared memory: every function takes it, beside private memory on other ranks, and reads it where it lies, unstaged. */

/* `count` zeros that all ranks of this machine have mapped. This rank alone makes them; UNISONO_ARENA limits how many. */
unisono_status unisono_shared_alloc(int64_t count, unisono_dtype dtype, void** memory);
/* Gives it back, once no call uses it any more; also after unisono_finalize(). NULL is nothing to give back. */
unisono_status unisono_shared_free(void* memory);

#ifdef __cplusplus
}
#endif

#pragma GCC visibility pop

#endif
