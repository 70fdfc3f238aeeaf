// `unisono run --hosts`: the launcher of a job on several hosts. It starts a launcher on each by OpenSSH's client (agent.hpp), tells each what to do when all are there,
// carries what they write, passes on signals and rank 0's input, and ends all when one fails. The end of the way to a host ends that host's ranks.
#pragma once

#include <string>
#include <vector>

#include "tools/run/host_list.hpp"
#include "tools/run/launcher.hpp"

namespace unisono::tools {

struct SshOptions {
  std::vector<HostShare> hosts;
  std::vector<std::string> ssh = {"ssh"};  // the client and options of the user's
};

// Returns when all ranks have ended.
JobEnding run_over_ssh(const RunOptions& options, const SshOptions& over);

}  // namespace unisono::tools
