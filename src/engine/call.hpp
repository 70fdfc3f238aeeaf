// One collective request; a value, safe to copy and print. Ranks here are indices into the group.
#pragma once

#include <memory>
#include <vector>

#include "base/clock.hpp"
#include "engine/pieces.hpp"
#include "engine/splits.hpp"
#include "kernels/kernels.hpp"
#include "schedule/step.hpp"
#include "unisono/types.hpp"

namespace unisono {

// Some functions need a call before the one that moves the data; others differ from their kin in name only.
enum class Purpose : uint8_t { data, split_sizes, monitored };

struct Call {
  Collective kind = Collective::barrier;
  Purpose purpose = Purpose::data;
  Pieces input;                      // what this rank gives; read only
  Pieces output;                     // what it gets; may be the same memory as the input
  DType dtype = DType::uint8;
  ReduceOp op = ReduceOp::sum;       // read by reductions only
  int root = 0;                      // read by rooted collectives only
  int64_t count = 0;                 // elements, as the user counts them: compared between ranks
  std::vector<int64_t> shape;        // compared between ranks where equal shapes are asked for
  bool compare_shapes = false;
  uint64_t sizes_hash = 0;           // of a list's sizes, where a list was given; compared between ranks
  uint32_t tensors = 1;              // that data and parts consist of: more than one where calls are coalesced
  std::shared_ptr<const Splits> splits;  // all_to_all: null where all parts are equal
  double timeout_s = 0;

  bool coalesced() const { return tensors > 1; }  // then sizes_hash has their number in it, and so the same is true on all ranks
  Reduction reduction(int ranks) const { return {dtype, op, ranks}; }
};

// How a collective's buffers fall into chunks: see schedule/schedule.hpp.
enum class Cut : uint8_t { nothing, whole, parts, data };
struct Cuts {
  Cut input, output;
  bool rooted, reduces;
};
inline constexpr Cuts cuts_table[] = {
    // input      output       rooted reduces
    {Cut::data, Cut::data, false, true},         // all_reduce
    {Cut::whole, Cut::parts, false, false},      // all_gather
    {Cut::parts, Cut::whole, false, true},       // reduce_scatter
    {Cut::data, Cut::data, true, true},          // reduce
    {Cut::parts, Cut::whole, true, false},       // scatter
    {Cut::whole, Cut::parts, true, false},       // gather
    {Cut::data, Cut::data, true, false},         // broadcast
    {Cut::parts, Cut::parts, false, false},      // all_to_all
    {Cut::data, Cut::data, false, true},         // scan
    {Cut::data, Cut::data, false, true},         // exscan
    {Cut::nothing, Cut::nothing, false, false},  // barrier
};
constexpr Cuts cuts_of(Collective kind) { return cuts_table[static_cast<size_t>(kind)]; }

// Chunk `index` of a buffer, when the data is cut into `chunks` among `ranks`.
struct ChunkSpace {
  int chunks = 1;
  int ranks = 1;
};
int64_t piece_bytes(const Call& call, int ranks);         // the data, or one piece, the longest: the same on all ranks
int64_t contribution_bytes(const Call& call, int ranks);  // the most that one rank shows to the others
Status check_units(const Call& call);  // that no tensor ends inside what a function of the user's combines at a time
Status check_splits(const Call& call, int me, int ranks);  // that everybody sends what this rank has room for
int64_t part_offset_at(const Call& call, int peer, int me, int ranks);  // all_to_all: where my part begins in the peer's input
Stretch chunk_of(const Call& call, Buffer buffer, int index, ChunkSpace space);

}  // namespace unisono
