// Which chunks a rank has in each collective, and what its output must hold in the end: the table of schedule.hpp,
// as functions. The verifier judges by them; whoever binds chunks to addresses can count with them.
#pragma once

#include <optional>

#include "schedule/schedule.hpp"

namespace unisono {

// Chunks of a buffer on the schedule's rank; 0 where it has none: the output of a reduce on all but the root, say.
int chunk_count(const Schedule& schedule, Buffer buffer);

// Chunks with equal numbers are equally long. Pieces may be uneven, so a chunk must never land in one of another
// length. -1 for stage, which takes any.
int length_class(const Schedule& schedule, ChunkRef chunk);

ChunkRef input_like(const Schedule& schedule, int scratch_chunk);  // the input chunk that a chunk of scratch is as long as

// The input chunk that lies at the same address when the caller works in place.
std::optional<ChunkRef> in_place_twin(const Schedule& schedule, int output_chunk);

// Where the content of an output chunk comes from: chunk `chunk` of one rank's input, or of that of several, added up.
struct Origin {
  int ranks = 0;  // so many from rank 0 on, added up; 0: the one rank below
  int rank = 0;
  int chunk = 0;

  bool operator==(const Origin&) const = default;
};
Origin origin_of(const Schedule& schedule, int output_chunk);

bool has_root(Collective collective);
int own_chunk(const Schedule& schedule);  // the chunk of the input that is this rank's, where there is one for each, or the only one
bool adds_everyone(Collective collective);  // every output is a sum of all ranks' parts
bool adds(Collective collective);

}  // namespace unisono
