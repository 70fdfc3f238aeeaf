/* Letters from rank to rank, and works. */
#include <stddef.h>

#include "ranks.h"

static int32_t letter[MOST_RANKS][MOST_COUNT];

static int holds(const int32_t* memory, int sender, int64_t count) {
  int64_t index;
  for (index = 0; index < count; ++index)
    if (memory[index] != given(sender, index)) return 0;
  return 1;
}

/* Around a ring, once with the send posted and once with the receive: everybody may send first, whatever its size. */
static void try_ring(const unisono_group* group, int me, int ranks, int64_t count) {
  const int next = (me + 1) % ranks, before = (me + ranks - 1) % ranks;
  unisono_work *sent = NULL, *received = NULL;
  int64_t index;
  int source = -2;
  for (index = 0; index < count; ++index) letter[0][index] = given(me, index);
  expect_ok(unisono_send(letter[0], count, UNISONO_INT32, next, 5, group, &sent), "send with a work");
  expect_ok(unisono_recv(letter[1], count, UNISONO_INT32, before, 5, &source, group, NULL), "recv");
  expect(source == before, "the source of recv");
  expect(holds(letter[1], before, count), "what recv gave");
  expect_ok(unisono_work_wait(sent, 0), "waiting for a send");
  expect_ok(unisono_work_source(sent, &source), "the source of a send");
  expect(source == -1, "a send has no source");
  unisono_work_free(sent);

  expect_ok(unisono_recv(letter[1], count, UNISONO_INT32, before, 6, NULL, group, &received), "recv with a work");
  expect_ok(unisono_send(letter[0], count, UNISONO_INT32, next, 6, group, NULL), "send");
  expect_ok(unisono_work_wait(received, 0), "waiting for a receive");
  expect_ok(unisono_work_source(received, &source), "the source of a receive");
  expect(source == before, "who sent it");
  expect(holds(letter[1], before, count), "what recv with a work gave");
  unisono_work_free(received);
}

/* Rank 0 takes one letter of each of the others as they come, every second time with a work. */
static void try_any_source(const unisono_group* group, int me, int ranks) {
  int seen[MOST_RANKS] = {0}, turn;
  if (me != 0) {
    letter[0][0] = given(me, 0);
    expect_ok(unisono_send(letter[0], 1, UNISONO_INT32, 0, 0, group, NULL), "send to rank 0");
    return;
  }
  for (turn = 1; turn < ranks; ++turn) {
    unisono_work* work = NULL;
    int source = -2;
    if (turn % 2 == 0) {
      expect_ok(unisono_recv(letter[1], 1, UNISONO_INT32, UNISONO_ANY_SOURCE, 0, NULL, group, &work),
                "recv from anybody with a work");
      expect_ok(unisono_work_wait(work, 0), "waiting for anybody");
      expect_ok(unisono_work_source(work, &source), "source of anybody");
      unisono_work_free(work);
    } else {
      expect_ok(unisono_recv(letter[1], 1, UNISONO_INT32, UNISONO_ANY_SOURCE, 0, &source, group, NULL), "recv from anybody");
    }
    expect(source > 0 && source < ranks && !seen[source], "each of the others once");
    expect(letter[1][0] == given(source, 0), "the source's own letter");
    if (source > 0) seen[source] = 1;
  }
}

