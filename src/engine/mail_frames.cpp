// What moves letters: frames into channels and out of them, and long letters from memory to memory. See mail.hpp.
//
// Order: a sender that gives a letter up says so (in its abort word, or by leaving) before its caller may use the memory again, so what
// was read of it before a look that finds neither is what was sent.
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

constexpr int64_t most_taken_at_once = 256_KiB;
constexpr int64_t most_read_at_once = 4_MiB;  // so that deadlines and deaths are looked at in between

int64_t cost_of(int64_t message_bytes) { return static_cast<int64_t>(sizeof(Frame)) + message_bytes; }
static_assert(credit_bytes >= 2 * (static_cast<int64_t>(sizeof(Frame)) + eager_bytes));

}  // namespace

// Answers first, since the peer may be waiting for them, then letters in the order posted, then what was asked for. One frame is on
// its way at a time.
bool Mail::send_to(int index) {
  Channel& channel = router_.to(index);
  bool moved = false;
  while (true) {
    if (channel.sending()) moved |= channel.turn();
    if (channel.sending()) return moved;
    has_left(index);
    if (!send_next(index)) return moved;
    moved = true;
  }
}

bool Mail::send_next(int index) {
  Peer& other = peer(index);
  if (!other.replies.empty()) {
    send_frame(index, other.replies.front());
    other.replying = true;
    return true;
  }
  if (!other.unsent.empty()) {
    send_letter(index, *other.unsent.front());
    return true;
  }
  if (!other.streams.empty()) send_piece(index);
  return other.leaving != nullptr;
}

void Mail::send_frame(int index, const Frame& frame, const std::byte* payload, int64_t bytes) {
  router_.to(index).post_send(std::as_bytes(std::span(&frame, 1)), {payload, static_cast<size_t>(bytes)});
}

bool Mail::lacks_credit(int index) const {
  const Peer& other = peers_[static_cast<size_t>(index)];
  if (other.unsent.empty()) return false;
  const int64_t bytes = other.unsent.front()->data.bytes;
  return bytes <= eager_bytes && cost_of(bytes) > other.credit;
}

void Mail::send_letter(int index, Letter& letter) {
  Peer& other = peer(index);
  const bool eager = letter.data.bytes <= eager_bytes && !lacks_credit(index);
  const Frame frame{.kind = eager ? Frame::Kind::message : Frame::Kind::offer,
                    .dtype = letter.dtype,
                    .tag = letter.tag,
                    .bytes = letter.data.bytes,
                    .sequence = other.next_sequence++,
                    .address = eager || !lanes_.is_here(index) ? 0 : reinterpret_cast<uint64_t>(letter.data.data)};
  if (!eager) other.offered.push_back({&letter, frame.sequence});
  other.unsent.pop_front();
  letter.stage = eager ? Letter::Stage::entered : Letter::Stage::offered;
  if (!eager) return send_frame(index, frame);
  other.credit -= cost_of(letter.data.bytes);
  other.leaving = &letter;
  send_frame(index, frame, letter.data.data, letter.data.bytes);
}

void Mail::send_piece(int index) {
  const Transfer& transfer = peer(index).streams.front();
  Letter& letter = *transfer.letter;
  const int64_t bytes = std::min(most_data_in_a_frame, letter.data.bytes - transfer.moved);
  peer(index).leaving = &letter;
  send_frame(index, {.kind = Frame::Kind::data, .dtype = letter.dtype, .tag = letter.tag, .bytes = bytes, .sequence = transfer.sequence},
             letter.data.data + transfer.moved, bytes);
}

// The channel has taken all that was handed to it.
void Mail::has_left(int index) {
  Peer& other = peer(index);
  if (std::exchange(other.replying, false)) {
    other.replies.pop_front();
    --replies_;
  }
  Letter* const letter = std::exchange(other.leaving, nullptr);
  if (!letter) return;
  if (letter->stage == Letter::Stage::streaming) {
    int64_t& moved = other.streams.front().moved;
    moved += std::min(most_data_in_a_frame, letter->data.bytes - moved);
    if (moved < letter->data.bytes) return;
  }
  finish(*letter, Status::success());
}

