// Machines that a test makes: network and UTS namespaces on one wire, as far as the tests' own user may.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.hpp"

namespace unisono::testing {

// Why this machine cannot make any; empty: it can. Without root there are none.
std::string cannot_make_machines();

// Two of them: 10.77.0.1 and 10.77.0.2, fd77::1 and fd77::2, with names "one" and "two". They go when this object does.
class TwoMachines {
 public:
  TwoMachines();
  ~TwoMachines();
  TwoMachines(const TwoMachines&) = delete;

  void enter(int machine) const;  // the calling process: from then on it is there
  void run_in(int machine, const std::string& command) const;  // a line of shell, which must succeed
  void cut_wire() const;          // nothing arrives any more, and nobody is told
  static std::string address(int machine) { return "10.77.0." + std::to_string(machine + 1); }
  static std::string address6(int machine) { return "fd77::" + std::to_string(machine + 1); }

 private:
  pid_t holders_[2] = {-1, -1};  // each keeps its namespaces alive
  Descriptor alive_;             // closed: they end
};

}  // namespace unisono::testing
