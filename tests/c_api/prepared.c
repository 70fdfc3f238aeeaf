/* Prepared calls: each is compared with the call that it is named after, which collectives.c has tried. */
#include <stddef.h>
#include <string.h>

#include "ranks.h"

enum { NUMBER_OF_CALLS = 20, MOST_PARTS = 300 };

static int32_t input[MOST_RANKS * MOST_PARTS], output[MOST_RANKS * MOST_PARTS], wanted[MOST_RANKS * MOST_PARTS];
static const void* sources[MOST_RANKS];
static void* places[MOST_RANKS];
static int64_t counts[MOST_RANKS];
static int me, ranks;
static const unisono_dtype type = UNISONO_INT32;
static const unisono_op sum = UNISONO_SUM;

/* What the calls are given, but for the lists, is the same every time: only the lists are used up by preparing. */
static void lay_out(int32_t* to, int64_t count) {
  int rank;
  for (rank = 0; rank < MOST_RANKS; ++rank) {
    sources[rank] = rank < ranks ? input + rank * count : NULL;
    places[rank] = rank < ranks ? to + rank * count : NULL;
    counts[rank] = count;
  }
}

static void forget_lists(void) {
  memset(sources, 0, sizeof sources);
  memset(places, 0, sizeof places);
  memset(counts, -1, sizeof counts);
}

static void fill(int32_t* to, int round) {
  int64_t index;
  for (index = 0; index < MOST_RANKS * MOST_PARTS; ++index) {
    input[index] = given(me, index) + 7 * round;
    to[index] = given(me, index + 1) + 5 * round;
  }
}

static unisono_status call(int which, int32_t* to, int64_t count, const unisono_group* group) {
  const int root = ranks - 1;
  lay_out(to, count);
  switch (which) {
    case 0: return unisono_all_reduce(input, to, count, type, sum, group, NULL);
    case 1: return unisono_scan(input, to, count, type, sum, group, NULL);
    case 2: return unisono_exscan(input, to, count, type, sum, group, NULL);
    case 3: return unisono_all_reduce_coalesced(places, counts, 1, type, sum, group, NULL);
    case 4: return unisono_all_gather_into_tensor_coalesced(sources, places, counts, 1, type, group, NULL);
    case 5: return unisono_reduce_scatter_tensor_coalesced(sources, places, counts, 1, type, sum, group, NULL);
    case 6: return unisono_reduce(input, to, count, type, sum, root, group, NULL);
    case 7: return unisono_broadcast(to, count, type, root, group, NULL);
    case 8: return unisono_all_gather_into_tensor(input, to, count, type, group, NULL);
    case 9: return unisono_all_gather(input, places, counts, type, group, NULL);
    case 10: return unisono_reduce_scatter_tensor(input, to, count, type, sum, group, NULL);
    case 11: return unisono_reduce_scatter(sources, to, counts, type, sum, group, NULL);
    case 12: return unisono_scatter_tensor(input, to, count, type, root, group, NULL);
    case 13: return unisono_scatter(me == root ? sources : NULL, to, count, type, root, group, NULL);
    case 14: return unisono_gather_into_tensor(input, to, count, type, root, group, NULL);
    case 15: return unisono_gather(input, me == root ? places : NULL, count, type, root, group, NULL);
    case 16: return unisono_all_to_all_single(input, to, count, type, group, NULL);
    case 17: return unisono_all_to_all_single_split(input, counts, to, counts, type, group, NULL);
    case 18: return unisono_all_to_all(sources, counts, places, counts, type, group, NULL);
    default: return unisono_barrier(group, NULL);
  }
}

static unisono_status prepare(int which, int32_t* to, int64_t count, const unisono_group* group, unisono_prepared** made) {
  const int root = ranks - 1;
  lay_out(to, count);
  switch (which) {
    case 0: return unisono_prepare_all_reduce(input, to, count, type, sum, group, made);
    case 1: return unisono_prepare_scan(input, to, count, type, sum, group, made);
    case 2: return unisono_prepare_exscan(input, to, count, type, sum, group, made);
    case 3: return unisono_prepare_all_reduce_coalesced(places, counts, 1, type, sum, group, made);
    case 4: return unisono_prepare_all_gather_into_tensor_coalesced(sources, places, counts, 1, type, group, made);
    case 5: return unisono_prepare_reduce_scatter_tensor_coalesced(sources, places, counts, 1, type, sum, group, made);
    case 6: return unisono_prepare_reduce(input, to, count, type, sum, root, group, made);
    case 7: return unisono_prepare_broadcast(to, count, type, root, group, made);
    case 8: return unisono_prepare_all_gather_into_tensor(input, to, count, type, group, made);
    case 9: return unisono_prepare_all_gather(input, places, counts, type, group, made);
    case 10: return unisono_prepare_reduce_scatter_tensor(input, to, count, type, sum, group, made);
    case 11: return unisono_prepare_reduce_scatter(sources, to, counts, type, sum, group, made);
    case 12: return unisono_prepare_scatter_tensor(input, to, count, type, root, group, made);
    case 13: return unisono_prepare_scatter(me == root ? sources : NULL, to, count, type, root, group, made);
    case 14: return unisono_prepare_gather_into_tensor(input, to, count, type, root, group, made);
    case 15: return unisono_prepare_gather(input, me == root ? places : NULL, count, type, root, group, made);
    case 16: return unisono_prepare_all_to_all_single(input, to, count, type, group, made);
    case 17: return unisono_prepare_all_to_all_single_split(input, counts, to, counts, type, group, made);
    case 18: return unisono_prepare_all_to_all(sources, counts, places, counts, type, group, made);
    default: return unisono_prepare_barrier(group, made);
  }
}