void try_letters(const unisono_group* group) {
  int me = -1, ranks = -1;
  expect_ok(unisono_group_rank(group, &me), "group_rank");
  expect_ok(unisono_group_size(group, &ranks), "group_size");
  expect_error(unisono_send(letter, 1, UNISONO_INT32, me, 0, group, NULL), UNISONO_ARGUMENT_ERROR, "this rank itself",
               "send to oneself");
  expect_error(unisono_recv(letter, 1, UNISONO_INT32, ranks, 0, NULL, group, NULL), UNISONO_ARGUMENT_ERROR, "group_peer",
               "recv from nobody");
  expect_error(unisono_send(letter, 1, UNISONO_INT32, UNISONO_ANY_SOURCE, 0, group, NULL), UNISONO_ARGUMENT_ERROR, "group_peer",
               "send to anybody");
  expect_error(unisono_send(letter, 1, 99, 0, 0, group, NULL), UNISONO_ARGUMENT_ERROR, "dtype is number 99", "send of no dtype");
  expect_error(unisono_recv(letter, 1, -1, 0, 0, NULL, group, NULL), UNISONO_ARGUMENT_ERROR, "dtype is number -1",
               "recv of no dtype");
  if (ranks == 1) return;
  expect_error(unisono_send(NULL, 1, UNISONO_INT32, (me + 1) % ranks, 0, group, NULL), UNISONO_ARGUMENT_ERROR, "null pointer",
               "send of NULL");
  expect_error(unisono_recv(letter, -1, UNISONO_INT32, (me + 1) % ranks, 0, NULL, group, NULL), UNISONO_ARGUMENT_ERROR, "(-1)",
               "recv of a negative count");
  try_ring(group, me, ranks, 3);
  try_ring(group, me, ranks, MOST_COUNT);
  try_any_source(group, me, ranks);
  expect_ok(unisono_barrier(group, NULL), "nobody leaves while rank 0 waits for anybody");
}

/* A wait that gives up leaves the call as it is: rank 0 waits for a barrier that the others enter once it has given up.
 */
static void try_giving_up(void) {
  unisono_work* work = NULL;
  int32_t word = 1;
  int rank, is_over = -1;
  if (world_rank == 0) {
    expect_ok(unisono_barrier(NULL, &work), "a barrier that nobody else is in");
    expect_ok(unisono_work_test(work, &is_over), "test of a call under way");
    expect(is_over == 0, "a barrier is not over before everybody is in it");
    expect_error(unisono_work_wait(work, 0.001), UNISONO_TIMEOUT_ERROR, "may be waited for again", "a wait that gives up");
    for (rank = 1; rank < world_size; ++rank) expect_ok(unisono_send(&word, 1, UNISONO_INT32, rank, 9, NULL, NULL), "go on");
  } else {
    expect_ok(unisono_recv(&word, 1, UNISONO_INT32, 0, 9, NULL, NULL, NULL), "may we go on");
    expect_ok(unisono_barrier(NULL, &work), "the others' barrier");
  }
  expect_ok(unisono_work_wait(work, 0), "waiting again");
  unisono_work_free(work);
}

void try_works(void) {
  static int32_t dropped[3], kept[3];
  unisono_work* work = NULL;
  int number;
  for (number = 0; number < 3; ++number) dropped[number] = kept[number] = 1;
  expect_ok(unisono_all_reduce(NULL, dropped, 3, UNISONO_INT32, UNISONO_SUM, NULL, &work), "a call whose work is freed");
  unisono_work_free(work);
  expect_ok(unisono_all_reduce(NULL, kept, 3, UNISONO_INT32, UNISONO_SUM, NULL, &work), "the call after it");
  expect_ok(unisono_work_wait(work, 30), "waiting for the call after it");
  expect(dropped[2] == world_size && kept[2] == world_size, "a call whose work was freed goes on");
  expect_ok(unisono_work_source(work, &number), "source of a collective");
  expect(number == -1, "a collective has no source");
  expect_error(unisono_work_wait(work, -1), UNISONO_ARGUMENT_ERROR, "timeout_s is -1", "a negative timeout");
  expect_error(unisono_work_test(work, NULL), UNISONO_ARGUMENT_ERROR, "is_over is a null pointer", "test into NULL");
  expect_error(unisono_work_source(work, NULL), UNISONO_ARGUMENT_ERROR, "source is a null pointer", "source into NULL");
  unisono_work_free(work);
  expect_error(unisono_work_wait(NULL, 0), UNISONO_ARGUMENT_ERROR, "work is a null pointer", "wait for NULL");
  expect_error(unisono_work_test(NULL, &number), UNISONO_ARGUMENT_ERROR, "work is a null pointer", "test of NULL");
  expect_error(unisono_work_source(NULL, &number), UNISONO_ARGUMENT_ERROR, "work is a null pointer", "source of NULL");
  unisono_work_free(NULL);
  if (world_size > 1) try_giving_up();
}
