// Machines that a test makes: network and UTS namespaces on one wire, as far as the tests' own user may.
#pragma once

#include <string>
#include <vector>

#include "base/descriptor.hpp"

namespace unisono::testing {

// Why this machine cannot make any; empty: it can. Without root there are none.
std::string cannot_make_machines();

enum class Families { both, only_6 };

// So many of them: 10.77.0.1, 10.77.0.2, …; fd77::1, fd77::2, …; with names "one", "two", …. Each has one interface, "wire". Two are joined by a veth pair,
// more by a bridge in a namespace of its own. They go when this object does and no process is in them any more.
class TestMachines {
 public:
  explicit TestMachines(int count, Families families = Families::both);
  TestMachines(const TestMachines&) = delete;

  int count() const { return static_cast<int>(spaces_.size()); }
  void enter(int machine) const;  // the calling thread: from then on it is there, and whatever it starts
  void run_in(int machine, const std::string& command) const;  // a line of shell, which must succeed
  // Of more than two: nothing goes to it or comes from it, and nobody is told, as if it had lost its power.
  void cut_off(int machine, bool is_off = true) const;
  static std::string address(int machine) { return "10.77.0." + std::to_string(machine + 1); }
  static std::string address6(int machine) { return "fd77::" + std::to_string(machine + 1); }

 protected:
  struct Spaces {
    Descriptor network, names;
  };
  TestMachines() = default;
  void make(int count);  // without a wire
  void join(Families families);
  void set_up(int machine, Families families) const;

  std::vector<Spaces> spaces_;
  Spaces bridge_;
};

class TwoMachines : public TestMachines {
 public:
  explicit TwoMachines() : TestMachines(2) {}
  void cut_wire() const;  // nothing arrives any more, and nobody is told
};

// What listens at every address of the machine that the calling thread is on, as lines of /proc: nothing of ours should.
std::string listeners_at_every_address();

}  // namespace unisono::testing
