// Opening and using byte rings. Order: the ring is zero when its place is stored with release in the sender's lane, and
// the receiver loads that place with acquire, so it never sees a ring half made. The rest is argued in byte_ring.hpp.
#include "transport/links.hpp"

#include "base/check.hpp"

namespace unisono {

Links::Links(Lanes& lanes, Arena& arena, LinkUse use)
    : lanes_(lanes), arena_(arena), use_(use), to_(static_cast<size_t>(lanes.members())), from_(static_cast<size_t>(lanes.members())) {}

void Links::close() {
  for (ByteRing*& ring : to_)
    if (auto* at = reinterpret_cast<std::byte*>(std::exchange(ring, nullptr))) arena_.give_back(at - arena_.mapping()->data());
}

Status Links::open_to(int peer) {
  ByteRing*& ring = to_[static_cast<size_t>(peer)];
  if (ring) return Status::success();
  auto offset = arena_.take(sizeof(ByteRing), "a link to a neighbour");
  if (!offset.ok()) return offset.status();
  ring = reinterpret_cast<ByteRing*>(arena_.mapping()->data() + *offset);
  lanes_.link(lanes_.me(), peer, use_).store(static_cast<uint64_t>(*offset), std::memory_order_release);
  return Status::success();
}

ByteRing* Links::from(int peer) {
  ByteRing*& ring = from_[static_cast<size_t>(peer)];
  if (ring) return ring;
  uint64_t offset = lanes_.link(peer, lanes_.me(), use_).load(std::memory_order_acquire);
  if (offset == 0) return nullptr;
  if (offset % line_bytes != 0) lanes_.cannot_be(peer, "link");
  return ring = reinterpret_cast<ByteRing*>(lanes_.at(peer, offset, sizeof(ByteRing), "link"));
}

int64_t Links::send(int peer, const std::byte* data, int64_t bytes) {
  CHECK(to_[static_cast<size_t>(peer)]);
  const int64_t sent = to_[static_cast<size_t>(peer)]->send(data, bytes);
  if (sent == ByteRing::broken) lanes_.cannot_be(peer, "count of received bytes");
  return sent;
}

Links::Ready Links::ready(int peer, int64_t wanted, int64_t granule) {
  Ready ready;
  if (ByteRing* ring = from(peer)) ready.bytes = ring->ready(wanted, granule, bounce_, ready.data);
  if (ready.bytes == ByteRing::broken) lanes_.cannot_be(peer, "count of sent bytes");
  return ready;
}

void Links::consume(int peer, int64_t bytes) { from(peer)->consume(bytes); }

}  // namespace unisono
