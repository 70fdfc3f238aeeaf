// What a launcher says by PMIx alone, entered into the environment under names of ours, so that launchers.cpp reads it like all else. See pmix.hpp.
#pragma once

#include <string_view>

#include "base/clock.hpp"
#include "unisono/settings.hpp"
#include "unisono/status.hpp"

namespace unisono {

inline constexpr std::string_view pmix_job_size = "PMIX_JOB_SIZE", pmix_local_rank = "PMIX_LOCAL_RANK", pmix_local_size = "PMIX_LOCAL_SIZE";

// The environment with it, where the launcher is one of those; otherwise as it was. InitError: it could not be asked.
Result<Environment> with_what_pmix_says(Environment environment, const Deadline& deadline);

}  // namespace unisono
