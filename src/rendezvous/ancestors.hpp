// The processes above this one. Hydra gives its ranks no job name in their environment, so the process that started
// them has to stand for the job; everything else that concerns launchers is a matter of the environment.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace unisono {

struct Ancestor {
  int pid = 0;
  std::string name;                  // as the kernel keeps it: at most 15 characters
  int64_t start_ticks = 0;           // clock ticks after boot; with the pid it names one process for good
  std::vector<std::string> command;  // empty where we may not read it

  bool operator==(const Ancestor&) const = default;
};

// Parent first, then its parent, as far as /proc shows them.
std::vector<Ancestor> process_ancestors();

}  // namespace unisono
