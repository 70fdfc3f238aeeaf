// The ways from one member of a group to the others: here, byte rings in shared memory, opened when first used. A ring
// lies in the sender's arena; the sender leaves its place in its lane, where the receiver looks for it.
#pragma once

#include <vector>

#include "transport/byte_ring.hpp"
#include "transport/lanes.hpp"

namespace unisono {

class Links {
 public:
  Links(Lanes& lanes, Arena& arena, LinkUse use);
  void close();  // gives the rings back; nobody may use them any more
  Links(const Links&) = delete;

  Status open_to(int peer);  // before the first send; MemoryError when the arena is full
  int64_t send(int peer, const std::byte* data, int64_t bytes);
  struct Ready {
    const std::byte* data = nullptr;
    int64_t bytes = 0;
  };
  Ready ready(int peer, int64_t wanted, int64_t granule);  // in whole granules of at most 16 bytes
  void consume(int peer, int64_t bytes);

  // The rings themselves, where whole messages are written and read; null before they are opened.
  ByteRing* to(int peer) const { return to_[static_cast<size_t>(peer)]; }
  ByteRing* from(int peer);

 private:
  Lanes& lanes_;
  Arena& arena_;
  LinkUse use_;
  std::vector<ByteRing*> to_, from_;
  std::byte bounce_[16];
};

}  // namespace unisono
