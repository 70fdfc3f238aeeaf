// `unisono run`: starts the ranks of a job on this machine, carries their output and the launcher's signals, and when
// one fails says which and how, and ends the rest.
#pragma once

#include <string>
#include <vector>

namespace unisono::tools {

struct RunOptions {
  int ranks = 0;
  bool keep_going = false;               // leave the others running when one fails
  bool prefix = true;                    // "[2] " in front of every line that rank 2 writes
  double grace_s = 5;                    // from SIGTERM to SIGKILL
  std::string pretend_hosts;             // a layout such as "2,2"; "": none
  std::vector<std::string> environment;  // NAME=VALUE, for all ranks
  std::vector<std::string> command;      // the program and its arguments
};

// Returns when all ranks have ended: 0 when all succeeded, otherwise the status of the first that failed, which is
// 128 + signal for one that was killed; 126 or 127 where the program cannot be started.
int run_command(const RunOptions& options);

}  // namespace unisono::tools
