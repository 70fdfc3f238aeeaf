// A stream of bytes from one rank to another through shared memory.
//
// Who writes: the sender writes the bytes and `head`; the receiver writes `tail`; nobody else writes.
// Order: head is stored with release after the bytes and loaded with acquire before them, so a receiver that sees the new
// head sees the bytes. tail makes the same promise in the other direction: room that it frees has been read.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>

#include "transport/lane.hpp"

namespace unisono {

inline constexpr uint64_t ring_bytes = 256 << 10;  // a power of two

struct ByteRing {
  alignas(line_bytes) std::atomic<uint64_t> head;  // bytes ever sent
  alignas(line_bytes) std::atomic<uint64_t> tail;  // bytes ever received
  alignas(line_bytes) std::byte bytes[ring_bytes];

  // Both counters lie where others can write: where more bytes seem to be under way than a ring holds, these return `broken`.
  static constexpr int64_t broken = -1;
  int64_t room() const {
    const uint64_t filled = head.load(std::memory_order_relaxed) - tail.load(std::memory_order_acquire);
    return filled > ring_bytes ? broken : static_cast<int64_t>(ring_bytes - filled);
  }
  int64_t filled() const {
    const uint64_t there = head.load(std::memory_order_acquire) - tail.load(std::memory_order_relaxed);
    return there > ring_bytes ? broken : static_cast<int64_t>(there);
  }

  // By the sender, where there is room: first written, `offset` bytes behind what was published, then published.
  void write(int64_t offset, std::span<const std::byte> data) {
    const uint64_t place = (head.load(std::memory_order_relaxed) + static_cast<uint64_t>(offset)) % ring_bytes;
    const uint64_t first = std::min(data.size(), ring_bytes - place);
    if (first > 0) std::memcpy(bytes + place, data.data(), first);
    if (data.size() > first) std::memcpy(bytes, data.data() + first, data.size() - first);
  }
  void publish(int64_t count) {
    head.store(head.load(std::memory_order_relaxed) + static_cast<uint64_t>(count), std::memory_order_release);
  }
  // By the receiver: at most what is filled.
  void take(std::span<std::byte> target) {
    const uint64_t at = tail.load(std::memory_order_relaxed), place = at % ring_bytes;
    const uint64_t first = std::min(target.size(), ring_bytes - place);
    if (first > 0) std::memcpy(target.data(), bytes + place, first);
    if (target.size() > first) std::memcpy(target.data() + first, bytes, target.size() - first);
    tail.store(at + target.size(), std::memory_order_release);
  }
};

}  // namespace unisono
