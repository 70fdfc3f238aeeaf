/* Groups: made, split, shrunk, asked about, aborted; and ranks that are outside. */
#include <stddef.h>

#include "ranks.h"

static int32_t sum_of_ones(const unisono_group* group) {
  int32_t one = 1;
  expect_ok(unisono_all_reduce(NULL, &one, 1, UNISONO_INT32, UNISONO_SUM, group, NULL), "all_reduce on a group");
  return one;
}

/* The even and the odd ranks, each in reverse order. */
static void try_split(void) {
  unisono_group* half = NULL;
  const int members = (world_size + 1 - world_rank % 2) / 2;
  int rank = -2, size = -2, other = -2;
  expect_ok(unisono_group_split(NULL, world_rank % 2, -world_rank, &half), "group_split");
  expect_ok(unisono_group_rank(half, &rank), "rank in a half");
  expect_ok(unisono_group_size(half, &size), "size of a half");
  expect(size == members && rank == members - 1 - world_rank / 2, "where this rank is in its half");
  expect_ok(unisono_group_to_world(half, 0, &other), "group_to_world");
  expect(other == world_rank % 2 + 2 * (members - 1), "rank 0 of a half is its last in the world");
  expect_ok(unisono_group_from_world(half, world_rank, &other), "group_from_world");
  expect(other == rank, "this rank in its half");
  expect_error(unisono_group_to_world(half, size, &other), UNISONO_ARGUMENT_ERROR, "group_rank",
               "a rank that a half does not have");
  expect_error(unisono_group_from_world(half, world_rank ^ 1, &other), UNISONO_ARGUMENT_ERROR, "not in group",
               "a rank of the other half");
  expect(sum_of_ones(half) == members, "the sum of a half");
  expect_ok(unisono_group_destroy(half), "group_destroy");
  expect_ok(unisono_group_split(NULL, world_rank == 0 ? 0 : -1, 0, &half), "group_split with a negative colour");
  expect_ok(unisono_group_size(half, &size), "size of a group of one");
  expect(size == (world_rank == 0 ? 1 : -1), "a negative colour is in no group");
  expect_ok(unisono_group_destroy(half), "group_destroy of both");
}

static void try_shrink(void) {
  unisono_group* smaller = NULL;
  const int last = world_size - 1;
  int answer = -1;
  if (world_rank != last) {
    expect_ok(unisono_group_shrink(NULL, &last, 1, &smaller), "group_shrink");
    expect(sum_of_ones(smaller) == world_size - 1, "the sum without the last rank");
    expect_ok(unisono_group_destroy(smaller), "group_destroy");
  }
  expect_ok(unisono_group_agree(NULL, 7, 0, &answer), "agree");
  expect(answer == 1, "everybody agrees");
  expect_ok(unisono_group_agree(NULL, world_rank != last, 0, &answer), "agree where one does not");
  expect(answer == 0, "the last rank does not agree");
}

