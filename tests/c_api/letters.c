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

static unisono_letter letter_of(int kind, void* tensor, int64_t count, int peer, int tag) {
  unisono_letter made;
  made.kind = kind;
  made.dtype = UNISONO_INT32;
  made.tensor = tensor;
  made.count = count;
  made.group_peer = peer;
  made.tag = tag;
  return made;
}

static void expect_batch_refused(const unisono_letter* letters, const unisono_group* group, const char* part, const char* what) {
  unisono_work* works[2];
  works[0] = works[1] = (unisono_work*)letter;
  expect_error(unisono_batch_send_recv(letters, 2, group, works), UNISONO_ARGUMENT_ERROR, part, what);
  expect(works[0] == NULL && works[1] == NULL, "no works after an error");
}

/* Everybody to everybody, but itself: first all receives, then all sends, so that only together can they go on. */
static void try_exchange(const unisono_group* group, int me, int ranks, int64_t count, int waits) {
  static int32_t mine[MOST_COUNT];
  unisono_letter letters[2 * MOST_RANKS];
  unisono_work* works[2 * MOST_RANKS] = {NULL};
  int64_t index;
  int rank, length = 0, number, source = -2;
  for (index = 0; index < count; ++index) mine[index] = given(me, index);
  for (rank = 0; rank < ranks; ++rank)
    if (rank != me) letters[length++] = letter_of(UNISONO_RECV, letter[rank], count, rank, 7);
  for (rank = 0; rank < ranks; ++rank)
    if (rank != me) letters[length++] = letter_of(UNISONO_SEND, mine, count, rank, 7);
  expect_ok(unisono_batch_send_recv(letters, length, group, waits ? NULL : works), "batch_send_recv");
  for (number = 0; number < length && !waits; ++number) {
    expect_ok(unisono_work_wait(works[number], 0), "waiting for a letter of a batch");
    expect_ok(unisono_work_source(works[number], &source), "the source of a letter of a batch");
    expect(source == (number < length / 2 ? letters[number].group_peer : -1), "who sent a letter of a batch");
    unisono_work_free(works[number]);
  }
  for (rank = 0; rank < ranks; ++rank)
    if (rank != me) expect(holds(letter[rank], rank, count), "what a batch gave");
}

void try_batches(const unisono_group* group) {
  unisono_letter letters[2];
  int me = -1, ranks = -1, other, waits;
  expect_ok(unisono_group_rank(group, &me), "group_rank");
  expect_ok(unisono_group_size(group, &ranks), "group_size");
  other = (me + 1) % ranks;
  expect_ok(unisono_batch_send_recv(NULL, 0, group, NULL), "a batch of nothing");
  expect_error(unisono_batch_send_recv(NULL, 1, group, NULL), UNISONO_ARGUMENT_ERROR, "letters is a null pointer",
               "a NULL batch");
  expect_error(unisono_batch_send_recv(letters, -1, group, NULL), UNISONO_ARGUMENT_ERROR, "letter_count is -1",
               "a batch of less than nothing");
  if (ranks == 1) return;
  /* The first of them is as it should be, and is not sent: the exchange below would find it. */
  letters[0] = letter_of(UNISONO_SEND, letter[0], 1, other, 7);
  letters[1] = letter_of(2, letter[1], 1, other, 7);
  expect_batch_refused(letters, group, "kind is 2", "a letter of no kind");
  letters[1] = letter_of(UNISONO_RECV, letter[1], 1, me, 7);
  expect_batch_refused(letters, group, "this rank itself", "a letter to oneself");
  letters[1] = letter_of(UNISONO_SEND, letter[1], 1, UNISONO_ANY_SOURCE, 7);
  expect_batch_refused(letters, group, "group_peer is -1", "a letter to anybody");
  letters[1] = letter_of(UNISONO_RECV, NULL, 1, other, 7);
  expect_batch_refused(letters, group, "null pointer", "a letter into NULL");
  letters[1] = letter_of(UNISONO_RECV, letter[1], 1, other, 7);
  letters[1].dtype = 55;
  expect_batch_refused(letters, group, "dtype is number 55", "a letter of no dtype");
  for (waits = 0; waits < 2; ++waits) {
    try_exchange(group, me, ranks, 3, waits);
    try_exchange(group, me, ranks, MOST_COUNT, waits);
  }
}

/* Outside the group there is a work for each, and all are over. */
void try_batches_outside(const unisono_group* group) {
  unisono_letter letters[2];
  unisono_work* works[2] = {NULL, NULL};
  int number;
  letters[0] = letter_of(UNISONO_SEND, letter[0], 1, 0, 0);
  letters[1] = letter_of(UNISONO_RECV, letter[1], 1, 0, 0);
  expect_ok(unisono_batch_send_recv(letters, 2, group, NULL), "a batch outside");
  expect_ok(unisono_batch_send_recv(letters, 2, group, works), "a batch with works outside");
  for (number = 0; number < 2; ++number) {
    expect(works[number] != NULL, "a work of a batch outside");
    expect_ok(unisono_work_wait(works[number], 0), "which is over");
    unisono_work_free(works[number]);
  }
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
