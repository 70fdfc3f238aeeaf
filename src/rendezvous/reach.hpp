// Whether machines reach each other, proven by opening a connection from each one's agent to each other's, before the world is joined: so a wrong
// interface or a firewall is an InitError in seconds that says what was tried, and no hang in the first call.
//
// One direction is enough. Each agent tells in the roster (round "reach") whom it reached; who cannot reach another machine waits for its connections.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "transport/connecting.hpp"

namespace unisono {

// What the agents of so many machines say, by the number of the machine. Whoever can write to the store wrote it: what cannot be is an InitError, texts are made legible. Also
// an InitError where two machines cannot reach each other at all.
Status check_reach(const std::vector<std::string>& rows, int machines);

class Reach {
 public:
  struct Other {
    int machine = 0, rank = 0;  // its number, its agent
    uint64_t token = 0;
    std::vector<Address> addresses = {};
  };
  struct Way {
    Address by = {};  // the host that was reached
    bool out_of_reach = false, waits_for_us = false;
  };
  struct Self {
    int machine = 0, rank = 0, machines = 0;
    double patience_s = 6;  // with an address that does not answer; two seconds where the other has come to this machine meanwhile
  };
  Reach(Sockets& sockets, const Self& self, std::vector<Other> others);

  bool turn();               // true: all have been reached, or cannot be, which takes seconds; then the sockets' descriptor tells when to come again
  Status late() const;       // the deadline came first
  std::string text() const;  // for the roster: of each machine + or -, then a line for each that could not be reached, with its number and why
  Status read(const std::vector<std::string>& rows);
  const Way& way_to(int machine) const { return ways_[static_cast<size_t>(machine)]; }

 private:
  struct Trial {
    Other other;
    std::unique_ptr<Connecting> connecting;  // null: it is over
    std::string why = {};
  };
  Sockets& sockets_;
  Self self_;
  Deadline enough_;  // where one direction is proven
  std::vector<Trial> trials_;
  std::vector<Way> ways_;  // by machine
};

}  // namespace unisono
