// How long pieces are and where chunks lie. The table of how collectives cut their buffers is in call.hpp. Next: run.cpp.
#include "engine/call.hpp"

#include <fmt/core.h>

#include "base/check.hpp"
#include "unisono/reduction.hpp"

namespace unisono {
// Where a list has uneven parts every rank knows all of them, so every rank finds the same longest one.
int64_t piece_bytes(const Call& call, int ranks) {
  if (call.splits) return call.splits->longest();
  if (call.kind == Collective::all_gather) return call.output.longest_part(ranks);
  if (call.kind == Collective::reduce_scatter || call.kind == Collective::all_to_all) return call.input.longest_part(ranks);
  if (call.kind == Collective::scatter || call.kind == Collective::broadcast) return call.output.bytes();
  return call.input.bytes();
}

int64_t contribution_bytes(const Call& call, int ranks) {
  bool everything = call.kind == Collective::reduce_scatter || call.kind == Collective::all_to_all;
  if (call.splits) return call.splits->most_sent();
  if (everything) return call.input.bytes();
  return piece_bytes(call, ranks) * (call.kind == Collective::scatter ? ranks : 1);
}

Status check_units(const Call& call) {
  const UserReduction& user = *call.op.user_defined;
  for (const Pieces* pieces : {&call.input, &call.output})
    for (Stretch left = pieces->all(); left.bytes > 0; left.drop(left.here))
      if (left.here % user.unit_bytes != 0)
        return {ErrorCode::argument,
                fmt::format("\"{}\" combines {} bytes at a time, and {} elements of {} are no multiple of that", user.name, user.unit_bytes,
                            left.here / element_bytes(call.dtype), name_of(call.dtype))};
  return Status::success();
}

Status check_splits(const Call& call, int me, int ranks) {
  const int64_t element = element_bytes(call.dtype);
  for (int peer = 0; peer < ranks; ++peer) {
    const int64_t sent = call.splits->sent(peer, me), room = call.output.part(peer, ranks).bytes;
    if (sent != room)
      return {ErrorCode::argument, fmt::format("rank {} of the group sends {} elements here, where there is room for {}: what one "
                                               "rank gives to another and what that one expects must agree",
                                               peer, sent / element, room / element)};
  }
  return Status::success();
}

int64_t part_offset_at(const Call& call, int peer, int me, int ranks) {
  return call.splits ? call.splits->offset(peer, me) : call.input.part_offset(me, ranks);
}

Stretch chunk_of(const Call& call, Buffer buffer, int index, ChunkSpace space) {
  CHECK(buffer == Buffer::input || buffer == Buffer::output);
  Cuts cuts = cuts_of(call.kind);
  const Pieces& pieces = buffer == Buffer::input ? call.input : call.output;
  Cut cut = buffer == Buffer::input ? cuts.input : cuts.output;
  if (cut == Cut::whole) return pieces.whole();
  if (cut == Cut::parts) return pieces.part(index, space.ranks);
  return pieces.cut(index, space.chunks);
}

}  // namespace unisono
