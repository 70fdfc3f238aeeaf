// `unisono run --restarts`: the job anew when a rank of it has failed.
#pragma once

#include <functional>

#include "tools/run/launcher.hpp"

namespace unisono::tools {

// Runs it once, and as often again as told while it fails: not when the user has ended it, nor where the program cannot be started. Returns what it came to at last.
int run_with_restarts(int restarts, const std::function<JobEnding()>& run);

}  // namespace unisono::tools
