// Lays the chunks out; see play_memory.hpp.
#include "schedule/play_memory.hpp"

#include <algorithm>

#include "schedule/chunks.hpp"

namespace unisono {

Memory::Memory(std::span<const CallSet> calls, const PlayOptions& options)
    : ranks_(static_cast<int>(calls[0].ranks.size())), tiles_(options.tiles), slot_sets_(2 * options.window) {
  int end = 0;
  for (const CallSet& call : calls) {
    const int call_base = end;
    for (const Schedule& schedule : call.ranks) {
      blocks_.push_back(block_of(schedule, options, end));
      end = blocks_.back().base + blocks_.back().end;
    }
    tile_strides_.push_back(end - call_base);
    end = call_base + tiles_ * tile_strides_.back();
    slots_ = std::max(slots_, call.ranks[0].stage_slots);
  }
  stage_base_ = end;
  set_tiles_.resize(static_cast<size_t>(ranks_) * slot_sets_, -1);
  locations_.resize(static_cast<size_t>(stage_base_) + static_cast<size_t>(ranks_) * slot_sets_ * slots_);
}

Memory::Block Memory::block_of(const Schedule& schedule, const PlayOptions& options, int base) const {
  Block block{.base = base, .inputs = chunk_count(schedule, Buffer::input)};
  int end = block.inputs;
  for (int chunk = 0; chunk < chunk_count(schedule, Buffer::output); ++chunk) {
    const std::optional<ChunkRef> twin = options.in_place ? in_place_twin(schedule, chunk) : std::nullopt;
    block.outputs.push_back(twin ? twin->chunk : end++);
  }
  block.scratch = end;
  block.gathered = block.scratch + schedule.scratch_chunks;
  end = block.gathered + schedule.gathered_chunks;
  for (int chunk = 0; chunk < chunk_count(schedule, Buffer::partial); ++chunk)
    block.partials.push_back(options.widened ? end++ : block.outputs[static_cast<size_t>(chunk)]);
  block.end = end;
  return block;
}

int Memory::locate(int rank, int tile, ChunkRef chunk) const {
  if (chunk.buffer == Buffer::stage)
    return stage_base_ + (rank * slot_sets_ + tile % slot_sets_) * slots_ + chunk.chunk;
  const int call = tile / tiles_;
  const Block& block = blocks_[static_cast<size_t>(call) * ranks_ + rank];
  const int start = block.base + (tile % tiles_) * tile_strides_[call];
  if (chunk.buffer == Buffer::input) return start + chunk.chunk;
  if (chunk.buffer == Buffer::output) return start + block.outputs[chunk.chunk];
  if (chunk.buffer == Buffer::partial) return start + block.partials[chunk.chunk];
  return start + (chunk.buffer == Buffer::scratch ? block.scratch : block.gathered) + chunk.chunk;
}

void Memory::note_read(Location& location, RemoteRead read) {
  read.next = location.last_read;
  location.last_read = static_cast<int>(reads_.size());
  reads_.push_back(read);
}

}  // namespace unisono
