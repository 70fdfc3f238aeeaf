// The lists of forms, one a dialect; see trial.hpp.
#pragma once

#include <span>

#include "tests/support/trial.hpp"

namespace unisono::testing {

std::span<const Form> distributed_forms();
std::span<const Form> comm_func_forms();
std::span<const Form> exchange_forms();  // gather and all_to_all of both
std::span<const Form> coalesced_forms();
std::span<const Form> scan_forms();      // of both
std::span<const Form> prepared_forms();
std::span<const Form> letter_forms();     // of both

// The length of each rank's piece in the uneven forms, around `count`; some are empty.
inline int64_t uneven_count(int64_t count, int rank) { return count * (rank % 3) / 2 + rank % 2; }
// The same between two ranks.
inline int64_t pair_count(int64_t count, int from, int to) { return count * ((from + 2 * to) % 3) / 2 + (from + to) % 2; }

}  // namespace unisono::testing
