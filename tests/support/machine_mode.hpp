// Worlds on machines: where UNISONO_TEST_MACHINES names a layout ("halves", "uneven", …, see layouts.hpp), every world that a test makes through
// test_world.hpp is on so many machines (machines.hpp), and its ranks meet as env:// has it: by MASTER_ADDR, in TLS, with the secret of the mode.
// "halves,6": without IPv4. UNISONO_TEST_STRANGERS: strangers visit everything that listens there meanwhile (strangers.hpp).
//
// The machines are made once, when the program starts, so that all processes which it forks have the same. A thread that joins moves to its rank's
// machine and stays there; so ranks that are threads are on machines, too.
#pragma once

#include <memory>

#include "group/world.hpp"

namespace unisono::testing {

bool on_machines();  // UNISONO_TEST_MACHINES is set

// Whether a world of these options belongs there: one that has several ranks and pretends nothing.
bool belongs_on_machines(const WorldOptions& options);
Result<std::shared_ptr<World>> join_on_machine(const WorldOptions& options);

}  // namespace unisono::testing
