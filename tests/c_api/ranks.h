/* What the parts of the C test program share. Every rank runs all of it, started by c_api_test.cpp through `unisono
 * run`. */
#ifndef UNISONO_TESTS_C_API_RANKS_H
#define UNISONO_TESTS_C_API_RANKS_H

#include <unisono/unisono.h>

enum { MOST_RANKS = 8, MOST_COUNT = 5000 };

extern int world_rank, world_size;

/* Each counts one check, and one failure where it does not hold. */
void expect(int holds, const char* what);
void expect_ok(unisono_status status, const char* what);
/* That the status is this one, and the last error begins with its name and has `part` in it. */
void expect_error(unisono_status status, unisono_status wanted, const char* part, const char* what);

/* Where a call is to put its work, or NULL; and the end of that call: its status, and the work waited for and freed. */
unisono_work** place_of_work(int async);
void expect_finished(unisono_status status, const char* what);

/* What rank `rank` gives at `index`. */
int32_t given(int rank, int64_t index);

void try_collectives(const unisono_group* group, int async, int64_t count);
void try_lists(const unisono_group* group, int async, int64_t count);
void try_numbers(void);
void try_letters(const unisono_group* group);
void try_batches(const unisono_group* group);
void try_batches_outside(const unisono_group* group);
void try_works(void);
void try_prepared(const unisono_group* group);
void try_prepared_outside(const unisono_group* group);
void try_shared_memory(void);
void try_deadlines(void);
void try_groups(void);
void try_outside(void);
void try_broken_groups(void);
void try_bad_arguments(void);
void try_bad_arguments_of_lists(void);
void try_differences(void);
void try_before_init(void);
void try_worlds(const char* init_method);

#endif
