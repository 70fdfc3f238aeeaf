// What two ranks tell each other on the stream beside a fabric: how they can be reached there, from when on bytes come by it, how many were taken of them, and how many there are.
// Functions of bytes; see docs/wire_format.md.
#pragma once

#include <cstddef>
#include <cstdint>

#include "unisono/status.hpp"

namespace unisono {

struct FabricFrame {
  enum class Kind : uint32_t {
    hello = 1,  // number: the tag of messages to who says it; followed by its address on the fabric, empty where it has none
    data,       // bytes of the stream follow
    moves,      // whatever comes after this comes by the fabric
    took,       // number: so many bytes of the fabric's were taken, ever
    ended,      // number: so many bytes were sent by the fabric, and nothing more will be by either
  };

  Kind kind;
  uint32_t bytes;  // that follow
  uint64_t number;
};
inline constexpr size_t fabric_frame_bytes = 16;
static_assert(sizeof(FabricFrame) == fabric_frame_bytes);

inline constexpr uint32_t most_fabric_address_bytes = 16 << 10, most_fabric_data_bytes = 1 << 30;

// What the reader of such a stream knows before the next frame.
struct FabricHeard {
  bool hello = false, moved = false;
  uint64_t sent = 0;   // by the fabric, by who reads
  uint64_t taken = 0;  // of these, as the other has said
  bool ended = false;
};

// ProtocolError: no rank of ours sends that there.
Status check_fabric_frame(const FabricFrame& frame, const FabricHeard& heard);

}  // namespace unisono
