// `unisono run`: starts the ranks of a job on this machine, carries their output and the launcher's signals, and when
// one fails says which and how, and ends the rest.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/run/orders.hpp"
#include "unisono/status.hpp"

namespace unisono::tools {

struct RunOptions {
  int ranks = 0;
  bool keep_going = false;               // leave the others running when one fails
  bool prefix = true;                    // "[2] " in front of every line that rank 2 writes
  double grace_s = 5;                    // from SIGTERM to SIGKILL
  std::string pretend_hosts = {};        // a layout such as "2,2"; "": none
  std::vector<std::string> environment = {};  // NAME=VALUE, for all ranks
  std::vector<std::string> command = {}; // the program and its arguments
  int secret = -1;                       // the descriptor that ranks read the job's secret from; otherwise they find it, or we do
  std::optional<Sheet> sheet = {};       // of a job on several hosts, of which this is one: then orders come on standard input
  OrderReader orders = {};               // what has come of them already
};

// How a job ended. The status is 0 when all ranks succeeded, otherwise that of the first that failed, which is 128 + signal for one that was killed;
// 126 or 127 where the program cannot be started.
struct JobEnding {
  int status = 0;
  int failed_rank = -1;          // none
  bool was_interrupted = false;  // by a signal of the user's
};

// Returns when all ranks have ended.
JobEnding run_here(const RunOptions& options);

void open_standard_descriptors();  // a closed one would be given to the next pipe that is opened
Status check_descriptors(int needed, const std::string& what);  // ResourceError with the numbers

}  // namespace unisono::tools
