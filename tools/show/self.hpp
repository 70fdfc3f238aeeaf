// Starting this very command again as the ranks of a job.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/run/launcher.hpp"

namespace unisono::tools {

inline constexpr const char* as_rank_flag = "--as-rank";  // hidden: this process is one of the ranks

// `environment` is NAME=VALUE, for all ranks, over what this process has.
inline int run_self(int ranks, const std::vector<std::string>& arguments, std::vector<std::string> environment = {}) {
  RunOptions options;
  options.ranks = ranks;
  options.prefix = false;
  options.environment = std::move(environment);
  options.command = {"/proc/self/exe"};
  options.command.insert(options.command.end(), arguments.begin(), arguments.end());
  options.command.push_back(as_rank_flag);
  return run_here(options).status;
}

}  // namespace unisono::tools
