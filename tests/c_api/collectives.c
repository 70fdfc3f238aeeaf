/* Collectives with one buffer each way, and the numbers that they take. */
#include <string.h>

#include "ranks.h"

static int32_t input[MOST_RANKS * MOST_COUNT], output[MOST_RANKS * MOST_COUNT], apart[MOST_RANKS * MOST_COUNT];
static int me, ranks;

static void fill(int32_t* memory, int64_t count) {
  int64_t index;
  for (index = 0; index < count; ++index) memory[index] = given(me, index);
}

static void clear(int64_t count) {
  int64_t index;
  for (index = 0; index < count; ++index) output[index] = -1;
}

/* The sum of what ranks 0 to last give at `index`. */
static int32_t sum_up_to(int last, int64_t index) {
  int32_t sum = 0;
  int rank;
  for (rank = 0; rank <= last; ++rank) sum += given(rank, index);
  return sum;
}

static int holds_sums(const int32_t* memory, int last, int64_t first, int64_t count) {
  int64_t index;
  for (index = 0; index < count; ++index)
    if (memory[index] != sum_up_to(last, first + index)) return 0;
  return 1;
}

static int holds_given(const int32_t* memory, int rank, int64_t first, int64_t count) {
  int64_t index;
  for (index = 0; index < count; ++index)
    if (memory[index] != given(rank, first + index)) return 0;
  return 1;
}

static int is_untouched(int64_t count) {
  int64_t index;
  for (index = 0; index < count; ++index)
    if (output[index] != -1) return 0;
  return 1;
}

typedef unisono_status reduction(const void*, void*, int64_t, unisono_dtype, unisono_op, const unisono_group*, unisono_work**);

/* Out of place, in place by the same pointer, and in place by NULL. `last` is the last rank whose part this rank gets.
 */
static void try_reduction(reduction* function, int last, const unisono_group* group, int async, int64_t count) {
  int form;
  for (form = 0; form < 3; ++form) {
    const void* from = form == 0 ? (const void*)input : form == 1 ? (const void*)output : NULL;
    fill(input, count);
    clear(count);
    if (form > 0) fill(output, count);
    expect_finished(function(from, output, count, UNISONO_INT32, UNISONO_SUM, group, place_of_work(async)), "a reduction");
    if (last >= 0)
      expect(holds_sums(output, last, 0, count), "the sums");
    else
      expect(form == 0 ? is_untouched(count) : holds_given(output, me, 0, count), "rank 0 of an exscan keeps its bytes");
    expect(holds_given(input, me, 0, count), "the input of a reduction is as it was");
  }
}

static void try_rooted(const unisono_group* group, int async, int64_t count) {
  int root;
  for (root = 0; root < ranks; ++root) {
    const int is_root = root == me;
    fill(input, ranks * count);
    clear(ranks * count);
    expect_finished(
        unisono_reduce(input, is_root ? output : NULL, count, UNISONO_INT32, UNISONO_SUM, root, group, place_of_work(async)),
        "reduce");
    expect(is_root ? holds_sums(output, ranks - 1, 0, count) : is_untouched(count), "what reduce gave");
    fill(output, count);
    expect_finished(unisono_reduce(NULL, output, count, UNISONO_INT32, UNISONO_SUM, root, group, place_of_work(async)),
                    "reduce in place");
    expect(is_root ? holds_sums(output, ranks - 1, 0, count) : holds_given(output, me, 0, count), "what reduce in place gave");

    fill(output, count);
    expect_finished(unisono_broadcast(output, count, UNISONO_INT32, root, group, place_of_work(async)), "broadcast");
    expect(holds_given(output, root, 0, count), "what broadcast gave");

    clear(ranks * count);
    expect_finished(
        unisono_scatter_tensor(is_root ? input : NULL, output, count, UNISONO_INT32, root, group, place_of_work(async)),
        "scatter_tensor");
    expect(holds_given(output, root, me * count, count), "what scatter_tensor gave");

    clear(ranks * count);
    expect_finished(
        unisono_gather_into_tensor(input, is_root ? output : NULL, count, UNISONO_INT32, root, group, place_of_work(async)),
        "gather_into_tensor");
    if (is_root) {
      int rank;
      for (rank = 0; rank < ranks; ++rank)
        expect(holds_given(output + rank * count, rank, 0, count), "what gather_into_tensor gave");
    } else {
      expect(is_untouched(ranks * count), "gather_into_tensor writes on the root only");
    }
  }
}

