// What ends the ranks' process groups when the launcher is killed: the kernel does so to the ranks themselves (PR_SET_PDEATHSIG), and not to what they have started.
#pragma once

#include <sys/types.h>

#include "base/descriptor.hpp"
#include "unisono/status.hpp"

namespace unisono::tools {

// A process in a session of its own, which no signal for ours reaches. It waits for the end of a pipe that the launcher alone has; then it kills the groups that it knows of, and ends.
class Keeper {
 public:
  Keeper() = default;
  ~Keeper();
  Keeper(const Keeper&) = delete;

  Status open();
  void keep(pid_t group) const { tell(group); }
  void forget(pid_t group) const { tell(-group); }  // it may go on without us

 private:
  void tell(pid_t group) const;

  Descriptor way_;
  pid_t pid_ = 0;
};

}  // namespace unisono::tools
