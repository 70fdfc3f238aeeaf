// A stream of bytes from one rank to another through shared memory.
//
// Who writes: the sender writes the bytes and `head`; the receiver writes `tail`; nobody else writes.
// Order: head is stored with release after the bytes and loaded with acquire before them, so a receiver that sees the new
// head sees the bytes. tail makes the same promise in the other direction: room that it frees has been read.
#pragma once

#include <algorithm>
#include <cstring>

#include "transport/lane.hpp"

namespace unisono {

inline constexpr uint64_t ring_bytes = 256 << 10;  // a power of two

struct ByteRing {
  alignas(line_bytes) std::atomic<uint64_t> head;  // bytes ever sent
  alignas(line_bytes) std::atomic<uint64_t> tail;  // bytes ever received
  alignas(line_bytes) std::byte bytes[ring_bytes];

  // Sends as much as there is room for; returns how much that was. Both counters lie where others can write: where more bytes
  // seem to be under way than a ring holds, this and the functions below return `broken`.
  static constexpr int64_t broken = -1;
  int64_t send(const std::byte* data, int64_t wanted) {
    uint64_t at = head.load(std::memory_order_relaxed);
    uint64_t filled = at - tail.load(std::memory_order_acquire);
    if (filled > ring_bytes) [[unlikely]] return broken;
    uint64_t room = ring_bytes - filled;
    uint64_t count = std::min(room, static_cast<uint64_t>(wanted));
    uint64_t first = std::min(count, ring_bytes - at % ring_bytes);
    std::memcpy(bytes + at % ring_bytes, data, first);
    std::memcpy(bytes, data + first, count - first);
    if (count > 0) head.store(at + count, std::memory_order_release);
    return static_cast<int64_t>(count);
  }

  // A message of several parts becomes visible as a whole: written where there is room, then published.
  int64_t room() const {
    const uint64_t filled = head.load(std::memory_order_relaxed) - tail.load(std::memory_order_acquire);
    return filled > ring_bytes ? broken : static_cast<int64_t>(ring_bytes - filled);
  }
  void write(int64_t offset, const void* data, int64_t count) {
    uint64_t place = (head.load(std::memory_order_relaxed) + static_cast<uint64_t>(offset)) % ring_bytes;
    uint64_t first = std::min(static_cast<uint64_t>(count), ring_bytes - place);
    std::memcpy(bytes + place, data, first);
    std::memcpy(bytes, static_cast<const std::byte*>(data) + first, static_cast<uint64_t>(count) - first);
  }
  void publish(int64_t count) {
    head.store(head.load(std::memory_order_relaxed) + static_cast<uint64_t>(count), std::memory_order_release);
  }
  // The same by the receiver: what lies there, read without taking it away; consume() does that.
  int64_t filled() const {
    const uint64_t there = head.load(std::memory_order_acquire) - tail.load(std::memory_order_relaxed);
    return there > ring_bytes ? broken : static_cast<int64_t>(there);
  }
  void read(int64_t offset, void* target, int64_t count) const {
    uint64_t place = (tail.load(std::memory_order_relaxed) + static_cast<uint64_t>(offset)) % ring_bytes;
    uint64_t first = std::min(static_cast<uint64_t>(count), ring_bytes - place);
    std::memcpy(target, bytes + place, first);
    std::memcpy(static_cast<std::byte*>(target) + first, bytes, static_cast<uint64_t>(count) - first);
  }

  // What lies ready, at most `wanted`, in whole granules. A granule that lies across the ring's end is put together in
  // `bounce`, which has room for one.
  int64_t ready(int64_t wanted, int64_t granule, std::byte* bounce, const std::byte*& data) const {
    uint64_t at = tail.load(std::memory_order_relaxed), place = at % ring_bytes;
    const uint64_t filled = head.load(std::memory_order_acquire) - at;
    if (filled > ring_bytes) [[unlikely]] return broken;
    uint64_t there = std::min(filled, static_cast<uint64_t>(wanted));
    uint64_t stretch = std::min(there, ring_bytes - place), unit = static_cast<uint64_t>(granule);
    data = bytes + place;
    if (stretch >= unit || there < unit) return static_cast<int64_t>(stretch - stretch % unit);
    std::memcpy(bounce, bytes + place, stretch);
    std::memcpy(bounce + stretch, bytes, unit - stretch);
    data = bounce;
    return granule;
  }
  void consume(int64_t count) {
    tail.store(tail.load(std::memory_order_relaxed) + static_cast<uint64_t>(count), std::memory_order_release);
  }
};

}  // namespace unisono