static void try_exchange(const unisono_group* group, int async, int64_t count) {
  int64_t sent[MOST_RANKS], received[MOST_RANKS], at = 0;
  int rank;
  fill(input, ranks * count);
  clear(ranks * count);
  expect_finished(unisono_all_to_all_single(input, output, count, UNISONO_INT32, group, place_of_work(async)),
                  "all_to_all_single");
  for (rank = 0; rank < ranks; ++rank)
    expect(holds_given(output + rank * count, rank, me * count, count), "what all_to_all_single gave");

  /* Rank r sends (r + i) / (2 N) of `count` to rank i; what it sends to i begins where that to i - 1 ends. */
  for (rank = 0; rank < ranks; ++rank) sent[rank] = received[rank] = count * (me + rank) / (2 * ranks);
  expect_finished(unisono_all_to_all_single_split(input, sent, output, received, UNISONO_INT32, group, place_of_work(async)),
                  "all_to_all_single_split");
  for (rank = 0; rank < ranks; ++rank) {
    int64_t first = 0;
    int before;
    for (before = 0; before < me; ++before) first += count * (rank + before) / (2 * ranks);
    expect(holds_given(output + at, rank, first, received[rank]), "what all_to_all_single_split gave");
    at += received[rank];
  }
}

void try_collectives(const unisono_group* group, int async, int64_t count) {
  int rank;
  expect_ok(unisono_group_rank(group, &me), "group_rank");
  expect_ok(unisono_group_size(group, &ranks), "group_size");
  try_reduction(unisono_all_reduce, ranks - 1, group, async, count);
  try_reduction(unisono_scan, me, group, async, count);
  try_reduction(unisono_exscan, me - 1, group, async, count);

  fill(input, ranks * count);
  clear(ranks * count);
  expect_finished(unisono_all_gather_into_tensor(input, output, count, UNISONO_INT32, group, place_of_work(async)),
                  "all_gather_into_tensor");
  for (rank = 0; rank < ranks; ++rank)
    expect(holds_given(output + rank * count, rank, 0, count), "what all_gather_into_tensor gave");
  clear(ranks * count);
  fill(output + me * count, count);
  expect_finished(unisono_all_gather_into_tensor(NULL, output, count, UNISONO_INT32, group, place_of_work(async)),
                  "all_gather in place");
  for (rank = 0; rank < ranks; ++rank)
    expect(holds_given(output + rank * count, rank, 0, count), "what all_gather in place gave");

  expect_finished(unisono_reduce_scatter_tensor(input, output, count, UNISONO_INT32, UNISONO_SUM, group, place_of_work(async)),
                  "reduce_scatter_tensor");
  expect(holds_sums(output, ranks - 1, me * count, count), "what reduce_scatter_tensor gave");

  try_rooted(group, async, count);
  try_exchange(group, async, count);
  expect_finished(unisono_barrier(group, place_of_work(async)), "barrier");
  expect_ok(unisono_monitored_barrier(group, 0), "monitored_barrier");
}

