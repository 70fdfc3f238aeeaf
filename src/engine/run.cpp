// Binding a Schedule to buffers and performing its steps. Order of words and flags: transport/lane.hpp. A step returns
// false when it cannot be done yet; it is then tried again, and nothing before it is repeated. Links: run_links.cpp.
#include "engine/run.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "base/check.hpp"
#include "schedule/builder.hpp"
#include "schedule/chunks.hpp"
#include "transport/peer_memory.hpp"

namespace unisono {
namespace {

constexpr int64_t landing_bytes = 128 << 10;  // of one peer's memory at a time: stays in the second-level cache

bool reads_private_memory(const Step& step) {
  return (step.kind == StepKind::read_peer || step.kind == StepKind::reduce_peers) && step.source.buffer != Buffer::stage &&
         step.source.buffer != Buffer::gathered;
}

// No result is written, and nothing of a peer's is read, before everybody is known to be in this very call. A flag does not
// say so: a rank that refused the call may have raised it in the next, and have staged nothing in this one.
bool needs_everybody(const Step& step) {
  return is_in_output(step.target) || step.kind == StepKind::read_peer || step.kind == StepKind::reduce_peers;
}

// Whoever gives a call up, because another member died for example or because it leaves, returns to its caller, who may then
// use the memory that we read from for other things. Its word for that stands before, so what was read before this look was the
// right data; the fence keeps the reading before the look.
bool somebody_gave_up(const Lanes& lanes, uint32_t call) {
  std::atomic_thread_fence(std::memory_order_acquire);
  if (lanes.mine().abort.load(std::memory_order_acquire) != 0) return true;
  for (int member : lanes.mates()) {
    const LaneControl& control = lanes.control(member);
    if (control.abort.load(std::memory_order_acquire) != 0) return true;
    if (control.leaving.load(std::memory_order_acquire) != 0 && !at_least(control.finished.load(std::memory_order_acquire), call)) return true;
  }
  return false;
}

}  // namespace

Status Run::prepare(const Call& call, const Assignment& assignment) {
  call_ = &call;
  assignment_ = assignment;
  failure_ = {};
  unreadable_ = -1;
  const Schedule& schedule = *assignment.schedule;
  if (schedule.stage_slots > 0) RETURN_IF_ERROR(lanes_.ensure_tiles(arena_));
  uses_links_ = reads_peers_ = false;
  const Reduction reduction = call.reduction(lanes_.members());
  widened_ = schedule.partials ? element_bytes(of_partials(reduction).dtype) / element_bytes(call.dtype) : 1;
  int64_t longest = call.splits ? call.splits->longest() : 0;  // everybody's: all ranks take as many tiles
  for (const Step& step : schedule.steps) {
    uses_links_ |= uses_link(step.kind);
    reads_peers_ |= reads_private_memory(step);
    if (step.kind == StepKind::send) RETURN_IF_ERROR(router_.to(step.peer).open());
    if (uses_link(step.kind)) router_.to(step.peer);  // what it takes to receive
    for (ChunkRef ref : {step.source, step.own, step.target}) longest = std::max(longest, chunk_bytes(ref));
  }
  CHECK(schedule.stage_slots == 0 || assignment.tile_bytes * schedule.stage_slots <= lanes_.set_bytes());
  slot_bytes_ = assignment.tile_bytes;
  if (schedule.partial_slots > 0) assignment_.tile_bytes /= widened_;  // a slot holds a tile of partials
  if (schedule.stage_slots == 0) {  // nothing is staged, so tiles only keep partials short, one at a time: fewer rounds are better
    assignment_.window = 1;
    assignment_.tile_bytes = std::max<int64_t>(widened_ > 1 ? std::min(longest, assignment.tile_bytes) : longest, 1);
  }
  tiles_ = std::max<int64_t>((longest + assignment_.tile_bytes - 1) / assignment_.tile_bytes, 1);
  private_tile_bytes_ = std::min(longest, assignment_.tile_bytes) * widened_;
  private_bytes_ = private_tile_bytes_ * std::min<int64_t>(assignment_.window, tiles_);
  const int partials = widened_ > 1 ? chunk_count(schedule, Buffer::partial) : 0;  // others lie in the output
  scratch_.resize(static_cast<size_t>((schedule.scratch_chunks + schedule.gathered_chunks + partials) * private_bytes_));
  if (widened_ > 1) prepare_partials();
  sources_.resize(static_cast<size_t>(lanes_.members()));
  stretches_.resize(sources_.size());
  lists_.resize(2 * sources_.size());
  read_.resize(sources_.size());
  if (uses_links_) prepare_links(longest);
  if (reads_peers_) landing_.resize(static_cast<size_t>(lanes_.members() * landing_bytes));
  choose_what_to_show();
  return Status::success();
}

// No channel knows of it any more: of a call that is over everything was received and sent, or abandoned.
void Run::drop_private_memory() {
  for (std::vector<std::byte>* memory : {&scratch_, &landing_, &receipt_, &link_landing_}) std::vector<std::byte>().swap(*memory);
}

int64_t Run::private_bytes() const {
  return static_cast<int64_t>(scratch_.capacity() + landing_.capacity() + receipt_.capacity() + link_landing_.capacity());
}

void Run::start(uint64_t word, uint64_t base_tile, uint64_t signature) {
  word_ = word;
  signature_ = signature;
  base_tile_ = base_tile;
  oldest_ = 0;
  gate_next_ = 0;
  other_call_ = {};
  taken_ = false;
  std::fill(std::begin(receipts_), std::end(receipts_), Receipt{});
  sends_.clear();
  copies_.clear();
  ++pending_version_;
  for (Layout& list : lists_) list.spans.clear();
  std::fill(std::begin(done_steps_), std::end(done_steps_), 0);
  if (!uses_links_ && assignment_.schedule->stage_slots > 0) return;
  lanes_.wake_peers();  // nothing is staged, so the announcement itself is what peers may be waiting for
}

Turn Run::turn() {
  link_moved_ = false;
  bool progressed = !sends_.empty() && progress_sends();
  if (uses_links_ && !pass_gate()) return Turn::blocked;
  const auto steps = static_cast<int64_t>(assignment_.schedule->steps.size());
  for (int64_t tile = oldest_; tile < std::min(oldest_ + assignment_.window, tiles_); ++tile) progressed |= turn_tile(tile);
  while (oldest_ < tiles_ && done_steps(oldest_) == steps) {
    done_steps(oldest_) = 0;
    ++oldest_;
    progressed = true;
  }
  if (!progressed && !link_moved_ && !copies_.empty()) {
    copy_some();
    progressed = true;
  }
  moves_ += progressed;
  if (!failure_.ok()) return Turn::blocked;
  if (oldest_ == tiles_ && sends_.empty() && copies_.empty() && pass_gate()) {
    if ((reads_peers_ || somebody_shows()) && somebody_gave_up(lanes_, call_of(word_))) return Turn::blocked;  // the group will say why
    if (!everybody_has_taken()) return progressed ? Turn::progressed : Turn::blocked;
    return Turn::done;
  }
  return progressed ? Turn::progressed : Turn::blocked;
}

bool Run::turn_tile(int64_t tile) {
  auto limit = static_cast<int64_t>(assignment_.schedule->steps.size());
  if (tile > oldest_) limit = std::min(limit, done_steps(tile - 1));
  bool progressed = false;
  for (int64_t& done = done_steps(tile); done < limit && failure_.ok();) {
    const Step& step = step_at(done);
    if (!perform(step, tile)) break;
    done += fused_with_next(step, tile) ? 2 : 1;
    progressed = true;
  }
  return progressed;
}

// Whether everybody on this host has announced exactly this call; once it has been seen of a peer it stays true.
bool Run::pass_gate() {
  const std::span<const int> mates = lanes_.mates();
  for (; gate_next_ < mates.size(); ++gate_next_)
    if (lanes_.word(mates[gate_next_], call_of(word_)).load(std::memory_order_acquire) != word_) return false;
  return true;
}

bool Run::perform(const Step& step, int64_t tile) {
  if (needs_everybody(step) && !pass_gate()) return false;
  if ((!sends_.empty() || !copies_.empty()) && is_held(step, tile)) return false;
  FAULT_POINT("run_step");
  switch (step.kind) {
    case StepKind::publish: publish(step.flag, tile); return true;
    case StepKind::await: return await_flags(step, tile);
    case StepKind::read_peer: return read_peer(step, tile);
    case StepKind::reduce_peers: return reduce_peers(step, tile);
    case StepKind::send: send(step, tile); return true;
    case StepKind::receive:
    case StepKind::receive_reduce: return receive(step, tile);
    case StepKind::copy:
    case StepKind::reduce:
      if (!is_shown(step)) copy(step, tile);
      return true;
  }
  return false;
}

int64_t Run::chunk_bytes(ChunkRef ref) const {
  if (ref.buffer == Buffer::none || ref.buffer == Buffer::stage) return 0;
  const Schedule& schedule = *assignment_.schedule;
  if (ref.buffer == Buffer::gathered) ref = {Buffer::input, own_chunk(schedule)};
  if (ref.buffer == Buffer::scratch) ref = input_like(schedule, ref.chunk);
  const Buffer buffer = is_in_output(ref) ? Buffer::output : Buffer::input;
  return chunk_of(*call_, buffer, ref.chunk, {schedule.chunks, lanes_.members()}).bytes;
}

// Where a chunk's part in this tile lies. A stage slot has no length of its own: the other operand says how much moves.
Stretch Run::place(ChunkRef ref, int64_t tile) const {
  if (ref.buffer == Buffer::none) return {};
  if (ref.buffer == Buffer::stage) return Stretch::in_one_place(stage_of(lanes_.me(), ref.chunk, tile), INT64_MAX);
  int64_t chunk = chunk_bytes(ref), from = std::min(tile * assignment_.tile_bytes, chunk);
  int64_t bytes = std::min(assignment_.tile_bytes, chunk - from);
  if (is_private(ref)) return place_in_private(ref, tile, bytes);
  const Buffer buffer = is_in_output(ref) ? Buffer::output : Buffer::input;
  return chunk_of(*call_, buffer, ref.chunk, {assignment_.schedule->chunks, lanes_.members()}).from(from, bytes);
}

// Scratch, then what is gathered or partials, of which a schedule has only one. A chunk has a place for each tile in flight. A tile begins
// when the one whose place it takes has ended; what that one has not sent yet, is_held() finds there.
Stretch Run::place_in_private(ChunkRef ref, int64_t tile, int64_t bytes) const {
  const int64_t chunk = (ref.buffer == Buffer::scratch ? 0 : assignment_.schedule->scratch_chunks) + ref.chunk;
  const int64_t at = chunk * private_bytes_ + tile % assignment_.window * private_tile_bytes_;
  return Stretch::in_one_place(const_cast<std::byte*>(scratch_.data()) + at, bytes * (is_partial(ref) ? widened_ : 1));
}

std::byte* Run::stage_of(int member, int slot, int64_t tile) const {
  return lanes_.stage(member, base_tile_ + static_cast<uint64_t>(tile)) + slot * slot_bytes_;
}

void Run::publish(int flag, int64_t tile) {
  lanes_.mine().flags[flag].store(make_word(call_of(word_), static_cast<uint32_t>(tile + 1)), std::memory_order_release);
  lanes_.wake_peers();
}

bool Run::await_flags(const Step& step, int64_t tile) {
  const uint64_t wanted = make_word(call_of(word_), static_cast<uint32_t>(tile + 1));
  const Team team(*assignment_.schedule, step);
  for (int index = 0; index < team.size(); ++index) {
    const int peer = team[index];
    if (peer == lanes_.me()) continue;
    if (!at_least(lanes_.control(peer).flags[step.flag].load(std::memory_order_acquire), wanted)) return false;
  }
  return true;
}

// In the peer's private memory: where the chunk lies follows from its length, since all ranks made the same call, and parts
// are as long as what is read of them; or it stands in the peer's list. 0 where that cannot be read.
uint64_t Run::peer_address(const Step& step, int peer, int64_t length) {
  CHECK(!call_->coalesced());  // such a call is never planned so: nobody else knows where its tensors lie
  LaneControl& control = lanes_.control(peer);
  const bool input = step.source.buffer == Buffer::input;
  const Cuts cuts = cuts_of(call_->kind);
  const Cut cut = input ? cuts.input : cuts.output;
  uint64_t base = (input ? control.input_address : control.output_address).load(std::memory_order_relaxed);
  if (cut == Cut::whole) return base;  // a list of one, too
  if (base & list_mark) {
    Span part;
    const uint64_t entry = (base & ~list_mark) + static_cast<uint64_t>(step.source.chunk) * sizeof(part);
    const bool read = read_private(peer, reinterpret_cast<std::byte*>(&part), entry, sizeof(part));
    return read ? reinterpret_cast<uint64_t>(part.data) : 0;
  }
  return base + static_cast<uint64_t>(offset_at(step.source, peer, length));
}

// How far into the peer's buffer, all of it taken as one row, this chunk of `length` bytes begins.
int64_t Run::offset_at(ChunkRef chunk, int peer, int64_t length) const {
  const Cuts cuts = cuts_of(call_->kind);
  const Cut cut = chunk.buffer == Buffer::input ? cuts.input : cuts.output;
  if (cut == Cut::whole) return 0;
  if (call_->splits) return call_->splits->offset(peer, chunk.chunk);
  if (cut == Cut::parts) return cuts.reduces ? call_->input.part_offset(chunk.chunk, lanes_.members()) : chunk.chunk * length;
  const int64_t whole = chunk.buffer == Buffer::input ? call_->input.bytes() : call_->output.bytes();
  return Pieces(nullptr, whole).cut(chunk.chunk, assignment_.schedule->chunks).data - static_cast<std::byte*>(nullptr);
}

bool Run::read_peer(const Step& step, int64_t tile) {
  const Stretch target = place(step.target, tile);
  if (target.bytes <= 0) return true;
  if (step.source.buffer == Buffer::stage) {
    copy_bytes(target, source_at(step, step.peer, tile));
    return true;
  }
  const uint64_t address = peer_address(step, step.peer, target.bytes);
  return address != 0 && read_private(step.peer, target.data, address, target.bytes);
}

// A peer that is gone, or that gave the call up and may have unmapped its memory since, is found by whoever looks for such;
// anything else is a fault of ours to tell.
bool Run::read_private(int peer, std::byte* target, uint64_t address, int64_t bytes) {
  const ReadOutcome outcome = read_memory_of(lanes_.member(peer), target, address, bytes);
  if (outcome == ReadOutcome::done) return true;
  const int error = errno;
  if (outcome == ReadOutcome::gone || somebody_gave_up(lanes_, call_of(word_))) return false;
  if (outcome == ReadOutcome::refused) unreadable_ = peer;
  failure_ = {ErrorCode::resource, fmt::format("the memory of rank {} (pid {}) cannot be read any more: {}; {}", lanes_.member(peer).rank,
                                               lanes_.member(peer).pid, std::strerror(error),
                                               outcome == ReadOutcome::refused ? "groups made from now on do without"
                                                                               : "UNISONO_PEER_READS=off does without")};
  return false;
}

bool Run::reduce_peers(const Step& step, int64_t tile) {
  if (reads_private_memory(step)) return reduce_private_memory(step, tile);
  const bool staged_too = fused_with_next(step, tile) && shown_output_ == 0;
  std::byte* second = staged_too ? place(step_at(done_steps(tile) + 1).target, tile).data : nullptr;
  Stretch target = place(step.target, tile);
  const Stretch own = step.own.buffer == Buffer::none ? target : place(step.own, tile);
  const int64_t length = std::min(own.bytes, target.bytes);
  if (length <= 0) return true;
  const std::span<Stretch> stretches = operands_of(step, own, tile);
  if (is_partial(step.target) && !is_partial(step.source)) {
    combine_to_partial(step, target, stretches);
    return true;
  }
  const Reduction reduction = reduction_at(step.target);
  const std::span<const void*> sources = std::span(sources_).first(stretches.size());
  for (int64_t done = 0, bytes = 0; done < length; done += bytes) {  // what lies in a row everywhere
    bytes = std::min(target.here, length - done);
    for (const Stretch& stretch : stretches) bytes = std::min(bytes, stretch.here);
    for (size_t index = 0; index < sources.size(); ++index) sources[index] = stretches[index].data;
    reduce(reduction, {.target = target.data,
                       .second_target = second ? second + done : nullptr,
                       .sources = sources,
                       .count = bytes / element_bytes(reduction.dtype),
                       .contributions = step.scales,
                       .complete = step.completes});
    for (Stretch& stretch : stretches) stretch.drop(bytes);
    target.drop(bytes);
  }
  return true;
}

// What lies where, of each rank of the team.
std::span<Stretch> Run::operands_of(const Step& step, const Stretch& own, int64_t tile) {
  const Team team(*assignment_.schedule, step);
  for (int index = 0; index < team.size(); ++index)
    stretches_[static_cast<size_t>(index)] = team[index] == lanes_.me()               ? own
                                             : step.source.buffer == Buffer::gathered ? place(gathered(team[index]), tile)
                                                                                      : source_at(step, team[index], tile);
  return std::span(stretches_).first(static_cast<size_t>(team.size()));
}

// Reads every peer's chunk a cacheful at a time and adds it from there.
bool Run::reduce_private_memory(const Step& step, int64_t tile) {
  const Stretch target = place(step.target, tile), own = step.own.buffer == Buffer::none ? target : place(step.own, tile);
  const Team team(*assignment_.schedule, step);
  const std::span<const void*> sources = std::span(sources_).first(static_cast<size_t>(team.size()));
  for (int64_t done = 0; done < own.bytes; done += landing_bytes) {
    const int64_t bytes = std::min(landing_bytes, own.bytes - done);
    for (int index = 0; index < team.size(); ++index) {
      const int peer = team[index];
      if (peer == lanes_.me()) continue;
      const uint64_t address = peer_address(step, peer, own.bytes);
      if (address == 0) return false;
      std::byte* landing = landing_.data() + peer * landing_bytes;
      const std::byte*& read = read_[static_cast<size_t>(peer)];
      read = arena_memory_of(lanes_.member(peer), address + static_cast<uint64_t>(done), bytes);  // shared tensors lie there
      if (!read && !read_private(peer, landing, address + static_cast<uint64_t>(done), bytes)) return false;
      if (!read) read = landing;
    }
    in_step(own.from(done, bytes), target.from(done, bytes), [&](const std::byte* mine, std::byte* to, int64_t at, int64_t length) {
      for (int index = 0; index < team.size(); ++index)
        sources[static_cast<size_t>(index)] = team[index] == lanes_.me() ? mine : read_[static_cast<size_t>(team[index])] + at;
      reduce(call_->reduction(lanes_.members()), {.target = to,
                                                  .sources = sources,
                                                  .count = length / element_bytes(call_->dtype),
                                                  .contributions = step.scales,
                                                  .complete = step.completes});
    });
  }
  return true;
}

// A reduction whose result is then copied writes both places in one pass.
bool Run::fused_with_next(const Step& step, int64_t tile) const {
  if (step.kind != StepKind::reduce_peers) return false;
  auto next = static_cast<size_t>(done_steps_[tile % max_window] + 1);
  const std::vector<Step>& steps = assignment_.schedule->steps;
  return next < steps.size() && steps[next].kind == StepKind::copy && steps[next].source == step.target &&
         steps[next].target.buffer == Buffer::stage && !is_partial(step.target);
}

}  // namespace unisono
