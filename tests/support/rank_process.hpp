// How a test starts a process that will be a rank, and what the rough tier changes about it. UNISONO_TEST_ROUGH holds the name of
// the mode that a test runs in (tests/rough/modes.py); most modes need nothing from the test, two act on each rank:
//
//   d   descriptors 0, 1 and 2 are closed in the rank; failed expectations travel over a descriptor of their own
//   g   every rank is in a pid namespace of its own, where it is process 2
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

namespace unisono::testing {

std::string rough_mode();  // "" outside the rough tier
bool in_rough_mode(char letter);

// Starts a process that runs the body and exits with 0, or with 1 if an expectation failed or an exception left the body. What
// it writes to standard output and standard error goes to the descriptor `output`. Throws if no process could be started.
pid_t start_process(int output, const std::function<void()>& body);

}  // namespace unisono::testing
