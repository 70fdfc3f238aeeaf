// One row a collective: how its input and output are cut, and who has them.
#include "schedule/chunks.hpp"

#include "base/check.hpp"

namespace unisono {
namespace {

enum class Cut { none, data, one, each };  // nothing; `chunks` parts; one piece; a piece for each rank
enum class At { all, root, others };       // which ranks have it

struct Layout {
  Collective collective;
  Cut input;
  At input_at;
  Cut output;
  At output_at;
  bool adds;
};

constexpr Layout layouts[] = {
    {Collective::all_reduce, Cut::data, At::all, Cut::data, At::all, true},
    {Collective::all_gather, Cut::one, At::all, Cut::each, At::all, false},
    {Collective::reduce_scatter, Cut::each, At::all, Cut::one, At::all, true},
    {Collective::reduce, Cut::data, At::all, Cut::data, At::root, true},
    {Collective::scatter, Cut::each, At::root, Cut::one, At::all, false},
    {Collective::gather, Cut::one, At::all, Cut::each, At::root, false},
    {Collective::broadcast, Cut::data, At::root, Cut::data, At::others, false},
    {Collective::all_to_all, Cut::each, At::all, Cut::each, At::all, false},
    {Collective::barrier, Cut::none, At::all, Cut::none, At::all, false},
};

const Layout& layout_of(Collective collective) {
  const Layout& layout = layouts[static_cast<size_t>(collective)];
  CHECK(layout.collective == collective);
  return layout;
}

bool is_at(At at, const Place& place) {
  if (at == At::all) return true;
  return (at == At::root) == (place.rank == place.root);
}

int parts(Cut cut, const Schedule& schedule) {
  switch (cut) {
    case Cut::none:
      return 0;
    case Cut::data:
      return schedule.chunks;
    case Cut::one:
      return 1;
    case Cut::each:
      return schedule.place.ranks;
  }
  return 0;
}

}  // namespace

int chunk_count(const Schedule& schedule, Buffer buffer) {
  const Layout& layout = layout_of(schedule.collective);
  switch (buffer) {
    case Buffer::none:
      return 0;
    case Buffer::input:
      return is_at(layout.input_at, schedule.place) ? parts(layout.input, schedule) : 0;
    case Buffer::output:
      return is_at(layout.output_at, schedule.place) ? parts(layout.output, schedule) : 0;
    case Buffer::scratch:
      return schedule.scratch_chunks;
    case Buffer::stage:
      return schedule.stage_slots;
  }
  return 0;
}

int length_class(const Schedule& schedule, ChunkRef chunk) {
  if (chunk.buffer == Buffer::none || chunk.buffer == Buffer::stage) return -1;
  if (chunk.buffer == Buffer::scratch) chunk.buffer = Buffer::input;
  const Layout& layout = layout_of(schedule.collective);
  const int me = schedule.place.rank, ranks = schedule.place.ranks;
  if (layout.input == Cut::each && layout.output == Cut::each)  // from one rank to another: every pair its own
    return chunk.buffer == Buffer::input ? me * ranks + chunk.chunk : chunk.chunk * ranks + me;
  const Cut cut = chunk.buffer == Buffer::input ? layout.input : layout.output;
  return cut == Cut::one ? me : chunk.chunk;
}

std::optional<ChunkRef> in_place_twin(const Schedule& schedule, int output_chunk) {
  const Layout& layout = layout_of(schedule.collective);
  const int me = schedule.place.rank;
  if (!is_at(layout.input_at, schedule.place)) return std::nullopt;
  if (layout.output == Cut::data) return ChunkRef{Buffer::input, output_chunk};
  if (layout.output == Cut::one) return ChunkRef{Buffer::input, me};
  if (layout.input == Cut::one && output_chunk == me) return ChunkRef{Buffer::input, 0};
  return std::nullopt;
}

Origin origin_of(const Schedule& schedule, int output_chunk) {
  const Layout& layout = layout_of(schedule.collective);
  const Place& place = schedule.place;
  const int mine = layout.output == Cut::one ? place.rank : output_chunk;
  if (layout.adds) return {.everyone = true, .rank = 0, .chunk = mine};
  if (layout.output == Cut::each) return {.rank = output_chunk, .chunk = layout.input == Cut::one ? 0 : place.rank};
  return {.rank = place.root, .chunk = mine};
}

bool has_root(Collective collective) {
  const Layout& layout = layout_of(collective);
  return layout.input_at != At::all || layout.output_at != At::all;
}

bool adds(Collective collective) { return layout_of(collective).adds; }

}  // namespace unisono
