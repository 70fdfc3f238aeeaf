// One row a collective: how its input and output are cut, and who has them.
#include "schedule/chunks.hpp"

#include "base/check.hpp"

namespace unisono {
namespace {

enum class Cut { none, data, one, each };  // nothing; `chunks` parts; one piece; a piece for each rank
enum class At { all, root, others, not_first };  // which ranks have it
enum class Adds { none, everyone, up_to_me, below_me };  // whose contributions an output holds

struct Layout {
  Collective collective;
  Cut input;
  At input_at;
  Cut output;
  At output_at;
  Adds adds;
};

constexpr Layout layouts[] = {
    {Collective::all_reduce, Cut::data, At::all, Cut::data, At::all, Adds::everyone},
    {Collective::all_gather, Cut::one, At::all, Cut::each, At::all, Adds::none},
    {Collective::reduce_scatter, Cut::each, At::all, Cut::one, At::all, Adds::everyone},
    {Collective::reduce, Cut::data, At::all, Cut::data, At::root, Adds::everyone},
    {Collective::scatter, Cut::each, At::root, Cut::one, At::all, Adds::none},
    {Collective::gather, Cut::one, At::all, Cut::each, At::root, Adds::none},
    {Collective::broadcast, Cut::data, At::root, Cut::data, At::others, Adds::none},
    {Collective::all_to_all, Cut::each, At::all, Cut::each, At::all, Adds::none},
    {Collective::scan, Cut::data, At::all, Cut::data, At::all, Adds::up_to_me},
    {Collective::exscan, Cut::data, At::all, Cut::data, At::not_first, Adds::below_me},
    {Collective::barrier, Cut::none, At::all, Cut::none, At::all, Adds::none},
};

const Layout& layout_of(Collective collective) {
  const Layout& layout = layouts[static_cast<size_t>(collective)];
  CHECK(layout.collective == collective);
  return layout;
}

bool is_at(At at, const Place& place) {
  if (at == At::all) return true;
  if (at == At::not_first) return place.rank != 0;
  return (at == At::root) == (place.rank == place.root);
}

int contributors(Adds adds, const Place& place) {
  return adds == Adds::everyone ? place.ranks : adds == Adds::up_to_me ? place.rank + 1 : place.rank;
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
    case Buffer::gathered:
      return schedule.gathered_chunks;
    case Buffer::partial:
      return schedule.partials ? chunk_count(schedule, Buffer::output) : 0;
  }
  return 0;
}

int length_class(const Schedule& schedule, ChunkRef chunk) {
  if (chunk.buffer == Buffer::none || chunk.buffer == Buffer::stage) return -1;
  if (chunk.buffer == Buffer::scratch) chunk = input_like(schedule, chunk.chunk);
  if (chunk.buffer == Buffer::gathered) chunk = {Buffer::input, own_chunk(schedule)};
  const Layout& layout = layout_of(schedule.collective);
  const int me = schedule.place.rank, ranks = schedule.place.ranks;
  if (layout.input == Cut::each && layout.output == Cut::each)  // from one rank to another: every pair its own
    return chunk.buffer == Buffer::input ? me * ranks + chunk.chunk : chunk.chunk * ranks + me;
  const Cut cut = chunk.buffer == Buffer::input ? layout.input : layout.output;
  return cut == Cut::one ? me : chunk.chunk;
}

ChunkRef input_like(const Schedule& schedule, int scratch_chunk) {
  const int inputs = chunk_count(schedule, Buffer::input);
  return {Buffer::input, schedule.partials && inputs > 0 ? scratch_chunk % inputs : scratch_chunk};
}

int own_chunk(const Schedule& schedule) {
  return chunk_count(schedule, Buffer::input) == schedule.place.ranks ? schedule.place.rank : 0;
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
  if (layout.adds != Adds::none) return {.ranks = contributors(layout.adds, place), .rank = 0, .chunk = mine};
  if (layout.output == Cut::each) return {.rank = output_chunk, .chunk = layout.input == Cut::one ? 0 : place.rank};
  return {.rank = place.root, .chunk = mine};
}

bool has_root(Collective collective) {
  const Layout& layout = layout_of(collective);
  return layout.input_at == At::root || layout.output_at == At::root;
}

bool adds_everyone(Collective collective) { return layout_of(collective).adds == Adds::everyone; }

bool adds(Collective collective) { return layout_of(collective).adds != Adds::none; }

}  // namespace unisono
