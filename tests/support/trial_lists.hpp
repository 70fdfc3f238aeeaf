// Which trials to make: the sizes at which something changes, and ways to go through forms, dtypes, ops and roots
// without trying every combination.
#pragma once

#include <functional>
#include <vector>

#include "tests/support/test_world.hpp"
#include "tests/support/trial.hpp"

namespace unisono::testing {

using FormFilter = std::function<bool(const Form&)>;
bool any_form(const Form& form);

struct Extent {
  int ranks = 1;
  int64_t tile_bytes = 0;           // around which sizes are tried; 0: as large as a lane's slot set allows
  int64_t largest_bytes = 3 << 20;  // larger sizes are left out
  int turns = 1;                    // how many dtypes, ops and roots are tried at each form and size
  int every = 1;                    // only n-th trial is made, n being this
};

// The sizes at which something changes, in elements; the same number of them for every dtype.
std::vector<int64_t> counts_of_interest(const Form& form, DType dtype, const Extent& extent);

// Every form at every size of interest: none, one, about the ranks, a cache line, a slot, a tile, 64 KiB, 3 MiB.
// Dtypes, ops and roots take turns, beginning elsewhere for every number of ranks.
std::vector<Trial> trials_of_sizes(const Extent& extent, const FormFilter& wanted = any_form);
// Every form with every dtype, every op that means something and every root, at one size.
std::vector<Trial> trials_of_numbers(const Extent& extent, int64_t count, const FormFilter& wanted = any_form);

// All of them in these worlds, one after the other, up to the first that fails.
void perform_all(const std::vector<Trial>& trials, const Worlds& worlds);

}  // namespace unisono::testing
