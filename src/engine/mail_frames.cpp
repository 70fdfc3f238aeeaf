// What moves letters: frames into rings and out of them, and long letters from memory to memory. See mail.hpp.
//
// Order: a frame's bytes are written before the ring's head is stored with release (byte_ring.hpp). A sender that gives a
// letter up says so (in its abort word, or by leaving) before its caller may use the memory again, so what was read of it
// before a look that finds neither is what was sent.
#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/check.hpp"
#include "base/sizes.hpp"
#include "engine/mail.hpp"
#include "transport/peer_memory.hpp"

namespace unisono {
namespace {

constexpr int64_t eager_bytes = 32_KiB;
constexpr int64_t most_in_a_frame = 64_KiB;
constexpr int64_t most_read_at_once = 4_MiB;  // so that deadlines and deaths are looked at in between

constexpr int64_t frame_bytes(int64_t payload) { return static_cast<int64_t>(sizeof(Frame)) + round_up(payload, 8); }
static_assert(2 * frame_bytes(most_in_a_frame) <= static_cast<int64_t>(ring_bytes));

bool carries_bytes(Frame::Kind kind) { return kind == Frame::Kind::message || kind == Frame::Kind::data; }

}  // namespace

bool Mail::send_frame(int index, const Frame& frame, const std::byte* payload, int64_t bytes) {
  ByteRing* ring = links_.to(index);
  if (!ring) return false;
  const int64_t room = ring->room();
  if (room == ByteRing::broken) lanes_.cannot_be(index, "count of received bytes");
  if (room < frame_bytes(bytes)) return false;
  ring->write(0, &frame, sizeof(frame));
  if (bytes > 0) ring->write(sizeof(frame), payload, bytes);
  FAULT_POINT("mail_written");
  ring->publish(frame_bytes(bytes));
  FAULT_POINT("mail_published");
  lanes_.wake(index);
  return true;
}

// Answers first, since the peer may be waiting for them, then letters in the order posted, then what was asked for.
bool Mail::send_to(int index) {
  Peer& other = peer(index);
  bool moved = false;
  for (; !other.replies.empty() && send_frame(index, other.replies.front(), nullptr, 0); other.replies.pop_front(), --replies_)
    moved = true;
  while (!other.unsent.empty() && other.replies.empty() && send_letter(index, *other.unsent.front())) moved = true;
  while (!other.streams.empty() && other.unsent.empty() && other.replies.empty() && stream(index)) moved = true;
  return moved;
}

bool Mail::send_letter(int index, Letter& letter) {
  Peer& other = peer(index);
  const bool eager = letter.data.bytes <= eager_bytes;
  const Frame frame{.kind = eager ? Frame::Kind::message : Frame::Kind::offer,
                    .dtype = letter.dtype,
                    .tag = letter.tag,
                    .bytes = letter.data.bytes,
                    .sequence = other.next_sequence,
                    .address = eager ? 0 : reinterpret_cast<uint64_t>(letter.data.data)};
  if (!send_frame(index, frame, letter.data.data, eager ? letter.data.bytes : 0)) return false;
  ++other.next_sequence;
  other.unsent.pop_front();
  letter.stage = Letter::Stage::entered;
  if (eager) {
    finish(letter, Status::success());
    return true;
  }
  other.offered.push_back({&letter, frame.sequence});
  letter.stage = Letter::Stage::offered;
  return true;
}

bool Mail::stream(int index) {
  Transfer& transfer = peer(index).streams.front();
  const Bytes data = transfer.letter->data;
  const int64_t bytes = std::min(most_in_a_frame, data.bytes - transfer.moved);
  const Frame frame{.kind = Frame::Kind::data, .dtype = transfer.letter->dtype, .tag = transfer.letter->tag, .bytes = bytes, .sequence = transfer.sequence};
  if (!send_frame(index, frame, data.data + transfer.moved, bytes)) return false;
  transfer.moved += bytes;
  if (transfer.moved == data.bytes) finish(*transfer.letter, Status::success());
  return true;
}

void Mail::reply(int index, Frame::Kind kind, const Frame& to, const Letter* letter) {
  if (Status status = links_.open_to(index); !status.ok()) {
    failure_ = status;
    return;
  }
  Frame frame{.kind = kind, .dtype = to.dtype, .tag = to.tag, .bytes = to.bytes, .sequence = to.sequence};
  if (letter) {
    frame.dtype = letter->dtype;
    frame.bytes = letter->data.bytes;
  }
  peer(index).replies.push_back(frame);
  ++replies_;
  send_to(index);
}

// At most what a ring holds, so that whoever is flooded still looks at the clock, at deaths, and at its other peers.
bool Mail::receive_from(int index) {
  ByteRing* ring = links_.from(index);
  int64_t taken = 0;
  while (ring && failure_.ok() && taken < static_cast<int64_t>(ring_bytes)) {
    const int64_t bytes = take_frame(index, *ring);
    if (bytes == 0) break;
    taken += bytes;
  }
  return taken > 0;
}

// A peer wrote these bytes, and whoever else can write there: nothing is believed that cannot be.
bool Mail::sensible(const Frame& frame, int64_t there) const {
  const bool known = frame.kind <= Frame::Kind::wrong && element_bytes(frame.dtype) > 0 && frame.bytes >= 0 &&
                     frame.bytes % element_bytes(frame.dtype) == 0;
  if (!known) return false;
  const int64_t most = frame.kind == Frame::Kind::message ? eager_bytes : frame.kind == Frame::Kind::data ? most_in_a_frame : INT64_MAX;
  return frame.bytes <= most && frame_bytes(carries_bytes(frame.kind) ? frame.bytes : 0) <= there;
}

int64_t Mail::take_frame(int index, ByteRing& ring) {
  const int64_t there = ring.filled();
  if (there == 0) return 0;
  Frame frame;
  if (there >= static_cast<int64_t>(sizeof(frame))) ring.read(0, &frame, sizeof(frame));
  if (there < static_cast<int64_t>(sizeof(frame)) || !sensible(frame, there)) {
    failure_ = {ErrorCode::protocol, fmt::format("what came from rank {} is no letter", lanes_.member(index).rank)};
    return 0;
  }
  switch (frame.kind) {
    case Frame::Kind::message:
    case Frame::Kind::offer: arrive(index, frame, ring); break;
    case Frame::Kind::data: take_data(index, frame, ring); break;
    default: answer(index, frame);
  }
  const int64_t bytes = frame_bytes(carries_bytes(frame.kind) ? frame.bytes : 0);
  ring.consume(bytes);
  if (there > static_cast<int64_t>(ring_bytes / 2)) lanes_.wake(index);  // it may be waiting for room
  return bytes;
}

void Mail::arrive(int index, const Frame& frame, const ByteRing& ring) {
  const int64_t payload = frame.kind == Frame::Kind::message ? frame.bytes : 0;
  Letter* letter = awaiting(index, frame.tag);
  if (!letter) {
    Stray& stray = strays_[key_of(index, frame.tag)].emplace_back(
        Stray{frame, index, ++arrived_, std::vector<std::byte>(static_cast<size_t>(payload))});
    if (payload > 0) ring.read(sizeof(frame), stray.bytes.data(), payload);
    return;
  }
  found_its_match(*letter, index);
  if (frame.kind == Frame::Kind::offer) return accept(*letter, index, frame);
  Status status = check_sizes(*letter, index, frame);
  if (status.ok() && payload > 0) ring.read(sizeof(frame), letter->data.data, payload);
  finish(*letter, status);
}

void Mail::take_data(int index, const Frame& frame, const ByteRing& ring) {
  for (Transfer& transfer : peer(index).arriving) {
    if (transfer.sequence != frame.sequence) continue;
    const Bytes data = transfer.letter->data;
    if (frame.bytes > data.bytes - transfer.moved) break;
    ring.read(sizeof(frame), data.data + transfer.moved, frame.bytes);
    transfer.moved += frame.bytes;
    if (transfer.moved == data.bytes) finish(*transfer.letter, Status::success());
    return;
  }
  failure_ = {ErrorCode::protocol, fmt::format("rank {} sent bytes that belong to no letter", lanes_.member(index).rank)};
}

bool Mail::gave_up(int index) const {
  std::atomic_thread_fence(std::memory_order_acquire);  // what was read before was read before this look
  const LaneControl& control = lanes_.control(index);
  return control.abort.load(std::memory_order_acquire) != 0 || control.leaving.load(std::memory_order_acquire) != 0 ||
         lanes_.left(lanes_.me(), index).load(std::memory_order_acquire) != still_here;
}

// The kernel has changed its mind: what was to be read is asked for from its beginning.
void Mail::stop_reading(int index) {
  peer(index).is_read = false;
  for (Transfer& transfer : peer(index).arriving) {
    transfer.moved = 0;
    const Letter& letter = *transfer.letter;
    reply(index, Frame::Kind::go, {.dtype = letter.dtype, .tag = letter.tag, .bytes = letter.data.bytes, .sequence = transfer.sequence});
  }
}

// The oldest long letter from this peer, a stretch of it at a time.
bool Mail::read_arriving(int index) {
  if (gave_up(index)) return false;
  Transfer& transfer = peer(index).arriving.front();
  const Bytes data = transfer.letter->data;
  const int64_t bytes = std::min(most_read_at_once, data.bytes - transfer.moved);
  const ReadOutcome outcome = read_memory_of(lanes_.member(index), data.data + transfer.moved,
                                             transfer.address + static_cast<uint64_t>(transfer.moved), bytes);
  if (outcome == ReadOutcome::refused) {
    stop_reading(index);
    return true;
  }
  if (outcome == ReadOutcome::failed && !gave_up(index))
    failure_ = {ErrorCode::resource, fmt::format("the memory of rank {} (pid {}) cannot be read: {}; UNISONO_PEER_READS=off does without",
                                                 lanes_.member(index).rank, lanes_.member(index).pid, std::strerror(errno))};
  if (outcome != ReadOutcome::done || gave_up(index)) return false;  // the group will say why
  transfer.moved += bytes;
  if (transfer.moved < data.bytes) return true;
  FAULT_POINT("mail_read");
  Letter& letter = *transfer.letter;
  reply(index, Frame::Kind::taken, {.dtype = letter.dtype, .tag = letter.tag, .bytes = data.bytes, .sequence = transfer.sequence});
  finish(letter, Status::success());
  return true;
}

}  // namespace unisono
