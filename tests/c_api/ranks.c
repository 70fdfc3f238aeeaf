/* The C test program: joins, tries every function of unisono.h, leaves, and does some of it again. Says how many checks
 * held. */
#include "ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int world_rank = -1, world_size = -1;

static int checks, failures;
static unisono_work* pending;

void expect(int holds, const char* what) {
  ++checks;
  if (holds) return;
  ++failures;
  fprintf(stderr, "rank %d: this does not hold: %s (last error: %s)\n", world_rank, what, unisono_last_error());
}

void expect_ok(unisono_status status, const char* what) {
  ++checks;
  if (status == UNISONO_OK) return;
  ++failures;
  fprintf(stderr, "rank %d: %s gave %d: %s\n", world_rank, what, (int)status, unisono_last_error());
}

void expect_error(unisono_status status, unisono_status wanted, const char* part, const char* what) {
  const char* text = unisono_last_error();
  ++checks;
  if (status == wanted && strncmp(text, unisono_error_name(wanted), strlen(unisono_error_name(wanted))) == 0 &&
      strstr(text, part))
    return;
  ++failures;
  fprintf(stderr, "rank %d: %s gave %d where %s with \"%s\" was wanted: %s\n", world_rank, what, (int)status,
          unisono_error_name(wanted), part, text);
}

unisono_work** place_of_work(int async) {
  pending = NULL;
  return async ? &pending : NULL;
}

void expect_finished(unisono_status status, const char* what) {
  int is_over = 0;
  expect_ok(status, what);
  if (!pending) return;
  expect_ok(unisono_work_wait(pending, 0), what);
  expect_ok(unisono_work_test(pending, &is_over), what);
  expect(is_over == 1, what);
  unisono_work_free(pending);
  pending = NULL;
}

int32_t given(int rank, int64_t index) { return (int32_t)(1000 * (rank + 1) + index % 997); }

static void find_place(void) {
  expect_ok(unisono_group_rank(NULL, &world_rank), "rank");
  expect_ok(unisono_group_size(NULL, &world_size), "size");
  expect(world_size <= MOST_RANKS, "the arrays of this program are long enough");
}

/* All ranks in reverse order, so that a rank of the group is not one of the world. */
static unisono_group* reversed_group(void) {
  unisono_group* group = NULL;
  int ranks[MOST_RANKS], rank;
  for (rank = 0; rank < world_size; ++rank) ranks[rank] = world_size - 1 - rank;
  expect_ok(unisono_group_new(ranks, world_size, "reversed", 0, &group), "group_new");
  return group;
}

static void try_everything(void) {
  static const int64_t counts[] = {0, 3, MOST_COUNT};
  unisono_group* reversed = reversed_group();
  const unisono_group* groups[2];
  int which, async, size;
  groups[0] = NULL;
  groups[1] = reversed;
  for (which = 0; which < 2; ++which) {
    for (async = 0; async < 2; ++async)
      for (size = 0; size < 3; ++size) {
        try_collectives(groups[which], async, counts[size]);
        try_lists(groups[which], async, counts[size]);
      }
    try_letters(groups[which]);
    try_batches(groups[which]);
    try_prepared(groups[which]);
  }
  expect_ok(unisono_group_destroy(reversed), "group_destroy");
  try_numbers();
  try_works();
  try_shared_memory();
  try_groups();
  try_outside();
  try_bad_arguments();
  try_bad_arguments_of_lists();
  try_differences();
  try_broken_groups();
  try_deadlines();
}

int main(int argument_count, char** arguments) {
  if (argument_count != 2) {
    fprintf(stderr, "usage: c_api_ranks INIT_METHOD\n");
    return EXIT_FAILURE;
  }
  try_before_init();
  expect_ok(unisono_init(), "init");
  find_place();
  try_everything();
  try_worlds(arguments[1]);
  printf("%d of %d checks held\n", checks - failures, checks);
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
