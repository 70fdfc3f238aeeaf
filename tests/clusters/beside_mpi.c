/* A program of one's own under mpirun, prterun or srun: adds up by Unisono, and, where it is built with MPI, by MPI as well, begun before or after.
 *
 *   beside_mpi alone        Unisono only
 *   beside_mpi twice        a second world after the first
 *   beside_mpi mpi-first    MPI_Init, then Unisono; Unisono ends first
 *   beside_mpi mpi-last     Unisono, then MPI_Init; MPI ends first
 *   beside_mpi waits RANK   until it is killed, all ranks but that one in a call, and that one in code of its own
 */
#ifdef WITH_MPI
#include <mpi.h>
#endif
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unisono/unisono.h"

static void need(unisono_status status, const char* what) {
  if (status == UNISONO_OK) return;
  fprintf(stderr, "%s: %s: %s\n", what, unisono_error_name(status), unisono_last_error());
  exit(3);
}

static void add_up_by_unisono(void) {
  int rank = -1, size = -1;
  int32_t sum = 0;
  need(unisono_group_rank(NULL, &rank), "rank");
  need(unisono_group_size(NULL, &size), "size");
  sum = rank + 1;
  need(unisono_all_reduce(NULL, &sum, 1, UNISONO_INT32, UNISONO_SUM, NULL, NULL), "all_reduce");
  printf("rank %d of %d: %d by Unisono\n", rank, size, (int)sum);
  fflush(stdout);
}

#ifdef WITH_MPI
static void add_up_by_mpi(void) {
  int rank = -1, sum = 0, mine;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  mine = rank + 1;
  MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  printf("rank %d: %d by MPI\n", rank, sum);
  fflush(stdout);
}
#endif

int main(int count, char** words) {
  const char* order = count > 1 ? words[1] : "alone";
#ifdef WITH_MPI
  if (strcmp(order, "mpi-first") == 0) MPI_Init(&count, &words);
#endif
  need(unisono_init(), "init");
  add_up_by_unisono();
#ifdef WITH_MPI
  if (strcmp(order, "mpi-last") == 0) MPI_Init(&count, &words);
  if (strncmp(order, "mpi-", 4) == 0) add_up_by_mpi();
  if (strcmp(order, "mpi-last") == 0) MPI_Finalize();
#endif
  if (strcmp(order, "waits") == 0) {
    int rank = -1;
    need(unisono_group_rank(NULL, &rank), "rank");
    if (count > 2 && rank == atoi(words[2])) pause();
    add_up_by_unisono();
  }
  if (strncmp(order, "mpi-", 4) == 0) add_up_by_unisono();
  need(unisono_finalize(), "finalize");
  if (strcmp(order, "twice") == 0) {
    need(unisono_init(), "init again");
    add_up_by_unisono();
    need(unisono_finalize(), "finalize again");
  }
#ifdef WITH_MPI
  if (strcmp(order, "mpi-first") == 0) MPI_Finalize();
#endif
  return 0;
}
