// Shared tensors: buffers that lie in a rank's arena need no staging, since peers can read them where they lie. See run.hpp.
//
// Each rank decides for its own buffers, and says so before the call's word; the schedule is the same. Where the schedule
// copies into a stage slot, a rank that shows its buffer copies nothing, and whoever reads that slot reads the buffer instead:
//
//   slot k holds, until it is read   input chunk k   (all that ranks add up, and all that moves)
//                                    output chunk k  (the sums that two-shot algorithms hand round)
//
// A buffer that lies in several places is shown if all of them are in the arena: as a list of spans, which counts as one row
// of bytes like the buffer itself (pieces.hpp), so that peers find their chunks in it without knowing where its tensors end.
//
// A stage slot outlives the call, a buffer does not: so a rank that shows something leaves only when all others have said
// that they have taken what they need.
//
// Order: `shown` is written before the word and read after it was seen (pass_gate). `taken` is stored with release after the
// last read and loaded with acquire before the caller may write to the buffer again.
#include <algorithm>

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
    if (is_in_output(step.target) && staged[static_cast<size_t>(step.target.chunk)] && awaited <= told_by) return true;
  }
  return false;
}

// As a word of Shown: which of the rank's spans a list is.
struct SpansWord {
  uint64_t first = 0, count = 0;

  uint64_t packed() const { return list_mark | first << 32 | count; }
  static SpansWord unpack(uint64_t word) { return {(word & ~list_mark) >> 32, word & UINT32_MAX}; }
};

bool are_same_list(const Pieces& one, const Pieces& other) {
  return one.is_list() && other.is_list() && one.spans() == other.spans();
}
bool overlap(const Pieces& one, const Pieces& other) { return one.bytes() > 0 && other.bytes() > 0 && one.all().overlaps(other.all()); }

}  // namespace

void Run::choose_what_to_show() {
  shown_input_ = shown_output_ = 0;
  shown_spans_.clear();
  const Schedule& schedule = *assignment_.schedule;
  // Whoever shows something waits until everybody has taken it, which nobody can see of a rank on another host.
  if (schedule.stage_slots == 0 || uses_links_ || !schedule.place.hosts.one()) return;
  bool stages_input = false, stages_output = false;
  for (const Step& step : schedule.steps) {
    stages_input |= stages(step, Buffer::input);
    stages_output |= stages(step, Buffer::output);
  }
  const Pieces &input = call_->input, &output = call_->output;
  if (stages_input && !(overwrites_early(schedule) && overlap(input, output))) shown_input_ = showable(input);
  if (stages_output) shown_output_ = shown_input_ != 0 && are_same_list(input, output) ? shown_input_ : showable(output);
}

// What to show of a buffer; 0 where a part of it lies outside the arena.
uint64_t Run::showable(const Pieces& pieces) {
  if (!pieces.is_list()) return lanes_.place_of(pieces.data(), pieces.bytes());
  const size_t first = shown_spans_.size();
  for (Stretch left = pieces.all(); left.bytes > 0; left.drop(left.here)) {
    const uint64_t place = lanes_.place_of(left.data, left.here);
    if (place == 0 || shown_spans_.size() == most_shown_spans) {
      shown_spans_.resize(first);
      return 0;
    }
    shown_spans_.push_back({place - 1, left.here});
  }
  return shown_spans_.size() == first ? 0 : SpansWord{first, shown_spans_.size() - first}.packed();
}

void Run::show(uint32_t call, bool peers_read) const {
  if (peers_read) {
    lanes_.mine().input_address.store(address_of(call_->input), std::memory_order_relaxed);
    lanes_.mine().output_address.store(address_of(call_->output), std::memory_order_relaxed);
  }
  if (!shown_spans_.empty()) std::copy(shown_spans_.begin(), shown_spans_.end(), lanes_.shown_spans(lanes_.me(), call));
  Shown& shown = lanes_.shown(lanes_.me(), call);
  shown.input.store(shown_input_, std::memory_order_relaxed);
  shown.output.store(shown_output_, std::memory_order_relaxed);
}

// Whether this step would only stage what peers can see anyway.
bool Run::is_shown(const Step& step) const {
  return (shown_input_ != 0 && stages(step, Buffer::input)) || (shown_output_ != 0 && stages(step, Buffer::output));
}

// What stage slot of a peer this step reads, or the part of the buffer that the peer shows instead of it. Nothing is written
// there, though it is no more const than a stage slot.
Stretch Run::source_at(const Step& step, int peer, int64_t tile) {
  const bool sums = step.kind == StepKind::read_peer && cuts_of(call_->kind).reduces;
  Shown& shown = lanes_.shown(peer, call_of(word_));
  const uint64_t place = (sums ? shown.output : shown.input).load(std::memory_order_relaxed);
  if (place == 0) return Stretch::in_one_place(stage_of(peer, step.source.chunk, tile), INT64_MAX);
  const ChunkRef chunk{sums ? Buffer::output : Buffer::input, step.source.chunk};
  const int64_t length = chunk_bytes(step.own.buffer == Buffer::none ? step.target : step.own);
  const int64_t from = offset_at(chunk, peer, length) + tile * assignment_.tile_bytes;
  const int64_t bytes = std::min(length - tile * assignment_.tile_bytes, assignment_.tile_bytes);
  if (place & list_mark) {
    const Layout& list = list_shown_by(peer, chunk.buffer, place);
    if (from + bytes > list.spans.back().begin + list.spans.back().bytes) lanes_.cannot_be(peer, "list of shared tensors");
    return list.at(from, bytes);
  }
  std::byte* whole = lanes_.at(peer, place - 1, from + bytes, "shared tensor");
  return Stretch::in_one_place(whole + from, bytes);
}

const Layout& Run::list_shown_by(int peer, Buffer buffer, uint64_t shown) {
  Layout& list = lists_[static_cast<size_t>(peer * 2 + (buffer == Buffer::output))];
  if (!list.spans.empty()) return list;
  const auto [first, count] = SpansWord::unpack(shown);
  if (count == 0 || first + count > most_shown_spans) lanes_.cannot_be(peer, "list of shared tensors");
  const ShownSpan* spans = lanes_.shown_spans(peer, call_of(word_)) + first;
  int64_t begin = 0;
  for (const auto [place, bytes] : std::span(spans, count)) {
    std::byte* data = lanes_.at(peer, place, bytes, "list of shared tensors");
    if (bytes == 0) lanes_.cannot_be(peer, "list of shared tensors");
    list.spans.push_back({data, bytes, begin});
    begin += bytes;
  }
  return list;
}

bool Run::somebody_shows() const {
  auto shows = [&](int peer) {
    const Shown& shown = lanes_.shown(peer, call_of(word_));
    return shown.input.load(std::memory_order_relaxed) != 0 || shown.output.load(std::memory_order_relaxed) != 0;
  };
  return shows(lanes_.me()) || std::ranges::any_of(lanes_.mates(), shows);
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
  if (!shows_anything()) return true;
  for (int peer : lanes_.mates())
    if (!at_least(lanes_.control(peer).taken.load(std::memory_order_acquire), number)) return false;
  return true;
}

}  // namespace unisono
