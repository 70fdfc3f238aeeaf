// What stands in front of every piece of data in a channel: of a letter, and of a step of a call. They travel between machines as they lie here;
// docs/wire_format.md has every byte.
//
// A head is received where it is read, without a copy, and is then held against what can be: whoever reads one asks that first.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/sizes.hpp"
#include "transport/channel.hpp"
#include "unisono/types.hpp"

namespace unisono {

static_assert(std::endian::native == std::endian::little, "docs/wire_format.md: numbers are little-endian");

inline constexpr int64_t eager_bytes = 32_KiB;
inline constexpr int64_t credit_bytes = 1_MiB;  // messages, each with its frame, that one member may send another before they are received
inline constexpr int64_t most_offers = 1 << 20;  // of one member's long letters, that nothing awaits yet
inline constexpr int64_t most_data_in_a_frame = 64_KiB;
inline constexpr int64_t most_in_a_link_frame = 1_MiB;  // a multiple of every element's size

// Of letters.
struct Frame {
  enum class Kind : uint8_t { message, offer, taken, go, data, wrong, credit };

  Kind kind = Kind::message;
  DType dtype = DType::uint8;
  uint16_t unused = 0;
  int32_t tag = 0;
  int64_t bytes = 0;      // of the letter; of a data frame: those that follow; of a credit: those that may be sent
  uint64_t sequence = 0;  // of the letter among those between these two, so that answers find it
  uint64_t address = 0;   // offers within a host: where the sender's memory is
};
static_assert(sizeof(Frame) == 32 && sizeof(Frame) <= Channel::most_head_bytes);
static_assert(offsetof(Frame, dtype) == 1 && offsetof(Frame, unused) == 2 && offsetof(Frame, tag) == 4 && offsetof(Frame, bytes) == 8 &&
              offsetof(Frame, sequence) == 16 && offsetof(Frame, address) == 24);

// By itself; whether its letter is awaited, and how long, is the receiver's to know.
bool can_be(const Frame& frame);

// Of all bytes that a step sends, and of a send of none.
struct LinkFrame {
  uint64_t word = 0;  // of the call
  uint64_t signature = 0;
  uint32_t tile = 0;
  uint32_t bytes = 0;
};
static_assert(sizeof(LinkFrame) == 24 && sizeof(LinkFrame) <= Channel::most_head_bytes);
static_assert(offsetof(LinkFrame, signature) == 8 && offsetof(LinkFrame, tile) == 16 && offsetof(LinkFrame, bytes) == 20);

// Of a call whose word it has: of one of these tiles.
inline bool can_be(const LinkFrame& frame, int64_t first_tile, int64_t end_tile) {
  return frame.tile >= first_tile && frame.tile < end_tile && frame.bytes <= most_in_a_link_frame;
}

}  // namespace unisono
