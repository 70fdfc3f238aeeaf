// The steps of one rank for one kind of call. A Schedule serves every count and dtype: the Run cuts the buffers into
// chunks, cuts long chunks into tiles, and performs the whole schedule once per tile with a few tiles in flight.
//
// Chunks by collective (n = ranks; "data" is cut into `chunks` near-equal parts):
//   all_reduce      input, output: data          reduce   input: data, output: data (root)
//   all_gather      input: 1, output: n          gather   input: 1, output: n (root)
//   reduce_scatter  input: n, output: 1          scatter  input: n (root), output: 1
//   broadcast       input: data (root), output: data (the others)
//   all_to_all      input: n, output: n          barrier  none
//   scan            input, output: data          exscan   input: data, output: data (all but rank 0)
#pragma once

#include <string>
#include <vector>

#include "base/hosts.hpp"
#include "schedule/step.hpp"
#include "unisono/types.hpp"

namespace unisono {

// Where a schedule is made for: this rank among how many, the root of rooted collectives, and who shares a host.
struct Place {
  int rank = 0;
  int ranks = 1;
  int root = 0;
  Hosts hosts = {};

  bool operator==(const Place&) const = default;
};

// Messages that come before the one awaited are of so many tiles at most, from the receiver's oldest on, with `window` in flight.
constexpr int tiles_set_aside(int window) { return 2 * window; }

struct Schedule {
  Collective collective = Collective::all_reduce;
  std::string algorithm;
  Place place;
  int chunks = 1;       // parts that "data" is cut into
  int stage_slots = 0;  // slots of one tile in this rank's lane; the same on all ranks
  int scratch_chunks = 0;
  int gathered_chunks = 0;  // as many as ranks, or none
  std::vector<Step> steps;

  bool operator==(const Schedule&) const = default;
};

}  // namespace unisono
