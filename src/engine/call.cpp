// How long pieces are and where chunks lie. The table of how collectives cut their buffers is in call.hpp. Next: run.cpp.
#include "engine/call.hpp"

#include "base/check.hpp"

namespace unisono {
// Where a list has uneven parts every rank knows all of them, so every rank finds the same longest one.
int64_t piece_bytes(const Call& call, int ranks) {
  auto longest = [ranks](const Pieces& pieces) {
    int64_t bytes = 0;
    for (const Bytes& part : pieces.parts()) bytes = std::max(bytes, part.bytes);
    return pieces.is_list() ? bytes : pieces.bytes() / ranks;
  };
  if (call.kind == Collective::all_gather) return longest(call.output);
  if (call.kind == Collective::reduce_scatter || call.kind == Collective::all_to_all) return longest(call.input);
  if (call.kind == Collective::scatter || call.kind == Collective::broadcast) return call.output.bytes();
  return call.input.bytes();
}

int64_t contribution_bytes(const Call& call, int ranks) {
  bool everything = call.kind == Collective::reduce_scatter || call.kind == Collective::all_to_all;
  if (everything) return call.input.bytes();
  return piece_bytes(call, ranks) * (call.kind == Collective::scatter ? ranks : 1);
}

Bytes chunk_of(const Call& call, Buffer buffer, int index, ChunkSpace space) {
  CHECK(buffer == Buffer::input || buffer == Buffer::output);
  Cuts cuts = cuts_of(call.kind);
  const Pieces& pieces = buffer == Buffer::input ? call.input : call.output;
  Cut cut = buffer == Buffer::input ? cuts.input : cuts.output;
  if (cut == Cut::whole) return pieces.whole();
  if (cut == Cut::parts) return pieces.part(index, space.ranks);
  return pieces.cut(index, space.chunks);
}

}  // namespace unisono
