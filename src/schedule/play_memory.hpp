// The memory that Player plays in: every chunk of every rank and tile, what it holds, who wrote it last, and which
// peers have read it since. Input, output and scratch belong to one tile; slots are used again by a later tile.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/fingerprint.hpp"
#include "schedule/messages.hpp"
#include "schedule/schedule.hpp"

namespace unisono {

struct CallSet {  // one call of the group: the schedules of all its ranks
  std::span<const Schedule> ranks;
  Messages messages;
};

struct PlayOptions {
  int window = 1;                // tiles in flight on each rank
  int tiles = 3;                 // of each call
  bool in_place = false;         // output and input are the same memory where the collective allows it
  bool widened = false;          // the dtype is one that partials are wider than, so they lie apart from the output
  bool announced = false;        // calls are announced; see play.hpp
  bool canonical_order = false;  // additions must follow the canonical tree
  bool sets_aside = true;        // messages that come before the one awaited; else they are taken in the order sent
  uint64_t seed = 0;             // of the fingerprints and, unless 0, of the interleaving
};

struct RemoteRead {
  int strand;
  uint32_t epoch;
  int step;
  int next;  // the read before it, or -1
};

struct Location {
  Fingerprint content;
  int tile = -1;       // that wrote it last
  uint32_t epoch = 0;  // of that write
  int held = 0;        // posted sends that nobody has taken yet
  int last_read = -1;  // reads by peers since that write, as a list
};

class Memory {
 public:
  Memory(std::span<const CallSet> calls, const PlayOptions& options);

  // In place, an output chunk and its input twin are one location; so are a partial and its output where it is not wider.
  int locate(int rank, int tile, ChunkRef chunk) const;
  Location& operator[](int location) { return locations_[location]; }
  const Location& operator[](int location) const { return locations_[location]; }

  // The tile that last wrote into the slot set which `tile` uses on this rank; the set's first location, and how many
  // it has, one after the other.
  int& set_tile(int rank, int tile) { return set_tiles_[rank * slot_sets_ + tile % slot_sets_]; }
  int first_slot(int rank, int tile) const { return locate(rank, tile, {Buffer::stage, 0}); }
  int slots() const { return slots_; }

  const RemoteRead* reads_of(const Location& location) const { return read_at(location.last_read); }
  const RemoteRead* read_before(const RemoteRead& read) const { return read_at(read.next); }
  void note_read(Location& location, RemoteRead read);

 private:
  struct Block {  // the input, output, scratch, partials and what is gathered, of one rank in one call's first tile
    int base = 0, inputs = 0, scratch = 0, gathered = 0, end = 0;
    std::vector<int> outputs = {};
    std::vector<int> partials = {};
  };

  const RemoteRead* read_at(int index) const { return index < 0 ? nullptr : &reads_[index]; }
  Block block_of(const Schedule& schedule, const PlayOptions& options, int base) const;

  int ranks_, tiles_, slot_sets_;
  int slots_ = 0;  // of one set
  int stage_base_ = 0;
  std::vector<Block> blocks_;      // per call and rank
  std::vector<int> tile_strides_;  // per call
  std::vector<Location> locations_;
  std::vector<int> set_tiles_;  // per rank and slot set
  std::vector<RemoteRead> reads_;
};

}  // namespace unisono
