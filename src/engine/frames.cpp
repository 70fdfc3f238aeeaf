// See frames.hpp.
#include "engine/frames.hpp"

namespace unisono {

bool can_be(const Frame& frame) {
  const bool known = frame.kind <= Frame::Kind::credit && element_bytes(frame.dtype) > 0 && frame.unused == 0 && frame.bytes >= 0 &&
                     frame.bytes % element_bytes(frame.dtype) == 0 && (frame.address == 0 || frame.kind == Frame::Kind::offer);
  if (!known) return false;
  switch (frame.kind) {
    case Frame::Kind::message: return frame.bytes <= eager_bytes;
    case Frame::Kind::data: return frame.bytes <= most_data_in_a_frame;
    case Frame::Kind::credit: return frame.bytes <= credit_bytes;
    default: return true;
  }
}

}  // namespace unisono