/* Two tensors, the second half as long; in one buffer each way, that of the second behind that of the first. */
static void try_coalesced(const unisono_group* group, int async, int64_t count) {
  const int64_t half = count / 2;
  const void* sources[2];
  void* places[2];
  int64_t counts[2];
  int rank, form;
  counts[0] = count - half;
  counts[1] = half;
  for (form = 0; form < 2; ++form) { /* the second time in place */
    fill(input, ranks * count);
    clear(ranks * count);
    sources[0] = input;
    sources[1] = input + counts[0];
    places[0] = output;
    places[1] = output + ranks * counts[0];
    if (form == 1) fill(output + me * counts[0], counts[0]);
    for (rank = 0; rank < half && form == 1; ++rank) output[ranks * counts[0] + me * half + rank] = given(me, counts[0] + rank);
    expect_finished(unisono_all_gather_into_tensor_coalesced(form == 0 ? sources : NULL, places, counts, 2, UNISONO_INT32, group,
                                                             place_of_work(async)),
                    "all_gather_into_tensor_coalesced");
    for (rank = 0; rank < ranks; ++rank)
      expect(holds_given(output + rank * counts[0], rank, 0, counts[0]) &&
                 holds_given(output + ranks * counts[0] + rank * half, rank, counts[0], half),
             "what all_gather_into_tensor_coalesced gave");
  }
  sources[1] = input + ranks * counts[0];
  places[1] = output + counts[0];
  clear(ranks * count);
  expect_finished(unisono_reduce_scatter_tensor_coalesced(sources, places, counts, 2, UNISONO_INT32, UNISONO_SUM, group,
                                                          place_of_work(async)),
                  "reduce_scatter_tensor_coalesced");
  expect(holds_sums(output, ranks - 1, me * counts[0], counts[0]) &&
             holds_sums(output + counts[0], ranks - 1, ranks * counts[0] + me * half, half),
         "what reduce_scatter_tensor_coalesced gave");
}

void try_lists(const unisono_group* group, int async, int64_t count) {
  void* places[MOST_RANKS];
  const void* sources[MOST_RANKS];
  int64_t counts[MOST_RANKS];
  int rank, root;
  expect_ok(unisono_group_rank(group, &me), "group_rank");
  expect_ok(unisono_group_size(group, &ranks), "group_size");
  fill(input, ranks * count);
  clear(ranks * count);
  for (rank = 0; rank < ranks; ++rank) {
    places[rank] = output + rank * count;
    sources[rank] = input + rank * count;
    counts[rank] = count * rank / ranks;
  }
  expect_finished(unisono_all_gather(input, places, counts, UNISONO_INT32, group, place_of_work(async)), "all_gather");
  for (rank = 0; rank < ranks; ++rank) expect(holds_given(output + rank * count, rank, 0, counts[rank]), "what all_gather gave");

  expect_finished(unisono_reduce_scatter(sources, apart, counts, UNISONO_INT32, UNISONO_SUM, group, place_of_work(async)),
                  "reduce_scatter");
  expect(holds_sums(apart, ranks - 1, me * count, counts[me]), "what reduce_scatter gave");

  for (root = 0; root < ranks; ++root) {
    expect_finished(unisono_scatter(root == me ? sources : NULL, apart, count, UNISONO_INT32, root, group, place_of_work(async)),
                    "scatter");
    expect(holds_given(apart, root, me * count, count), "what scatter gave");
    expect_finished(unisono_gather(input, root == me ? places : NULL, count, UNISONO_INT32, root, group, place_of_work(async)),
                    "gather");
    for (rank = 0; rank < ranks && root == me; ++rank)
      expect(holds_given(output + rank * count, rank, 0, count), "what gather gave");
  }

  for (rank = 0; rank < ranks; ++rank) counts[rank] = count * (me + rank) / (2 * ranks);
  clear(ranks * count);
  expect_finished(unisono_all_to_all(sources, counts, places, counts, UNISONO_INT32, group, place_of_work(async)), "all_to_all");
  for (rank = 0; rank < ranks; ++rank)
    expect(holds_given(output + rank * count, rank, me * count, counts[rank]), "what all_to_all gave");

  fill(output, count);
  fill(apart, 2 * count);
  places[0] = output;
  places[1] = apart;
  counts[0] = count;
  counts[1] = 2 * count;
  expect_finished(unisono_all_reduce_coalesced(places, counts, 2, UNISONO_INT32, UNISONO_SUM, group, place_of_work(async)),
                  "all_reduce_coalesced");
  expect(holds_sums(output, ranks - 1, 0, count) && holds_sums(apart, ranks - 1, 0, 2 * count), "what all_reduce_coalesced gave");
  try_coalesced(group, async, count);
}

static double reduced(unisono_op op) {
  double value = world_rank + 1;
  expect_ok(unisono_all_reduce(NULL, &value, 1, UNISONO_FLOAT64, op, NULL, NULL), "all_reduce of a double");
  return value;
}