/* Every second round started and waited for; in the last one, every second rank makes the call without preparing it. */
static void try_one(int which, int64_t count, const unisono_group* group) {
  unisono_prepared* prepared = NULL;
  int round, is_over;
  expect_ok(prepare(which, output, count, group, &prepared), "preparing a call");
  forget_lists();
  for (round = 0; round < 4; ++round) {
    fill(wanted, round);
    expect_ok(call(which, wanted, count, group), "the call");
    fill(output, round);
    if (round == 3 && me % 2 == 1) {
      expect_ok(call(which, output, count, group), "the call beside prepared ones");
    } else if (round % 2 == 0) {
      expect_ok(unisono_prepared_run(prepared), "the prepared call");
    } else {
      expect_ok(unisono_prepared_start(prepared), "prepared_start");
      expect_ok(unisono_prepared_wait(prepared, 0), "prepared_wait");
      is_over = -1;
      expect_ok(unisono_prepared_test(prepared, &is_over), "prepared_test");
      expect(is_over == 1, "a prepared call that was waited for is over");
    }
    expect(memcmp(output, wanted, sizeof output) == 0, "a prepared call does what the call does");
  }
  unisono_prepared_free(prepared);
}

static void try_misuse(void) {
  unisono_prepared* prepared = (unisono_prepared*)input;
  int is_over = -1, rank;
  int32_t word = 0;
  expect_error(unisono_prepare_all_reduce(input, NULL, 1, type, sum, NULL, &prepared), UNISONO_ARGUMENT_ERROR,
               "output of shape (1) is a null pointer", "preparing an all_reduce into NULL");
  expect(prepared == NULL, "nothing is prepared after an error");
  expect_error(unisono_prepare_barrier(NULL, NULL), UNISONO_ARGUMENT_ERROR, "prepared is a null pointer", "preparing into NULL");
  expect_error(unisono_prepare_broadcast(output, 1, 77, 0, NULL, &prepared), UNISONO_ARGUMENT_ERROR, "dtype is number 77",
               "preparing a broadcast of no dtype");
  expect_error(unisono_prepare_all_gather(output, NULL, counts, type, NULL, &prepared), UNISONO_ARGUMENT_ERROR,
               "tensor_list is a null pointer", "preparing an all_gather into no list");
  expect_error(unisono_prepared_start(NULL), UNISONO_ARGUMENT_ERROR, "prepared is a null pointer", "starting NULL");
  expect_error(unisono_prepared_run(NULL), UNISONO_ARGUMENT_ERROR, "prepared is a null pointer", "running NULL");
  expect_error(unisono_prepared_wait(NULL, 0), UNISONO_ARGUMENT_ERROR, "prepared is a null pointer", "waiting for NULL");
  expect_error(unisono_prepared_test(NULL, &is_over), UNISONO_ARGUMENT_ERROR, "prepared is a null pointer", "testing NULL");
  unisono_prepared_free(NULL);
  expect_ok(unisono_prepare_barrier(NULL, &prepared), "prepare_barrier");
  expect_error(unisono_prepared_wait(prepared, 0), UNISONO_STATE_ERROR, "was not started", "waiting for what was not started");
  expect_error(unisono_prepared_wait(prepared, -1), UNISONO_ARGUMENT_ERROR, "timeout_s is -1", "waiting for less than nothing");
  expect_error(unisono_prepared_test(prepared, NULL), UNISONO_ARGUMENT_ERROR, "is_over is a null pointer", "testing into NULL");
  if (world_rank == 0) {
    expect_ok(unisono_prepared_start(prepared), "prepared_start");
    expect_error(unisono_prepared_start(prepared), UNISONO_STATE_ERROR, "started already", "starting again");
    expect_error(unisono_prepared_run(prepared), UNISONO_STATE_ERROR, "started already", "running what was started");
    expect_ok(unisono_prepared_test(prepared, &is_over), "testing a barrier");
    expect(world_size == 1 || is_over == 0, "nobody else is in this barrier yet");
    if (world_size > 1)
      expect_error(unisono_prepared_wait(prepared, 0.001), UNISONO_TIMEOUT_ERROR, "may be waited for again",
                   "a wait that gives up");
    for (rank = 1; rank < world_size; ++rank) expect_ok(unisono_send(&word, 1, type, rank, 21, NULL, NULL), "go on");
    expect_ok(unisono_prepared_wait(prepared, 0), "prepared_wait");
  } else {
    expect_ok(unisono_recv(&word, 1, type, 0, 21, NULL, NULL, NULL), "may we go on");
    expect_ok(unisono_prepared_run(prepared), "prepared_run");
  }
  unisono_prepared_free(prepared);
}

void try_prepared(const unisono_group* group) {
  int which;
  expect_ok(unisono_group_rank(group, &me), "group_rank");
  expect_ok(unisono_group_size(group, &ranks), "group_size");
  for (which = 0; which < NUMBER_OF_CALLS; ++which) {
    try_one(which, 3, group);
    try_one(which, MOST_PARTS, group);
  }
  if (!group) try_misuse();
}

/* Outside the group a prepared call does nothing. */
void try_prepared_outside(const unisono_group* group) {
  unisono_prepared* prepared = NULL;
  int is_over = -1;
  int32_t word = 5;
  expect_ok(unisono_prepare_all_reduce(NULL, &word, 1, type, sum, group, &prepared), "preparing outside");
  expect_ok(unisono_prepared_start(prepared), "starting outside");
  expect_ok(unisono_prepared_wait(prepared, 0), "waiting outside");
  expect_ok(unisono_prepared_run(prepared), "running outside");
  expect_ok(unisono_prepared_test(prepared, &is_over), "testing outside");
  expect(is_over == 1 && word == 5, "nothing is done outside");
  unisono_prepared_free(prepared);
}
