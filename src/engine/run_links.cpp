// The steps of a Run that move bytes through links, and those that touch only this rank's memory. See run.hpp.
//
// On links a chunk travels as a stream: whatever fits goes at once and the rest later, so a send never holds up the
// receive after it. Contributions are scaled (premul_sum) when they are first copied, and averages divided at the end,
// since no single pass sees them all.
#include <cstring>

#include "base/check.hpp"
#include "engine/run.hpp"

namespace unisono {

// Sends to one peer go out in the order posted; sends to different peers do not wait for each other.
bool Run::progress_sends() {
  bool moved = false;
  for (size_t index = 0; index < sends_.size(); ++index) {
    PendingSend& send = sends_[index];
    bool behind = false;
    for (size_t earlier = 0; earlier < index; ++earlier)
      behind |= sends_[earlier].peer == send.peer && sends_[earlier].data.bytes > 0;
    bool room = !behind;
    while (room && send.data.bytes > 0) {
      const int64_t here = send.data.here, sent = links_.send(send.peer, send.data.data, here);
      send.data.drop(sent);
      moved |= sent > 0;
      room = sent == here;
    }
  }
  if (moved) lanes_.wake_peers();
  std::erase_if(sends_, [](const PendingSend& send) { return send.data.bytes == 0; });
  return moved;
}

bool Run::is_being_sent(const Stretch& target) const {
  for (const PendingSend& send : sends_)
    if (send.data.overlaps(target)) return true;
  return false;
}

// A function of the user's is never shown a part of a unit (reduction.hpp), and what arrives may end anywhere.
bool Run::gathers_whole_chunks(const Step& step) const {
  return step.kind == StepKind::receive_reduce && call_->op.kind == ReduceKind::user;
}

void Run::add_received(const Step& step, std::byte* at, const std::byte* data, int64_t bytes) {
  const void* peer_first[] = {data, at};
  const void* mine_first[] = {at, data};
  reduce(call_->reduction(lanes_.members()), {.target = at,
                                              .sources = step.peer < lanes_.me() ? peer_first : mine_first,
                                              .count = bytes / element_bytes(call_->dtype),
                                              .contributions = false,
                                              .complete = false});
}

bool Run::receive(const Step& step, int64_t tile) {
  const Stretch target = place(step.target, tile);
  if (is_being_sent(target)) return false;
  Stretch left = target.from(received_bytes_, target.bytes - received_bytes_);
  const int64_t element = element_bytes(call_->dtype);
  bool moved = false;
  while (received_bytes_ < target.bytes) {
    auto [data, ready] = links_.ready(step.peer, left.here, element);
    if (ready == 0) break;
    std::byte* at = left.data;
    if (gathers_whole_chunks(step)) {
      std::memcpy(receipt_.data() + received_bytes_, data, static_cast<size_t>(ready));
    } else if (step.kind == StepKind::receive) {
      std::memcpy(at, data, static_cast<size_t>(ready));
    } else {
      add_received(step, at, data, ready);
    }
    links_.consume(step.peer, ready);
    left.drop(ready);
    received_bytes_ += ready;
    moved = true;
  }
  if (moved) lanes_.wake_peers();  // room was made
  if (received_bytes_ < target.bytes) return false;
  if (gathers_whole_chunks(step))
    in_step(target, Stretch::in_one_place(receipt_.data(), target.bytes),
            [&](std::byte* to, const std::byte* from, int64_t, int64_t bytes) { add_received(step, to, from, bytes); });
  received_bytes_ = 0;
  return true;
}

void Run::copy(const Step& step, int64_t tile) {
  const Stretch source = place(step.source, tile), target = place(step.target, tile);
  const Reduction reduction = call_->reduction(lanes_.members());
  const int64_t element = element_bytes(call_->dtype);
  if (step.kind == StepKind::reduce) {
    return in_step(source, target, [&](const std::byte* from, std::byte* to, int64_t, int64_t bytes) {
      const void* sources[] = {to, from};
      unisono::reduce(reduction, {.target = to, .sources = sources, .count = bytes / element, .contributions = false, .complete = false});
    });
  }
  if (uses_links_ && cuts_of(call_->kind).reduces && step.source.buffer == Buffer::input) {
    return in_step(source, target, [&](const std::byte* from, std::byte* to, int64_t, int64_t bytes) {
      const void* sources[] = {from};
      unisono::reduce(reduction, {.target = to, .sources = sources, .count = bytes / element, .complete = false});
    });
  }
  copy_bytes(target, source);
}

void Run::finish_average() {
  bool has_result = cuts_of(call_->kind).reduces && (!cuts_of(call_->kind).rooted || lanes_.me() == call_->root);
  if (!has_result || call_->op.kind != ReduceKind::avg) return;
  const Stretch output = call_->output.whole();
  in_step(output, output, [&](std::byte* data, std::byte*, int64_t, int64_t bytes) {
    const void* sources[] = {data};
    unisono::reduce(call_->reduction(lanes_.members()), {.target = data,
                                                         .sources = sources,
                                                         .count = bytes / element_bytes(call_->dtype),
                                                         .contributions = false,
                                                         .complete = true});
  });
}

}  // namespace unisono
