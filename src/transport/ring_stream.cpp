// Opening and using byte rings. Order: the ring is zero when its place is stored with release in the sender's lane, and
// the receiver loads that place with acquire, so it never sees a ring half made. The rest is argued in byte_ring.hpp.
#include "transport/ring_stream.hpp"

#include "base/check.hpp"
#include "base/fault_point.hpp"

namespace unisono {

Status RingStream::open() {
  if (to_) return Status::success();
  auto offset = arena_.take(sizeof(ByteRing), "a link to a neighbour");
  if (!offset.ok()) return offset.status();
  to_ = reinterpret_cast<ByteRing*>(arena_.mapping()->data() + *offset);
  lanes_.link(lanes_.me(), peer_, use_).store(static_cast<uint64_t>(*offset), std::memory_order_release);
  return Status::success();
}

void RingStream::close() {
  if (auto* at = reinterpret_cast<std::byte*>(std::exchange(to_, nullptr))) arena_.give_back(at - arena_.mapping()->data());
}

ByteRing* RingStream::incoming() {
  if (from_) return from_;
  const uint64_t offset = lanes_.link(peer_, lanes_.me(), use_).load(std::memory_order_acquire);
  if (offset == 0) return nullptr;
  if (offset % line_bytes != 0) lanes_.cannot_be(peer_, "link");
  return from_ = reinterpret_cast<ByteRing*>(lanes_.at(peer_, offset, sizeof(ByteRing), "link"));
}

// Both parts become visible together where there is room for both.
int64_t RingStream::write(Channel::Sent first, Channel::Sent second) {
  CHECK(to_);
  const int64_t room = to_->room();
  if (room == ByteRing::broken) lanes_.cannot_be(peer_, "count of received bytes");
  if (room == 0) return 0;
  first = first.first(std::min(first.size(), static_cast<size_t>(room)));
  second = second.first(std::min(second.size(), static_cast<size_t>(room) - first.size()));
  to_->write(0, first);
  if (!second.empty()) to_->write(static_cast<int64_t>(first.size()), second);
  const auto bytes = static_cast<int64_t>(first.size() + second.size());
  FAULT_POINT("ring_written");
  to_->publish(bytes);
  FAULT_POINT("ring_published");
  lanes_.wake(peer_);
  return bytes;
}

// A sender that found the ring full may sleep, and is woken where the ring was at least half full. It may have filled the rest since
// that was looked at; where it was less than half full, it cannot have found it full before what is taken here has made room.
int64_t RingStream::read(std::span<std::byte> target) {
  ByteRing* const ring = incoming();
  const int64_t there = ring ? ring->filled() : 0;
  if (there == ByteRing::broken) lanes_.cannot_be(peer_, "count of sent bytes");
  if (there == 0) return 0;
  target = target.first(std::min(target.size(), static_cast<size_t>(there)));
  ring->take(target);
  if (there >= static_cast<int64_t>(ring_bytes / 2)) lanes_.wake(peer_);
  return static_cast<int64_t>(target.size());
}

bool RingStream::holds_more() {
  const ByteRing* const ring = incoming();
  return ring && ring->filled() > 0;
}

}  // namespace unisono
