// The lists of forms, one a dialect; see trial.hpp.
#pragma once

#include <span>

#include "tests/support/trial.hpp"

namespace unisono::testing {

std::span<const Form> distributed_forms();
std::span<const Form> comm_func_forms();
std::span<const Form> engine_forms();

// The length of each rank's piece in the uneven forms, around `count`; some are empty.
inline int64_t uneven_count(int64_t count, int rank) { return count * (rank % 3) / 2 + rank % 2; }

}  // namespace unisono::testing
