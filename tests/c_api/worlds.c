/* A world may be left and joined again, by other ways too; what belonged to the first one is then good for nothing. */
#include <stddef.h>

#include "ranks.h"

/* A group of everybody and one of rank 0 alone, which the others hold too, each with a prepared call. */
typedef struct {
  unisono_group *all, *alone;
  unisono_prepared *of_all, *of_alone, *of_world;
} remains;

static remains leave_behind(void) {
  static int32_t memory[3];
  remains old = {NULL, NULL, NULL, NULL, NULL};
  int zero = 0;
  expect_ok(unisono_group_new(NULL, 0, NULL, 0, &old.all), "a group that outlives its world");
  expect_ok(unisono_group_new(&zero, 1, NULL, 0, &old.alone), "another, that most are outside of");
  expect_ok(unisono_prepare_all_reduce(NULL, memory, 1, UNISONO_INT32, UNISONO_SUM, old.all, &old.of_all), "prepare");
  expect_ok(unisono_prepare_all_reduce(NULL, memory + 1, 1, UNISONO_INT32, UNISONO_SUM, old.alone, &old.of_alone), "prepare");
  expect_ok(unisono_prepare_all_reduce(NULL, memory + 2, 1, UNISONO_INT32, UNISONO_SUM, NULL, &old.of_world), "prepare");
  return old;
}

static void expect_gone(unisono_status status, const char* what) {
  expect_error(status, UNISONO_STATE_ERROR, "its world was left", what);
}

static void expect_group_is_gone(const unisono_group* group) {
  int32_t word = 1, from[MOST_RANKS], to[MOST_RANKS];
  int number = 0;
  unisono_group* made = NULL;
  unisono_prepared* prepared = NULL;
  unisono_work* work = NULL;
  unisono_letter letter = {UNISONO_RECV, UNISONO_INT32, NULL, 0, UNISONO_ANY_SOURCE, 0};
  expect_gone(unisono_group_rank(group, &number), "the rank in a group whose world was left");
  expect_gone(unisono_group_size(group, &number), "the size of a group whose world was left");
  expect_gone(unisono_group_to_world(group, 0, &number), "to_world of a group whose world was left");
  expect_gone(unisono_group_from_world(group, 0, &number), "from_world of a group whose world was left");
  expect_gone(unisono_group_split(group, 0, 0, &made), "split of a group whose world was left");
  expect_gone(unisono_group_shrink(group, NULL, 0, &made), "shrink of a group whose world was left");
  expect_gone(unisono_group_agree(group, 1, 0, &number), "agree in a group whose world was left");
  expect_gone(unisono_group_failed_ranks(group, NULL, 0, &number), "failed_ranks of a group whose world was left");
  expect_gone(unisono_group_abort(group, NULL), "abort of a group whose world was left");
  expect_gone(unisono_all_reduce(NULL, &word, 1, UNISONO_INT32, UNISONO_SUM, group, NULL), "all_reduce in such a group");
  expect_gone(unisono_all_gather_into_tensor(from, to, 1, UNISONO_INT32, group, &work), "all_gather in such a group");
  expect_gone(unisono_barrier(group, &work), "barrier in such a group");
  expect_gone(unisono_monitored_barrier(group, 0), "monitored_barrier in such a group");
  expect_gone(unisono_send(&word, 1, UNISONO_INT32, 0, 0, group, NULL), "send in such a group");
  expect_gone(unisono_recv(&word, 1, UNISONO_INT32, 0, 0, NULL, group, &work), "recv in such a group");
  expect_gone(unisono_batch_send_recv(&letter, 1, group, &work), "a batch in such a group");
  expect_gone(unisono_prepare_barrier(group, &prepared), "preparing in such a group");
  expect(made == NULL && work == NULL && prepared == NULL, "nothing comes of a group whose world was left");
}

static void expect_gone_and_free(const remains* old) {
  unisono_prepared* calls[3];
  int which;
  calls[0] = old->of_all;
  calls[1] = old->of_alone;
  calls[2] = old->of_world;
  for (which = 0; which < 3; ++which) {
    expect_gone(unisono_prepared_start(calls[which]), "starting a prepared call whose world was left");
    expect_gone(unisono_prepared_run(calls[which]), "running a prepared call whose world was left");
    expect_gone(unisono_prepared_wait(calls[which], 0), "waiting for a prepared call whose world was left");
    unisono_prepared_free(calls[which]);
  }
  expect_group_is_gone(old->all);
  expect_group_is_gone(old->alone);
  expect_gone(unisono_group_destroy(old->all), "destroying a group whose world was left");
  expect_gone(unisono_group_destroy(old->alone), "destroying another");
}

static void try_world(const char* what) {
  int32_t sum = 1;
  int rank = -1, size = -1;
  expect_ok(unisono_group_rank(NULL, &rank), "rank");
  expect_ok(unisono_group_size(NULL, &size), "size");
  expect(rank == world_rank && size == world_size, what);
  expect_ok(unisono_all_reduce(NULL, &sum, 1, UNISONO_INT32, UNISONO_SUM, NULL, NULL), what);
  expect(sum == world_size, what);
}

void try_worlds(const char* init_method) {
  const remains early = leave_behind(), late = leave_behind();
  void* memory = NULL;
  expect_ok(unisono_shared_alloc(3, UNISONO_INT32, &memory), "shared memory that outlives its world");
  expect(unisono_is_initialized() == 1, "is_initialized before finalize");
  expect_ok(unisono_finalize(), "finalize");
  expect(unisono_is_initialized() == 0, "is_initialized after finalize");
  expect_error(unisono_finalize(), UNISONO_STATE_ERROR, "left already", "a second finalize");
  expect_gone_and_free(&early);
  expect_ok(unisono_init_with(world_rank, world_size, NULL, 30), "init_with, after finalize");
  expect_ok(unisono_init(), "init of a world that is there");
  expect_error(unisono_init_with(world_rank, world_size + 1, NULL, 0), UNISONO_STATE_ERROR, "joined already",
               "init_with another size");
  expect_gone_and_free(&late);
  try_world("the second world");
  expect_ok(unisono_shared_free(memory), "freeing shared memory of the first world");
  expect_ok(unisono_finalize(), "finalize of the second world");

  expect_error(unisono_init_at("carrier pigeon", world_rank, world_size, 0), UNISONO_ARGUMENT_ERROR, "carrier pigeon",
               "init_at by no method");
  expect_error(unisono_init_at(init_method, -1, -1, 0), UNISONO_ARGUMENT_ERROR, "needs rank", "init_at without a rank");
  expect_error(unisono_init_at(init_method, world_rank, world_size, -1), UNISONO_ARGUMENT_ERROR, "timeout_s is -1",
               "init_at with a negative timeout");
  expect_ok(unisono_init_at(init_method, world_rank, world_size, 30), "init_at a file");
  try_world("the third world");
  expect_ok(unisono_finalize(), "finalize of the third world");
  expect_ok(unisono_init_at(NULL, -1, -1, 0), "init_at without a method");
  try_world("the fourth world");
  expect_ok(unisono_finalize(), "finalize of the fourth world");
}
