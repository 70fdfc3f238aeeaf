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

#include <algorithm>
#include <span>
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
  bool partials = false;    // scratch and `partial` hold sums that are not rounded yet, and more of scratch may be as long as an input chunk
  int partial_slots = 0;    // so many stage slots, the last ones, hold partials; the same on all ranks
  int gathered_chunks = 0;  // as many as ranks, or none
  std::vector<std::vector<int>> teams;  // ranks in ascending order; steps name them by their number
  std::vector<Step> steps;

  bool operator==(const Schedule&) const = default;
};

// Whether a chunk holds what is not rounded yet; for dtypes that partials are wider than, it is longer than what it is made of.
inline bool holds_partials(const Schedule& schedule, ChunkRef chunk) {
  if (chunk.buffer == Buffer::stage) return chunk.chunk >= schedule.stage_slots - schedule.partial_slots;
  return schedule.partials && (chunk.buffer == Buffer::scratch || chunk.buffer == Buffer::partial);
}

// The ranks that an await or a reduce_peers goes by, in ascending order; cheap, and valid as long as the schedule is.
class Team {
 public:
  Team(const Schedule& schedule, const Step& step) : size_(schedule.place.ranks) {
    if (step.peer != everyone) {
      ranks_ = &step.peer;
      size_ = 1;
    } else if (step.team != everyone) {
      const std::vector<int>& ranks = schedule.teams[static_cast<size_t>(step.team)];
      ranks_ = ranks.data();
      size_ = static_cast<int>(ranks.size());
    }
  }
  int size() const { return size_; }
  int operator[](int index) const { return ranks_ ? ranks_[index] : index; }
  bool has(int rank) const {
    if (!ranks_) return rank >= 0 && rank < size_;
    return std::ranges::binary_search(std::span(ranks_, static_cast<size_t>(size_)), rank);
  }

 private:
  const int* ranks_ = nullptr;  // null: all ranks of the group
  int size_;
};

}  // namespace unisono
