// Strangers: processes on the test's machines that visit every port that somebody listens at there, without a secret and without end.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <string>
#include <vector>

#include "tests/support/machines.hpp"
#include "tests/support/outcomes.hpp"

namespace unisono::testing {

// One process a machine, which ends with this object or with the test. What each kind of visit says is a table in strangers.cpp.
class Strangers {
 public:
  enum Kind { closes_at_once, http, tls, ssh, mpi, noise, a_byte_a_second, silent, kind_count };
  static constexpr int most_silent = 1000;  // at once, on each machine

  struct Pace {
    int rest_ms = 20;   // between two rounds of visits
    bool flood = false;  // nothing but visits that close at once, as fast as they go
  };
  explicit Strangers(const TestMachines& machines) : Strangers(machines, Pace()) {}
  Strangers(const TestMachines& machines, const Pace& pace);
  ~Strangers();
  Strangers(const Strangers&) = delete;

  int64_t visits(Kind kind) const { return counts_[0].visits[kind]; }  // connections that were made
  int64_t most_held() const { return counts_[0].most_held; }           // silent ones on one machine at the same time
  int64_t at_every_address() const { return counts_[0].at_every_address; }  // times that somebody listened at 0.0.0.0 or ::

 private:
  struct Counts {
    std::atomic<int64_t> visits[kind_count], most_held, at_every_address;
  };
  void live(const Pace& pace) const;

  SharedArray<Counts> counts_{1};
  std::vector<pid_t> processes_;
};

}  // namespace unisono::testing
