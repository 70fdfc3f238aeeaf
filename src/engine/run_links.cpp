// The steps of a Run that move bytes through channels, and those that touch only this rank's memory. See run.hpp.
//
// Every send step sends at least one frame, also where it has no bytes, and a frame has the call's word in it. Whatever fits goes at
// once and the rest later, so a send never holds up the receive after it.
//
// With several tiles in flight one channel carries frames of all of them, in the order in which their sender came to them, and a
// receiver may need a later one first. It sets the others aside. A sender that is in tile t has sent all of tile t - window, so what
// comes before a frame of a tile that this rank has in flight is of less than twice as many tiles as it has (schedule/play.hpp plays it).
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.hpp"
#include "engine/run.hpp"
#include "kernels/copies.hpp"

namespace unisono {
namespace {

constexpr int64_t most_in_a_piece = 64_KiB;  // of what is added up as it comes: stays in the cache
constexpr int64_t too_long_for_caches = 8_MiB;  // of a result: its first bytes are gone from them when the last ones come
constexpr int64_t most_copied_at_once = 64_KiB;  // with links: less than what the kernel has under way meanwhile

}  // namespace

void Run::prepare_links(int64_t longest) {
  arrivals_.resize(static_cast<size_t>(lanes_.members()));
  bool adds = false;
  for (const Step& step : assignment_.schedule->steps) adds |= step.kind == StepKind::receive_reduce;
  if (!adds) return;
  if (call_->op.kind == ReduceKind::user) receipt_.resize(static_cast<size_t>(assignment_.window * std::min(longest, assignment_.tile_bytes)));
  link_landing_.resize(static_cast<size_t>(max_window * most_in_a_piece));
}

void Run::send(const Step& step, int64_t tile) {
  Channel& channel = router_.to(step.peer);
  const Stretch all = place(step.source, tile);
  Stretch left = all;
  do {
    const int64_t bytes = std::min(left.here, most_in_a_link_frame);
    const LinkFrame frame{word_, signature_, static_cast<uint32_t>(tile), static_cast<uint32_t>(bytes)};
    channel.post_send(std::as_bytes(std::span(&frame, 1)), {left.data, static_cast<size_t>(bytes)});
    left.drop(bytes);
  } while (left.bytes > 0);
  if (!channel.sending()) return;
  sends_.push_back({step.peer, channel.posted(), all});
  ++pending_version_;
}

// Receiving turns channels, too, and so may have sent the last of something.
bool Run::progress_sends() {
  bool moved = false;
  for (const PendingSend& send : sends_)
    if (Channel& channel = router_.to(send.peer); channel.sending()) moved |= channel.turn();
  auto is_over = [this](const PendingSend& send) { return router_.to(send.peer).sent() >= send.number; };
  const bool some_are_over = std::erase_if(sends_, is_over) > 0;
  pending_version_ += some_are_over;
  return some_are_over || moved;
}

bool Run::is_held(const Step& step, int64_t tile) {
  Held& found = held_[tile % max_window];
  const int64_t index = done_steps(tile);
  if (found.tile == tile && found.step == index && found.version == pending_version_) return found.held;
  found = {tile, index, pending_version_, waits_for_send(step, tile) || waits_for_copy(step, tile)};
  return found.held;
}

bool Run::waits_for_send(const Step& step, int64_t tile) const {
  const bool writes = step.target.buffer != Buffer::none && step.target.buffer != Buffer::stage;  // what is staged is never sent
  if (!writes || sends_.empty()) return false;
  const Stretch target = place(step.target, tile);
  return std::ranges::any_of(sends_, [&](const PendingSend& send) { return send.data.overlaps(target); });
}

// Steps that read what peers have, or show them what is here, wait for all of them.
bool Run::waits_for_copy(const Step& step, int64_t tile) const {
  if (copies_.empty()) return false;
  if (!uses_link(step.kind) && step.kind != StepKind::copy) return true;
  auto place_of = [&](ChunkRef ref) { return ref.buffer == Buffer::stage ? Stretch() : place(ref, tile); };
  const Stretch source = place_of(step.source), target = place_of(step.target);
  return std::ranges::any_of(copies_, [&](const PendingCopy& copy) {
    return copy.target.overlaps(source) || copy.target.overlaps(target) || copy.source.overlaps(target);
  });
}

// A function of the user's is never shown a part of a unit (reduction.hpp), and what arrives may end anywhere.
bool Run::gathers_whole_chunks(const Step& step) const {
  return step.kind == StepKind::receive_reduce && call_->op.kind == ReduceKind::user;
}

void Run::add_received(const Step& step, std::byte* at, const std::byte* data, int64_t bytes) {
  const void* peer_first[] = {data, at};
  const void* mine_first[] = {at, data};
  const Reduction reduction = reduction_at(step.target);
  reduce(reduction, {.target = at,
                     .sources = step.peer < lanes_.me() ? peer_first : mine_first,
                     .count = bytes / element_bytes(reduction.dtype),
                     .contributions = false,
                     .complete = step.completes});
}

// What a step does with bytes that have come from its peer.
void Run::put(const Step& step, Stretch target, const std::byte* data, int64_t bytes) {
  in_step(target, Stretch::in_one_place(const_cast<std::byte*>(data), bytes),
          [&](std::byte* to, const std::byte* from, int64_t, int64_t count) {
            if (step.kind == StepKind::receive)
              std::memcpy(to, from, static_cast<size_t>(count));
            else
              add_received(step, to, from, count);
          });
}

// What lies at the other end of a channel is believed only where it can be.
bool Run::fits(const Step& step, int64_t bytes, const Stretch& target, int64_t received) {
  if (bytes <= target.bytes - received && bytes % (element_bytes(call_->dtype) * (is_partial(step.target) ? widened_ : 1)) == 0 && (bytes > 0 || target.bytes == 0)) return true;
  const int rank = lanes_.member(step.peer).rank;
  failure_ = {ErrorCode::protocol, fmt::format("rank {} sent {} bytes where {} were awaited", rank, bytes, target.bytes - received), rank};
  return false;
}

bool Run::take_head(const Step& step, int64_t tile, const Stretch& target) {
  Arrival& from = arrivals_[static_cast<size_t>(step.peer)];
  const LinkFrame& frame = from.frame;
  Channel& channel = router_.to(step.peer);
  if (from.part == Arrival::Part::none) {
    channel.post_receive(std::as_writable_bytes(std::span(&from.frame, 1)));
    from.part = Arrival::Part::head;
  }
  if (channel.receiving()) link_moved_ |= channel.turn();
  if (channel.receiving()) return false;
  const int rank = lanes_.member(step.peer).rank;
  if ((frame.word != word_ || frame.signature != signature_) && !lanes_.is_here(step.peer)) {
    other_call_ = {step.peer, frame.word};  // that is for the group to tell
    return false;
  }
  if (frame.word != word_) {
    failure_ = {ErrorCode::protocol, fmt::format("what came from rank {} is not of this call", rank), rank};
  } else if (!can_be(frame, oldest_, std::min(oldest_ + tiles_set_aside(assignment_.window), tiles_))) {
    failure_ = {ErrorCode::protocol, fmt::format("rank {} sent {} bytes of tile {}, which cannot be", rank, frame.bytes, frame.tile), rank};
  }
  from.aside = frame.tile != tile;
  if (!failure_.ok() || (!from.aside && !fits(step, frame.bytes, target, receipts_[tile % max_window].bytes))) return false;
  if (from.aside && !may_set_aside(from, step)) return false;
  if (from.aside) from.early.push_back({frame.tile, std::vector<std::byte>(frame.bytes)});
  from.part = Arrival::Part::body;
  from.left = frame.bytes;
  return true;
}

// A peer sends no more than this call's steps receive from it, so there is an end to what is kept.
bool Run::may_set_aside(const Arrival& from, const Step& step) {
  int64_t awaited = 0, kept = from.frame.bytes + 1;
  for (const Step& one : assignment_.schedule->steps) {
    if (one.peer != step.peer || (one.kind != StepKind::receive && one.kind != StepKind::receive_reduce)) continue;
    awaited += 2 * chunk_bytes(one.target) * widened_ + tiles_;  // bytes, and frames: of at least a byte, or one in each tile
  }
  for (const EarlyFrame& early : from.early) kept += static_cast<int64_t>(early.bytes.size()) + 1;
  if (kept <= awaited) return true;
  const int rank = lanes_.member(step.peer).rank;
  failure_ = {ErrorCode::protocol, fmt::format("rank {} sent more than this call receives from it", rank), rank};
  return false;
}

// True once all of it is there.
bool Run::set_aside(const Step& step) {
  Arrival& from = arrivals_[static_cast<size_t>(step.peer)];
  Channel& channel = router_.to(step.peer);
  if (from.piece == 0) channel.post_receive(from.early.back().bytes);
  from.piece = from.left;
  if (channel.receiving()) link_moved_ |= channel.turn();
  if (channel.receiving()) return false;
  from.piece = 0;
  from.part = Arrival::Part::none;
  return true;
}

// A frame of this tile that came before the step that receives it.
bool Run::take_early(const Step& step, int64_t tile, const Stretch& target) {
  const Arrival& from = arrivals_[static_cast<size_t>(step.peer)];
  std::deque<EarlyFrame>& early = arrivals_[static_cast<size_t>(step.peer)].early;
  auto frame = std::find_if(early.begin(), early.end(), [&](const EarlyFrame& one) { return one.tile == tile; });
  if (frame == early.end()) return false;
  if (from.part == Arrival::Part::body && from.aside && frame == std::prev(early.end())) return false;  // not all of it is there
  Receipt& receipt = receipts_[tile % max_window];
  const auto bytes = static_cast<int64_t>(frame->bytes.size());
  if (!fits(step, bytes, target, receipt.bytes)) return false;
  put(step, target.from(receipt.bytes, bytes), frame->bytes.data(), bytes);
  receipt.begun = true;
  receipt.bytes += bytes;
  early.erase(frame);
  return true;
}

// Takes one step forward with what comes from a peer: a head, a piece of what this tile awaits, or one of what is set aside.
bool Run::receive_some(const Step& step, int64_t tile, const Stretch& target) {
  if (take_early(step, tile, target)) return true;
  Arrival& from = arrivals_[static_cast<size_t>(step.peer)];
  if (!failure_.ok() || (from.part != Arrival::Part::body && !take_head(step, tile, target))) return false;
  if (from.aside) return set_aside(step);
  if (from.frame.tile != tile) return false;  // that tile is about to take it
  Receipt& receipt = receipts_[tile % max_window];
  Channel& channel = router_.to(step.peer);
  const bool adds = step.kind == StepKind::receive_reduce;
  std::byte* const landing = link_landing_.data() + (tile % max_window) * most_in_a_piece;
  if (from.piece == 0 && from.left > 0) {
    const Stretch rest = target.from(receipt.bytes, from.left);
    from.piece = std::min(rest.here, adds ? most_in_a_piece : from.left);
    channel.post_receive({adds ? landing : rest.data, static_cast<size_t>(from.piece)});
  }
  if (channel.receiving()) link_moved_ |= channel.turn();
  if (channel.receiving()) return false;
  const int64_t piece = std::exchange(from.piece, 0);
  if (adds && piece > 0) put(step, target.from(receipt.bytes, piece), landing, piece);
  receipt.begun = true;
  receipt.bytes += piece;
  from.left -= piece;
  if (from.left == 0) from.part = Arrival::Part::none;
  return true;
}

// A function of the user's is shown the whole chunk at once.
bool Run::receive(const Step& step, int64_t tile) {
  const Stretch target = place(step.target, tile);
  const bool whole = gathers_whole_chunks(step);
  const int64_t each = static_cast<int64_t>(receipt_.size()) / assignment_.window;
  const Stretch gathered = Stretch::in_one_place(receipt_.data() + tile % assignment_.window * each, target.bytes);
  Step gathering = step;
  gathering.kind = StepKind::receive;
  Receipt& receipt = receipts_[tile % max_window];
  while (!receipt.begun || receipt.bytes < target.bytes)
    if (!receive_some(whole ? gathering : step, tile, whole ? gathered : target)) return false;
  if (whole) put(step, target, gathered.data, target.bytes);
  receipt = {};
  return true;
}

std::string Run::how_far() const {
  std::vector<std::string> parts;
  if (uses_links_ && oldest_ < tiles_) {
    const Step& step = step_at(done_steps_[oldest_ % max_window]);
    if (step.kind == StepKind::receive || step.kind == StepKind::receive_reduce) {
      const Arrival& from = arrivals_[static_cast<size_t>(step.peer)];
      const bool in_the_middle = from.part == Arrival::Part::body && !from.aside && from.piece > 0;
      const int64_t came = receipts_[oldest_ % max_window].bytes + (in_the_middle ? from.piece - router_.to(step.peer).unreceived_bytes() : 0);
      const int64_t awaited = place(step.target, oldest_).bytes;
      const int rank = lanes_.member(step.peer).rank;
      parts.push_back(awaited == 0 ? fmt::format("rank {} has not been heard from", rank) : fmt::format("{} of {} bytes from rank {} have come", came, awaited, rank));
    }
  }
  std::vector<int> told;
  for (const PendingSend& send : sends_) {
    if (std::ranges::find(told, send.peer) != told.end()) continue;
    told.push_back(send.peer);
    parts.push_back(fmt::format("{} bytes for rank {} have not gone", router_.to(send.peer).unsent_bytes(), lanes_.member(send.peer).rank));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

void Run::abandon() {
  sends_.clear();
  copies_.clear();
  router_.drop_unfinished();
}

void Run::copy(const Step& step, int64_t tile) {
  const Stretch source = place(step.source, tile), target = place(step.target, tile);
  if (is_partial(step.target) != is_partial(step.source))
    return is_partial(step.target) ? convert(step, source, target) : convert(step, target, source);
  const Reduction reduction = reduction_at(step.target);
  const int64_t element = element_bytes(reduction.dtype);
  if (step.kind == StepKind::reduce) {
    return in_step(source, target, [&](const std::byte* from, std::byte* to, int64_t, int64_t bytes) {
      const void* sources[] = {to, from};
      unisono::reduce(reduction,
                      {.target = to, .sources = sources, .count = bytes / element, .contributions = false, .complete = step.completes});
    });
  }
  if (step.scales) {
    return in_step(source, target, [&](const std::byte* from, std::byte* to, int64_t, int64_t bytes) {
      const void* sources[] = {from};
      unisono::reduce(reduction, {.target = to, .sources = sources, .count = bytes / element, .complete = false});
    });
  }
  if (!can_be_deferred(step, target, source)) return copy_bytes(target, source);
  copies_.push_back({target, source});
  ++pending_version_;
}

bool Run::can_be_deferred(const Step& step, const Stretch& target, const Stretch& source) const {
  if (!uses_links_ || step.target.buffer == Buffer::stage || step.source.buffer == Buffer::stage) return false;
  return std::min(target.bytes, source.bytes) > most_copied_at_once && target.data != source.data;
}

// While nothing comes: what is on its way goes on by itself meanwhile.
void Run::copy_some() {
  PendingCopy& copy = copies_.front();
  const int64_t length = std::min(copy.target.bytes, copy.source.bytes), part = std::min(most_copied_at_once, length - copy.done);
  const Stretch target = copy.target.from(copy.done, part), source = copy.source.from(copy.done, part);
  if (call_->output.bytes() < too_long_for_caches) {
    copy_bytes(target, source);
  } else {
    in_step(target, source, [](std::byte* to, const std::byte* from, int64_t, int64_t bytes) {
      if (to != from) copy_past_caches(to, from, bytes);
    });
  }
  copy.done += part;
  if (copy.done < length) return;
  copies_.erase(copies_.begin());
  ++pending_version_;
}

}  // namespace unisono
