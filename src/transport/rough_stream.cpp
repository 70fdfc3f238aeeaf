// See rough_stream.hpp.
#include "transport/rough_stream.hpp"

#include <algorithm>

namespace unisono {

// Of three tries one moves nothing, one a single byte, and one some part of what is wanted, up to all of it.
size_t RoughStream::most_now(size_t wanted) {
  const uint32_t way = random_() % 3;
  const size_t most = way == 0 ? 0 : way == 1 ? 1 : 1 + random_() % std::max<size_t>(wanted, 1);
  withheld_ |= most < wanted;
  return std::min(most, wanted);
}

int64_t RoughStream::write(Channel::Sent first, Channel::Sent second) {
  if (is_silent() || is_broken()) return 0;
  const size_t most = most_now(first.size() + second.size()), of_first = std::min(most, first.size());
  return most == 0 ? 0 : smooth_->write(first.first(of_first), second.first(most - of_first));
}

int64_t RoughStream::read(std::span<std::byte> target) {
  const int64_t until = std::min(roughness_.silent_after, roughness_.broken_after);
  if (read_ >= until) return 0;
  const size_t most = std::min(most_now(target.size()), static_cast<size_t>(until - read_));
  const int64_t count = most == 0 ? 0 : smooth_->read(target.first(most));
  read_ += count;
  return count;
}

void RoughStream::arm(bool to_write, bool to_read) {
  smooth_->arm(to_write, to_read);
  if (withheld_ && !is_silent() && !is_broken()) wake_();
  withheld_ = false;
}

Status RoughStream::state() const {
  if (is_broken()) return {ErrorCode::peer_lost, "the connection was reset"};
  return smooth_->state();
}

}  // namespace unisono
