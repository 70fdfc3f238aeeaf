// A random program of collective calls, the same on all ranks: what the torture tests perform. A program is a value
// that follows from its seed alone.
#pragma once

#include <string>
#include <vector>

#include "base/hosts.hpp"
#include "tests/support/calls.hpp"
#include "tests/support/test_world.hpp"
#include "tests/support/trial.hpp"

namespace unisono::testing {

enum class Deed {
  call,     // one collective, checked against the oracle
  finish,   // waits for all asynchronous calls under way
  make,     // a group of these ranks
  split,    // groups by colour
  destroy,  // ends a group
  differ,   // one member makes another call than the rest
  refuse,   // one member's arguments are wrong
};

struct Action {
  Deed deed = Deed::call;
  int group = 0;                    // that it is about; of a split, the first that it makes
  Trial trial = {};                 // call
  int member = 0;                   // differ, refuse: whose call is another
  CallChoice usual = {}, odd = {};  // differ, and refuse without `odd`
  int parent = 0;                   // split
  std::vector<int> colours = {}, keys = {};
};

// A group at the time when it lives. The first of a program is the world.
struct Circle {
  std::vector<int> ranks = {};
  std::string name = {};  // "": made without one
  int run_ahead = 0;
  int made_by = -1;    // index of the action; -1: there from the start
  bool ended = false;  // by the end of the program
};

struct Program {
  uint64_t seed = 0;
  int ranks = 1;
  Kind kind = Kind::processes;
  Settings settings = {};
  std::vector<Circle> circles = {};
  std::vector<Action> actions = {};
  std::vector<int> victims = {};  // ranks that will die

  std::string text() const;
  std::string text_of(size_t action) const;
  bool is_doomed(int circle) const;  // one of its members is a victim
  Hosts hosts() const;
};

struct Scope {
  int least_ranks = 1, most_ranks = 9;
  int actions = 100;
  bool deaths = false;
};
Program random_program(uint64_t seed, const Scope& scope);

// Makes the patterns of all calls, so that ranks that are processes need not make them each.
void make_patterns_of(const Program& program);

}  // namespace unisono::testing
