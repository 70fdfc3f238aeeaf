// The launcher of one host of a job, which the launcher of the job has started by ssh: see over_ssh.hpp.
#pragma once

namespace unisono::tools {

// Says that it is there, waits for its sheet, and starts its ranks. Returns what `unisono run` returns on one machine.
int run_agent();

}  // namespace unisono::tools
