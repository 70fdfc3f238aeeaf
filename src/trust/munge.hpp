// Munge: by what the daemons of a cluster know who a message is from. Slurm needs it, so where there is Slurm there is munge, and one key on all machines. Here it hands out the
// job's secret where the user has made none: rank 0 seals a new one, and only the same user's processes can open it.
#pragma once

#include <string>

#include "base/clock.hpp"
#include "trust/secret.hpp"
#include "unisono/status.hpp"

namespace unisono {

// libmunge.so.2 can be loaded here; whether its daemon runs is another question.
bool has_munge();

// As a credential, a text without spaces, for as long as `good_for_s` or the daemon allows. AuthError with munge's own words: it cannot be had.
Result<std::string> seal_by_munge(const Secret& secret, double good_for_s, const Deadline& deadline);

// What this user has sealed, on whatever machine. AuthError: it cannot be opened here, or was sealed by somebody else.
Result<Secret> open_by_munge(const std::string& credential, const Deadline& deadline);

}  // namespace unisono
