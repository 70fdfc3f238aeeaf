// See trial_lists.hpp.
#include "tests/support/trial_lists.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "base/sizes.hpp"

namespace unisono::testing {
namespace {

// Whether a trial's count is that of one piece of many, rather than of the data.
bool in_pieces(const Form& form) {
  return form.collective != Collective::all_reduce && form.collective != Collective::reduce &&
         form.collective != Collective::broadcast && form.collective != Collective::scan && form.collective != Collective::exscan;
}

// Of one slot when all slots of a tile fill the set of a lane: the largest tile there is.
int64_t largest_tile(int ranks) { return std::clamp(ranks * 32_KiB, 128_KiB, 512_KiB) / ranks / 64 * 64; }

std::vector<int64_t> counts_of(const Form& form, DType dtype, const Extent& extent) {
  const int64_t ranks = extent.ranks, element = element_bytes(dtype);
  const int64_t line = 120 / element, slot = 8_KiB / element, combined = 64_KiB / element;
  const int64_t tile = (extent.tile_bytes > 0 ? extent.tile_bytes : largest_tile(extent.ranks)) / element;
  const int64_t tiles = tile * (in_pieces(form) ? 2 : ranks);
  const int64_t large = 3_MiB / element / (in_pieces(form) ? ranks : 1);
  if (form.collective == Collective::barrier) return {0};
  return {0,
          1,
          ranks - 1,
          ranks,
          ranks + 1,
          line - 1,
          line,
          line + 1,
          slot - 1,
          slot,
          slot + 1,
          slot / ranks,
          slot / ranks + 1,
          tile - 1,
          tile,
          tile + 1,
          tiles - 1,
          tiles,
          tiles + 1,
          combined - 1,
          combined,
          combined + 1,
          combined / ranks,
          combined / ranks + 1,
          large};
}

int64_t bytes_of(const Trial& trial, int ranks) {
  return trial.count * element_bytes(trial.dtype) * (in_pieces(*trial.form) ? ranks : 1);
}

struct Numbers {
  DType dtype;
  ReduceOp op;
};

std::vector<Numbers> reducible_numbers() {
  std::vector<Numbers> numbers;
  for (DType dtype : reducible_dtypes())
    for (ReduceOp op : meaningful_ops(dtype)) numbers.push_back({dtype, op});
  return numbers;
}

std::vector<Numbers> movable_numbers() {
  std::vector<Numbers> numbers;
  for (DType dtype : all_dtypes()) numbers.push_back({dtype, ReduceOp::sum});
  return numbers;
}

std::vector<Trial> thinned(const std::vector<Trial>& trials, int every) {
  std::vector<Trial> kept;
  for (size_t index = 0; index < trials.size(); index += static_cast<size_t>(every)) kept.push_back(trials[index]);
  return kept;
}

// Dtypes and ops in turn. The stride has no factor in common with their number, so all of them come up.
class Turns {
 public:
  explicit Turns(int first) : turn_(static_cast<size_t>(first)) {}
  Trial next(const Form& form, int ranks) {
    const std::vector<Numbers>& numbers = form.reduces ? reducible_ : movable_;
    do turn_ += 37;
    while (form.reduces && !takes(form, numbers[turn_ % numbers.size()].op));
    const Numbers& mine = numbers[turn_ % numbers.size()];
    return {&form, mine.dtype, mine.op, 0, static_cast<int>(turn_ / 37 % static_cast<size_t>(ranks))};
  }

 private:
  std::vector<Numbers> reducible_ = reducible_numbers(), movable_ = movable_numbers();
  size_t turn_;
};

}  // namespace

bool any_form(const Form&) { return true; }

std::vector<int64_t> counts_of_interest(const Form& form, DType dtype, const Extent& extent) {
  return counts_of(form, dtype, extent);
}

std::vector<Trial> trials_of_sizes(const Extent& extent, const FormFilter& wanted) {
  std::vector<Trial> trials;
  Turns turns(extent.ranks * 101);
  for (const Form& form : all_forms()) {
    if (!wanted(form)) continue;
    const size_t sizes = counts_of(form, DType::int8, extent).size();
    for (size_t size = 0; size < sizes; ++size)
      for (int turn = 0; turn < extent.turns; ++turn) {
        Trial trial = turns.next(form, extent.ranks);
        trial.count = counts_of(form, trial.dtype, extent)[size];
        if (bytes_of(trial, extent.ranks) <= extent.largest_bytes) trials.push_back(trial);
      }
  }
  return thinned(trials, extent.every);
}

std::vector<Trial> trials_of_numbers(const Extent& extent, int64_t count, const FormFilter& wanted) {
  std::vector<Trial> trials;
  for (const Form& form : all_forms()) {
    if (!wanted(form)) continue;
    for (const Numbers& numbers : form.reduces ? reducible_numbers() : movable_numbers())
      for (int root = 0; root < (form.rooted ? extent.ranks : 1); ++root)
        if (takes(form, numbers.op)) trials.push_back({&form, numbers.dtype, numbers.op, count, root});
  }
  return thinned(trials, extent.every);
}

void perform_all(const std::vector<Trial>& trials, const Worlds& worlds) {
  make_patterns_of(trials, worlds.sizes.front());
  for_each_world(worlds, [&](TestWorld& world) {
    for (const Trial& trial : trials) {
      perform(trial, world.world().world_group());
      if (::testing::Test::HasFailure()) return;  // one is enough to read
    }
  });
}

}  // namespace unisono::testing
