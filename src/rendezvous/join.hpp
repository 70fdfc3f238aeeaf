// How the ranks of one machine meet: at an abstract AF_UNIX name made of the user and the job. Rank 0 listens there,
// collects everyone's arena, and hands each of them to all. No port, no file, no secret.
//
// Where ranks may be on several machines there is a store that all reach. On each machine the first to come listens, whatever its rank: the
// machine's agent. The agents tell each other of their ranks through the store (roster.hpp); ranks that meet nobody at the name of their own machine
// are elsewhere, whatever a launcher says. Only if there are several machines does anybody open a socket; then the agents prove that they reach each
// other (reach.hpp).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/descriptor.hpp"
#include "base/hosts.hpp"
#include "base/log.hpp"
#include "rendezvous/door.hpp"
#include "rendezvous/roster.hpp"
#include "transport/arena.hpp"
#include "transport/fabric.hpp"
#include "transport/lanes.hpp"
#include "transport/sockets.hpp"
#include "unisono/status.hpp"

namespace unisono {

struct JoinRequest {
  int rank = 0;
  int size = 1;
  std::string job;  // equal on all ranks of a job, different between jobs
  Deadline deadline;
  Log log;
  std::string addresses = {};  // of this rank's sockets, as text_of() writes them; empty: it has none
  Hosts hosts = {};  // pretended: the ranks of one machine share their arenas as if they were on so many
  std::string hosts_text = {};  // as it was given
  MeetingStore store = {};   // none: all ranks are on this machine
  std::function<Result<Sockets*>(const std::string& world)> listen = {};  // with a store: opens this rank's sockets
  double warn_after_s = 10;  // until who waits for the others says who is missing
  bool encrypt = false;
  int sockets_per_peer = 1;
  FabricHere fabric = FabricHere::not_looked_for;
  std::string hint = {};     // behind the word that ranks are missing
};

// By what one learns that a rank is gone; both are readable then, and empty for oneself.
struct Watch {
  Descriptor process;  // a pidfd: it has ended. Empty where its pid means nothing to rank 0: another pid namespace
  Descriptor life;     // the reading end of a pipe that the rank holds open: it has ended, has left, or runs another program
};

// What a rank holds once all have met; a resource, moved once into the World.
struct Joined {
  std::vector<Neighbour> neighbours;  // by rank, this one included
  std::vector<Watch> watches;         // by rank
  Door door;                          // rank 0: the meeting place, kept for late_visitors.hpp
  Descriptor life;                    // closed when we end, leave or call exec(): the others watch its other end
  Hosts hosts;                        // which ranks share a machine, or are to treat each other so
  bool global_barrier = false;        // whether every process has registered for membarrier
  std::shared_ptr<Roster> roster;     // the agent's, where there is a store: to be finished when all groups of the world know each other
  bool is_first_machine = false;      // rank 0 is on this one
};

Result<Joined> join(const JoinRequest& request, const Arena& arena);

// Before anything is opened: whether there are descriptors enough, or how many are missing. Then again, before anybody connects, when it is
// known how many ranks are on other machines.
Status require_descriptors(const JoinRequest& request);
Status require_connections(const JoinRequest& request, int elsewhere, bool is_agent);

// Instead of joining: tells the others why this rank cannot, if they are there or come soon, and returns `why`.
Status decline(const JoinRequest& request, const Status& why);

std::string meeting_place(const std::string& job);

}  // namespace unisono
