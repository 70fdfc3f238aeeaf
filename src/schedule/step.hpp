// One movement or one addition of one rank, in chunk units: no addresses, no bytes, no dtype.
#pragma once

#include <cstdint>

namespace unisono {

inline constexpr int everyone = -1;  // as a peer: all others of the step's team; as a team: all ranks
inline constexpr int max_flags = 4;  // flags that a schedule may publish in one tile

enum class Buffer : uint8_t {
  none,
  input,    // the caller's input; read only
  output,   // the caller's output; may be the same memory as the input
  scratch,  // private memory of this rank; scratch[k] is as long as input[k], or of partials as input[k modulo their number]
  stage,    // slots in this rank's lane, which its neighbours can read
  gathered, // private memory of this rank: a place for each rank's part of this rank's own chunk, input[rank] or the only one
  partial,  // output[k] before it is rounded; where nothing is rounded, output[k] itself. Only in schedules that carry partials
};

struct ChunkRef {
  Buffer buffer = Buffer::none;
  int chunk = 0;

  bool operator==(const ChunkRef&) const = default;
};

// Whether a chunk lies in the caller's output, for some dtypes at least.
constexpr bool is_in_output(ChunkRef chunk) { return chunk.buffer == Buffer::output || chunk.buffer == Buffer::partial; }

// Sends are posted: the next step may start at once. A send holds its source until the peer has taken it; a step that
// writes that chunk, and the end of the schedule, wait for it. A long copy may be put off likewise, until something reads what it writes or
// writes what it reads. Everything else happens in the order written.
// The messages between two ranks are matched in the order written, tile by tile. A schedule publishes a flag once.
// A contribution to a sum is scaled once, if the operation asks for that (premul_sum): where it is copied from the input to travel, or
// where it is combined with others as it was given. A sum is completed once, when it has everybody's contribution (avg divides it).
// Where partials are carried, what lies elsewhere than in them was rounded, and only what is as it was given is made into one.
// What is sent as it was given is combined as such. A message may carry nothing; it is received as one that does.
enum class StepKind : uint8_t {
  send,            // source → peer
  receive,         // peer → target
  receive_reduce,  // target = target combined with what the peer sent, lower rank first
  copy,            // source → target
  reduce,          // target = target combined with source
  publish,         // raise my flag: what I wrote before it is visible to whoever awaits it
  await,           // wait for the peer's flag, or for those of the others in a team
  read_peer,       // the peer's source → my target; stage slots, or the peer's input or output where it can be read
  reduce_peers,    // target = the source of each rank in a team, or what I gathered of it, combined in rank order; mine is `own`
};

constexpr bool uses_link(StepKind kind) {
  return kind == StepKind::send || kind == StepKind::receive || kind == StepKind::receive_reduce;
}

struct Step {
  StepKind kind;
  int peer = everyone;
  int team = everyone;  // await and reduce_peers: a number in Schedule::teams
  ChunkRef source = {};
  ChunkRef own = {};
  ChunkRef target = {};
  int flag = 0;
  bool scales = false;     // copies and combinations: the operands are as they were given
  bool completes = false;  // combinations: the result has everybody's part

  bool operator==(const Step&) const = default;
};

}  // namespace unisono