void try_groups(void) {
  unisono_group *group = NULL, *none = NULL;
  int number = -1;
  try_split();
  if (world_size > 1) try_shrink();
  expect_ok(unisono_group_new(NULL, 0, NULL, 5, &group), "group_new of all");
  expect_ok(unisono_group_failed_ranks(group, NULL, 0, &number), "failed_ranks");
  expect(number == 0, "nobody has failed");
  expect(sum_of_ones(group) == world_size, "the sum of all");
  expect_error(unisono_group_rank(group, NULL), UNISONO_ARGUMENT_ERROR, "rank is a null pointer", "rank into NULL");
  expect_error(unisono_group_size(group, NULL), UNISONO_ARGUMENT_ERROR, "size is a null pointer", "size into NULL");
  expect_error(unisono_group_to_world(group, 0, NULL), UNISONO_ARGUMENT_ERROR, "world_rank is a null pointer",
               "to_world into NULL");
  expect_error(unisono_group_from_world(group, 0, NULL), UNISONO_ARGUMENT_ERROR, "rank is a null pointer",
               "from_world into NULL");
  expect_error(unisono_group_agree(group, 1, 0, NULL), UNISONO_ARGUMENT_ERROR, "answer is a null pointer", "agree into NULL");
  expect_error(unisono_group_agree(group, 1, -1, &number), UNISONO_ARGUMENT_ERROR, "timeout_s is -1",
               "agree with a negative timeout");
  expect_error(unisono_group_failed_ranks(group, NULL, 0, NULL), UNISONO_ARGUMENT_ERROR, "count is a null pointer",
               "failed_ranks without a count");
  expect_error(unisono_group_failed_ranks(group, NULL, 1, &number), UNISONO_ARGUMENT_ERROR, "failed is a null pointer",
               "failed_ranks into NULL");
  expect_error(unisono_group_new(NULL, 1, NULL, 0, &none), UNISONO_ARGUMENT_ERROR, "world_ranks is a null pointer",
               "group_new of NULL");
  expect(none == NULL, "no group after an error");
  expect_error(unisono_group_new(&number, -1, NULL, 0, &none), UNISONO_ARGUMENT_ERROR, "count is -1",
               "group_new of a negative count");
  expect_error(unisono_group_new(&world_size, 1, NULL, 0, &none), UNISONO_ARGUMENT_ERROR, "rank",
               "group_new of a rank that there is not");
  expect_error(unisono_group_new(NULL, 0, NULL, -3, &none), UNISONO_ARGUMENT_ERROR, "timeout_s is -3",
               "group_new with a negative timeout");
  expect_error(unisono_group_new(NULL, 0, NULL, 0, NULL), UNISONO_ARGUMENT_ERROR, "made is a null pointer",
               "group_new into NULL");
  expect_error(unisono_group_split(NULL, 0, 0, NULL), UNISONO_ARGUMENT_ERROR, "made is a null pointer", "group_split into NULL");
  expect_error(unisono_group_shrink(NULL, NULL, 0, NULL), UNISONO_ARGUMENT_ERROR, "made is a null pointer",
               "group_shrink into NULL");
  expect_error(unisono_group_shrink(NULL, &world_size, 1, &none), UNISONO_ARGUMENT_ERROR, "group_rank",
               "group_shrink without nobody");
  expect_ok(unisono_group_destroy(group), "group_destroy");
  expect_error(unisono_group_destroy(NULL), UNISONO_ARGUMENT_ERROR, "group is a null pointer", "group_destroy of NULL");
}

