// How the ranks of one machine meet: at an abstract AF_UNIX name made of the user and the job. Rank 0 listens there,
// collects everyone's arena, and hands each of them to all. No port, no file, no secret.
#pragma once

#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/descriptor.hpp"
#include "base/log.hpp"
#include "transport/arena.hpp"
#include "transport/lanes.hpp"
#include "unisono/status.hpp"

namespace unisono {

struct JoinRequest {
  int rank = 0;
  int size = 1;
  std::string job;  // equal on all ranks of a job, different between jobs
  Deadline deadline;
  Log log;
};

// What a rank holds once all have met; a resource, moved once into the World.
struct Joined {
  std::vector<Neighbour> neighbours;  // by rank, this one included
  std::vector<Descriptor> watches;    // by rank: readable when that process has died; empty for this one
  Descriptor listener;                // rank 0: the meeting place, kept for late_visitors.hpp
  Descriptor life;                    // closed by our death; peers without a pid of ours watch its other end
  bool global_barrier = false;        // whether every process has registered for membarrier
};

Result<Joined> join(const JoinRequest& request, const Arena& arena);

std::string meeting_place(const std::string& job);

}  // namespace unisono
