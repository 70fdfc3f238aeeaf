// See restarts.hpp.
#include "tools/run/restarts.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <map>

namespace unisono::tools {

int run_with_restarts(int restarts, const std::function<JobEnding()>& run) {
  std::map<int, int> failed;  // rank → how often
  for (int restart = 1;; ++restart) {
    const JobEnding ending = run();
    if (ending.status == 0 || ending.was_interrupted || ending.failed_rank < 0) return ending.status;
    const int times = ++failed[ending.failed_rank];
    const std::string who = fmt::format("rank {} failed{}", ending.failed_rank, times == 1 ? "" : fmt::format(", {} times now", times));
    if (restart > restarts) {
      if (restarts > 0) fmt::print(stderr, "unisono run: {}; the job was started {} times, and that was the last\n", who, restarts + 1);
      return ending.status;
    }
    fmt::print(stderr, "unisono run: {}; starting the job anew, {} of {}\n", who, restart, restarts);
  }
}

}  // namespace unisono::tools