/* A group of rank 0 alone: the others hold it too, and their calls do nothing. */
void try_outside(void) {
  unisono_group *alone = NULL, *other = NULL;
  unisono_work* work = NULL;
  int32_t data[2] = {world_rank, -1};
  int zero = 0, number = -2;
  expect_ok(unisono_group_new(&zero, 1, "alone", 0, &alone), "a group of rank 0");
  if (world_rank != 0) {
    expect_ok(unisono_group_rank(alone, &number), "rank outside");
    expect(number == -1, "outside there is no rank");
    expect_ok(unisono_group_size(alone, &number), "size outside");
    expect(number == -1, "outside there is no size");
    expect_error(unisono_group_to_world(alone, 0, &number), UNISONO_ARGUMENT_ERROR, "not in the group", "to_world outside");
    expect_error(unisono_group_agree(alone, 1, 0, &number), UNISONO_ARGUMENT_ERROR, "not in the group", "agree outside");
    expect_error(unisono_group_abort(alone, NULL), UNISONO_ARGUMENT_ERROR, "not in the group", "abort outside");
    expect_error(unisono_group_split(alone, 0, 0, &other), UNISONO_ARGUMENT_ERROR, "not in the group", "split outside");
    expect_error(unisono_group_shrink(alone, NULL, 0, &other), UNISONO_ARGUMENT_ERROR, "not in the group", "shrink outside");
  }
  expect_ok(unisono_broadcast(data, 1, UNISONO_INT32, 0, alone, NULL), "broadcast outside");
  expect_ok(unisono_all_reduce(data, data + 1, 1, UNISONO_INT32, UNISONO_SUM, alone, &work), "all_reduce with a work, outside");
  expect(work != NULL, "there is a work outside too");
  expect_ok(unisono_work_wait(work, 0), "which is over");
  expect_ok(unisono_work_test(work, &number), "test outside");
  expect(number == 1, "and says so");
  expect_ok(unisono_work_source(work, &number), "source outside");
  expect(number == -1, "without a source");
  unisono_work_free(work);
  expect(data[0] == world_rank && data[1] == (world_rank == 0 ? 0 : -1), "nothing is written outside");
  if (world_rank != 0) expect_ok(unisono_send(data, 1, UNISONO_INT32, 5, 0, alone, NULL), "send outside");
  if (world_rank != 0) expect_ok(unisono_recv(data, 1, UNISONO_INT32, 5, 0, &number, alone, NULL), "recv outside");
  expect_ok(unisono_monitored_barrier(alone, 0), "monitored_barrier outside");
  if (world_rank != 0) try_batches_outside(alone);
  if (world_rank != 0) try_prepared_outside(alone);
  expect_ok(unisono_group_destroy(alone), "group_destroy inside and outside");
}

/* The last rank does not come to a monitored barrier, and the group is broken; then another is aborted. */
static void try_absence(void) {
  unisono_group* group = NULL;
  int32_t word = 0;
  int rank;
  const int absent = world_size - 1;
  expect_ok(unisono_group_new(NULL, 0, "absence", 0, &group), "group_new");
  if (world_rank != absent) {
    expect_error(unisono_monitored_barrier(group, 0.05), UNISONO_TIMEOUT_ERROR, "rank",
                 "a monitored_barrier that one does not come to");
    expect_ok(unisono_send(&word, 1, UNISONO_INT32, absent, 11, NULL, NULL), "telling the absent one");
  } else {
    for (rank = 0; rank < absent; ++rank)
      expect_ok(unisono_recv(&word, 1, UNISONO_INT32, rank, 11, NULL, NULL, NULL), "who was there");
  }
  expect_ok(unisono_group_destroy(group), "destroying a broken group");
}

void try_broken_groups(void) {
  unisono_group *group = NULL, *again = NULL;
  int32_t one = 1;
  int answer = -1;
  expect_error(unisono_monitored_barrier(NULL, -1), UNISONO_ARGUMENT_ERROR, "timeout_s is -1",
               "monitored_barrier with a negative timeout");
  if (world_size > 1) try_absence();
  expect_ok(unisono_group_new(NULL, 0, "aborted", 0, &group), "group_new");
  if (world_rank == 0) {
    expect_ok(unisono_group_abort(group, "enough of it"), "group_abort");
    expect_error(unisono_all_reduce(NULL, &one, 1, UNISONO_INT32, UNISONO_SUM, group, NULL), UNISONO_REVOKED_ERROR,
                 "enough of it", "a call after abort");
  } else {
    expect_error(unisono_all_reduce(NULL, &one, 1, UNISONO_INT32, UNISONO_SUM, group, NULL), UNISONO_REVOKED_ERROR,
                 "enough of it", "a call that is aborted");
  }
  expect_ok(unisono_group_agree(group, 1, 0, &answer), "agree on a broken group");
  expect(answer == 1, "all are still there");
  expect_ok(unisono_group_shrink(group, NULL, 0, &again), "group_shrink of a broken group");
  expect(sum_of_ones(again) == world_size, "the sum after group_shrink");
  expect_ok(unisono_group_destroy(group), "group_destroy of the broken one");
  expect_ok(unisono_group_destroy(again), "group_destroy of the new one");
}
