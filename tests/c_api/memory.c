/* Shared memory, and deadlines of calls. */
#include <stddef.h>

#include "ranks.h"

static int32_t plain[MOST_RANKS * MOST_COUNT];

/* Shared on the even ranks, private on the odd ones. */
void try_shared_memory(void) {
  void *mine = NULL, *all = NULL, *none = plain;
  int32_t *from = NULL, *to = NULL;
  int64_t index, wrong = 0;
  int rank;
  expect_ok(unisono_shared_alloc(MOST_COUNT, UNISONO_INT32, &mine), "shared_alloc");
  expect_ok(unisono_shared_alloc(MOST_RANKS * MOST_COUNT, UNISONO_INT32, &all), "a second shared_alloc");
  from = (int32_t*)mine;
  to = world_rank % 2 == 0 ? (int32_t*)all : plain;
  for (index = 0; index < MOST_COUNT; ++index) wrong += from[index] != 0;
  for (index = 0; index < MOST_RANKS * MOST_COUNT; ++index) wrong += ((int32_t*)all)[index] != 0;
  expect(mine != all && wrong == 0, "shared memory begins as zeros");
  for (index = 0; index < MOST_COUNT; ++index) from[index] = given(world_rank, index);
  expect_ok(unisono_all_gather_into_tensor(from, to, MOST_COUNT, UNISONO_INT32, NULL, NULL), "all_gather of shared memory");
  for (rank = 0; rank < world_size; ++rank)
    for (index = 0; index < MOST_COUNT; ++index) wrong += to[rank * MOST_COUNT + index] != given(rank, index);
  expect(wrong == 0, "what all_gather of shared memory gave");
  expect_ok(unisono_shared_free(all), "shared_free");
  expect_error(unisono_shared_free(all), UNISONO_ARGUMENT_ERROR, "given back already", "shared_free again");
  expect_error(unisono_shared_free(from + 1), UNISONO_ARGUMENT_ERROR, "is none", "shared_free of what was not given");
  expect_ok(unisono_shared_free(mine), "shared_free");
  expect_ok(unisono_shared_free(NULL), "shared_free of nothing");
  expect_error(unisono_shared_alloc(-1, UNISONO_INT32, &none), UNISONO_ARGUMENT_ERROR, "(-1)",
               "shared_alloc of less than nothing");
  expect(none == NULL, "no memory after an error");
  expect_error(unisono_shared_alloc(1, 99, &none), UNISONO_ARGUMENT_ERROR, "dtype is number 99", "shared_alloc of no dtype");
  expect_error(unisono_shared_alloc(1, UNISONO_INT32, NULL), UNISONO_ARGUMENT_ERROR, "memory is a null pointer",
               "shared_alloc into NULL");
  expect_error(unisono_shared_alloc(INT64_MAX / 64, UNISONO_INT64, &none), UNISONO_MEMORY_ERROR, "UNISONO_ARENA",
               "shared_alloc of more than there is");
}

/* Rank 0 makes a call that nobody else comes to: its deadline is this thread's, for the group's is far away. The wait has one of
   its own only so that a deadline that is not kept is a failure and no test without an end. */
static void try_deadline(int form, const unisono_group* group) {
  const double long_enough = 60;
  unisono_work* work = NULL;
  unisono_prepared* prepared = NULL;
  double before = -1;
  int32_t word = 0;
  int answer = -1;
  unisono_status status;
  expect_ok(unisono_set_call_timeout(0.02, &before), "set_call_timeout");
  expect(before == 0, "at first there is none");
  if (form == 2) {
    expect_ok(unisono_prepare_barrier(group, &prepared), "preparing a call with a deadline");
    expect_ok(unisono_set_call_timeout(0, NULL), "set_call_timeout");
    expect_ok(unisono_prepared_start(prepared), "starting it");
    status = unisono_prepared_wait(prepared, long_enough);
  } else if (form >= 3) {
    status = form == 3 ? unisono_monitored_barrier(group, 0) : unisono_group_agree(group, 1, 0, &answer);
  } else {
    expect_ok(form == 0 ? unisono_all_reduce(NULL, &word, 1, UNISONO_INT32, UNISONO_SUM, group, &work)
                        : unisono_recv(&word, 1, UNISONO_INT32, 1, 0, NULL, group, &work),
              "a call with a deadline");
    status = unisono_work_wait(work, long_enough);
  }
  expect_error(status, UNISONO_TIMEOUT_ERROR, form == 4 ? "waited 0.0 s to agree" : "This group is broken",
               "a call that nobody comes to");
  unisono_work_free(work);
  unisono_prepared_free(prepared);
  expect_ok(unisono_set_call_timeout(0, &before), "set_call_timeout again");
  expect(before == (form == 2 ? 0 : 0.02), "what it was before");
}

void try_deadlines(void) {
  int form;
  double before = -1;
  expect_error(unisono_set_call_timeout(-1, &before), UNISONO_ARGUMENT_ERROR, "timeout_s is -1", "a negative deadline");
  expect(before == -1, "an error tells nothing else");
  for (form = 0; form < 5 && world_size > 1; ++form) {
    unisono_group* group = NULL;
    int32_t word = 0;
    int rank;
    expect_ok(unisono_group_new(NULL, 0, NULL, 1000, &group), "a group that waits long");
    if (world_rank == 0) try_deadline(form, group);
    for (rank = 1; rank < world_size && world_rank == 0; ++rank)
      expect_ok(unisono_send(&word, 1, UNISONO_INT32, rank, 31, NULL, NULL), "telling the others");
    if (world_rank != 0) expect_ok(unisono_recv(&word, 1, UNISONO_INT32, 0, 31, NULL, NULL, NULL), "rank 0 has given up");
    expect_ok(unisono_group_destroy(group), "destroying a group that rank 0 has given up");
  }
}