void Mail::reply(int index, Frame::Kind kind, const Frame& to, const Letter* letter) {
  if (Status status = router_.to(index).open(); !status.ok()) {
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

// A message has been received, by a letter that awaited it: as much more may be sent. It is said now and then only.
void Mail::give_credit(int index, const Frame& message) {
  Peer& other = peer(index);
  other.received += cost_of(message.bytes);
  if (other.received < credit_bytes / 4 || !router_.to(index).open().ok()) return;  // without it, letters are offered
  const int64_t bytes = std::exchange(other.received, 0);
  other.granted += bytes;
  reply(index, Frame::Kind::credit, {.bytes = bytes});
}

// Not more than a while, so that whoever is flooded still looks at the clock, at deaths, and at its other peers.
bool Mail::receive_from(int index) {
  Channel& channel = router_.to(index);
  Incoming& incoming = peer(index).incoming;
  int64_t taken = 0;
  bool moved = false;
  while (failure_.ok() && taken < most_taken_at_once) {
    if (incoming.part == Incoming::Part::none) {
      channel.post_receive(std::as_writable_bytes(std::span(&incoming.frame, 1)));
      incoming.part = Incoming::Part::head;
    }
    if (channel.receiving()) moved |= channel.turn();
    if (channel.receiving()) break;
    taken += static_cast<int64_t>(sizeof(Frame));
    if (incoming.part == Incoming::Part::head) {
      take_head(index);
    } else {
      taken += incoming.frame.bytes;
      take_body(index);
    }
  }
  return moved || taken > 0;
}

// A peer wrote these bytes, and whoever else can write there: nothing is believed that cannot be.
void Mail::take_head(int index) {
  Peer& other = peer(index);
  Incoming& incoming = other.incoming;
  const Frame& frame = incoming.frame;
  const int rank = lanes_.member(index).rank;
  if (!can_be(frame)) {
    failure_ = {ErrorCode::protocol, fmt::format("what came from rank {} is no letter", rank)};
    return;
  }
  incoming.part = Incoming::Part::none;
  switch (frame.kind) {
    case Frame::Kind::message: return begin_message(index);
    case Frame::Kind::data: return begin_data(index);
    case Frame::Kind::offer:
      if (Letter* letter = awaiting(index, frame.tag)) {
        found_its_match(*letter, index);
        return accept(*letter, index, frame);
      }
      if (++other.offers > most_offers) {
        failure_ = {ErrorCode::protocol, fmt::format("rank {} offers more than {} letters that nothing awaits", rank, most_offers)};
        return;
      }
      strays_[key_of(index, frame.tag)].push_back(Stray{frame, index, ++arrived_, {}});
      return;
    case Frame::Kind::credit:
      if (frame.bytes > credit_bytes - other.credit)
        failure_ = {ErrorCode::protocol, fmt::format("rank {} says that it has received more than was sent", rank)};
      other.credit += frame.bytes;
      return;
    default: answer(index, frame);
  }
}

// Where its bytes go: into the memory of what awaits it, or, until something does, into ours.
void Mail::begin_message(int index) {
  Peer& other = peer(index);
  Incoming& incoming = other.incoming;
  const Frame& frame = incoming.frame;
  other.granted -= cost_of(frame.bytes);
  if (other.granted < 0) {
    failure_ = {ErrorCode::protocol, fmt::format("rank {} sent more than it may before it is received", lanes_.member(index).rank)};
    return;
  }
  Letter* const letter = awaiting(index, frame.tag);
  if (letter && check_sizes(*letter, index, frame).ok()) {
    found_its_match(*letter, index);
    incoming.letter = letter;
    router_.to(index).post_receive({letter->data.data, static_cast<size_t>(frame.bytes)});
  } else {
    incoming.bytes.resize(static_cast<size_t>(frame.bytes));
    router_.to(index).post_receive(incoming.bytes);
  }
  incoming.part = Incoming::Part::body;
}

void Mail::begin_data(int index) {
  Incoming& incoming = peer(index).incoming;
  for (Transfer& transfer : peer(index).arriving) {
    if (transfer.sequence != incoming.frame.sequence) continue;
    const Bytes data = transfer.letter->data;
    if (incoming.frame.bytes > data.bytes - transfer.moved) break;
    incoming.letter = transfer.letter;
    incoming.part = Incoming::Part::body;
    return router_.to(index).post_receive({data.data + transfer.moved, static_cast<size_t>(incoming.frame.bytes)});
  }
  failure_ = {ErrorCode::protocol, fmt::format("rank {} sent bytes that belong to no letter", lanes_.member(index).rank)};
}

void Mail::take_body(int index) {
  Peer& other = peer(index);
  Incoming& incoming = other.incoming;
  const Frame frame = incoming.frame;
  incoming.part = Incoming::Part::none;
  Letter* letter = std::exchange(incoming.letter, nullptr);
  if (frame.kind == Frame::Kind::data) {
    auto transfer = std::find_if(other.arriving.begin(), other.arriving.end(), [&](const Transfer& one) { return one.letter == letter; });
    transfer->moved += frame.bytes;
    if (transfer->moved == letter->data.bytes) finish(*letter, Status::success());
    return;
  }
  if (letter) {
    give_credit(index, frame);
    return finish(*letter, Status::success());
  }
  strays_[key_of(index, frame.tag)].push_back(Stray{frame, index, ++arrived_, std::move(incoming.bytes)});
  incoming.bytes = {};
  letter = awaiting(index, frame.tag);  // it may have been posted while the bytes came, or does not fit
  if (letter) match_stray(*letter);
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