static int32_t combined(unisono_op op) {
  int32_t value = world_rank + 1;
  expect_ok(unisono_all_reduce(NULL, &value, 1, UNISONO_INT32, op, NULL, NULL), "all_reduce of a whole number");
  return value;
}

/* Not commutative: the numbers of ranks become the digits of one, in the order of the ranks. */
static void append_digits(const void* lower, void* upper, int64_t count, unisono_dtype dtype, void* context) {
  const double* before = (const double*)lower;
  double* after = (double*)upper;
  int64_t index;
  for (index = 0; index < count && dtype == UNISONO_FLOAT64; ++index) {
    double shift = 1;
    while (shift <= after[index]) shift *= 10;
    after[index] += before[index] * shift;
  }
  ++*(int32_t*)context;
}

static void try_own_op(void) {
  unisono_op own = -1;
  int32_t calls = 0; /* perhaps on one rank only, which combines for all */
  int rank;
  double wanted = 0;
  for (rank = 0; rank < world_size; ++rank) wanted = wanted * 10 + (rank + 1);
  expect_ok(unisono_op_create("append digits", append_digits, &calls, 0, &own), "op_create");
  expect(reduced(own) == wanted, "an op of one's own keeps the order of the ranks");
  expect_ok(unisono_all_reduce(NULL, &calls, 1, UNISONO_INT32, UNISONO_SUM, NULL, NULL), "all_reduce of the calls");
  expect(world_size == 1 || calls > 0, "its context arrives");
  expect_ok(unisono_op_free(own), "op_free");
  expect(unisono_op_create(NULL, append_digits, NULL, 0, &own) == UNISONO_ARGUMENT_ERROR, "op_create without a name");
  expect(unisono_op_create("none", NULL, NULL, 0, &own) == UNISONO_ARGUMENT_ERROR, "op_create without a function");
}

/* Every dtype moves, every op does what it is called. */
void try_numbers(void) {
  const double sum = world_size * (world_size + 1) / 2.0;
  double product = 1;
  int32_t both = 1, either = 0, odd = 0;
  unisono_op premul = -1, other = -1;
  unisono_dtype dtype;
  int rank;
  for (dtype = UNISONO_BOOL; dtype <= UNISONO_FLOAT8_E8M0FNU; ++dtype) {
    unsigned char bytes[48], wanted[48];
    const int64_t length = 3 * unisono_dtype_bytes(dtype);
    int index;
    for (index = 0; index < length; ++index) {
      wanted[index] = dtype == UNISONO_BOOL ? 1 : (unsigned char)(index + 1);
      bytes[index] = world_rank == world_size - 1 ? wanted[index] : 0;
    }
    expect(length > 0, "a dtype has bytes");
    expect_ok(unisono_broadcast(bytes, 3, dtype, world_size - 1, NULL, NULL), "broadcast of every dtype");
    expect(memcmp(bytes, wanted, (size_t)length) == 0, "every dtype moves");
  }
  for (rank = 0; rank < world_size; ++rank) {
    product *= rank + 1;
    both = rank == 0 ? 1 : both & (rank + 1);
    either |= rank + 1;
    odd ^= rank + 1;
  }
  expect(reduced(UNISONO_SUM) == sum, "sum");
  expect(reduced(UNISONO_AVG) == sum / world_size, "avg");
  expect(reduced(UNISONO_PRODUCT) == product, "product");
  expect(reduced(UNISONO_MIN) == 1, "min");
  expect(reduced(UNISONO_MAX) == world_size, "max");
  expect(combined(UNISONO_BAND) == both, "band");
  expect(combined(UNISONO_BOR) == either, "bor");
  expect(combined(UNISONO_BXOR) == odd, "bxor");
  expect_ok(unisono_op_premul_sum(0.5, &premul), "op_premul_sum");
  expect_ok(unisono_op_premul_sum(3, &other), "a second op_premul_sum");
  expect(premul != other, "two ops");
  expect(reduced(premul) == sum / 2, "premul_sum with one half");
  expect(combined(other) == 3 * (int32_t)sum, "premul_sum with three");
  try_own_op();
  expect_ok(unisono_op_free(premul), "op_free");
  expect_ok(unisono_op_free(other), "op_free");
}
