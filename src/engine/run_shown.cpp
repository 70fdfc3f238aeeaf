// Shared tensors: buffers that lie in a rank's arena need no staging, since peers can read them where they lie. See run.hpp.
//
// Each rank decides for its own buffers, and says so before the call's word; the schedule is the same. Where the schedule
// copies into a stage slot, a rank that shows its buffer copies nothing, and whoever reads that slot reads the buffer instead:
//
//   slot k holds, until it is read   input chunk k   (all that ranks add up, and all that moves)
//                                    output chunk k  (the sums that two-shot algorithms hand round)
//
// A stage slot outlives the call, a buffer does not: so a rank that shows something leaves only when all others have said
// that they have taken what they need.
//
// Order: `shown` is written before the word and read after it was seen (pass_gate). `taken` is stored with release after the
// last read and loaded with acquire before the caller may write to the buffer again.
#include "base/check.hpp"
#include "engine/run.hpp"

namespace unisono {
namespace {

bool stages(const Step& step, Buffer from) {
  return step.kind == StepKind::copy && step.target.buffer == Buffer::stage && step.source.buffer == from;
}

// Where input and output are the same memory: whether a chunk that others read would be overwritten before they have said so,
// by a flag beyond the one that tells them that it is there.
bool overwrites_early(const Schedule& schedule) {
  const Cuts cuts = cuts_of(schedule.collective);
  if (cuts.input != Cut::data || cuts.output != Cut::data) return false;  // a part of one is only ever the rank's own of the other
  std::vector<bool> staged(static_cast<size_t>(schedule.chunks));
  int told_by = max_flags, awaited = -1;
  for (const Step& step : schedule.steps) {
    if (stages(step, Buffer::input)) staged[static_cast<size_t>(step.source.chunk)] = true;
    if (step.kind == StepKind::publish) told_by = std::min(told_by, step.flag);
    if (step.kind == StepKind::await) awaited = std::max(awaited, step.flag);
    if (step.target.buffer == Buffer::output && staged[static_cast<size_t>(step.target.chunk)] && awaited <= told_by) return true;
  }
  return false;
}

bool overlap(const Pieces& one, const Pieces& other) { return one.bytes() > 0 && other.bytes() > 0 && one.all().overlaps(other.all()); }

}  // namespace

void Run::choose_what_to_show() {
  shown_input_ = shown_output_ = 0;
  const Schedule& schedule = *assignment_.schedule;
  if (schedule.stage_slots == 0 || uses_links_) return;
  bool stages_input = false, stages_output = false;
  for (const Step& step : schedule.steps) {
    stages_input |= stages(step, Buffer::input);
    stages_output |= stages(step, Buffer::output);
  }
  const Pieces &input = call_->input, &output = call_->output;
  if (stages_input && !input.is_list()) shown_input_ = lanes_.place_of(input.data(), input.bytes());
  if (shown_input_ != 0 && overlap(input, output) && overwrites_early(schedule)) shown_input_ = 0;
  if (stages_output && !output.is_list()) shown_output_ = lanes_.place_of(output.data(), output.bytes());
}

// Whether this step would only stage what peers can see anyway.
bool Run::is_shown(const Step& step) const {
  return (shown_input_ != 0 && stages(step, Buffer::input)) || (shown_output_ != 0 && stages(step, Buffer::output));
}

// What stage slot of a peer this step reads, or the buffer that the peer shows instead of it.
const std::byte* Run::source_at(const Step& step, int peer, int64_t tile) const {
  const bool sums = step.kind == StepKind::read_peer && cuts_of(call_->kind).reduces;
  Shown& shown = lanes_.shown(peer, call_of(word_));
  const uint64_t place = (sums ? shown.output : shown.input).load(std::memory_order_relaxed);
  if (place == 0) return stage_of(peer, step.source.chunk, tile);
  const ChunkRef chunk{sums ? Buffer::output : Buffer::input, step.source.chunk};
  const int64_t length = chunk_bytes(step.own.buffer == Buffer::none ? step.target : step.own);
  const int64_t from = offset_at(chunk, peer, length) + tile * assignment_.tile_bytes;
  const std::byte* first = lanes_.at(peer, place - 1 + static_cast<uint64_t>(from));
  CHECK(first && lanes_.at(peer, place - 2 + static_cast<uint64_t>(from + std::min(length - tile * assignment_.tile_bytes, assignment_.tile_bytes))));
  return first;
}

bool Run::somebody_shows() const {
  for (int peer = 0; peer < lanes_.members(); ++peer) {
    const Shown& shown = lanes_.shown(peer, call_of(word_));
    if (shown.input.load(std::memory_order_relaxed) != 0 || shown.output.load(std::memory_order_relaxed) != 0) return true;
  }
  return false;
}

// Says that this rank has read all it needs; true once it may leave.
bool Run::everybody_has_taken() {
  if (assignment_.schedule->stage_slots == 0) return true;
  const uint32_t number = call_of(word_);
  if (!taken_) {
    taken_ = true;
    lanes_.mine().taken.store(number, std::memory_order_release);
    if (somebody_shows()) lanes_.wake_peers();
  }
  for (int peer = 0; peer < lanes_.members() && shows_anything(); ++peer)
    if (peer != lanes_.me() && !at_least(lanes_.control(peer).taken.load(std::memory_order_acquire), number)) return false;
  return true;
}

}  // namespace unisono
