// Posted sends and receives over a stream of bytes. See channel.hpp and stream.hpp.
#include "transport/stream.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace unisono {

// True when all of it has gone.
bool StreamChannel::push(Posted& posted) {
  const Sent head = Sent(posted.head, posted.head_bytes).subspan(std::min(posted.moved, posted.head_bytes));
  const Sent body = posted.body.subspan(std::max(posted.moved, posted.head_bytes) - posted.head_bytes);
  posted.moved += static_cast<size_t>(stream_->write(head, body));
  if (static_cast<int64_t>(posted.moved) < posted.bytes()) return false;
  ++sent_;
  return true;
}

void StreamChannel::post_send(Sent head, Sent body) {
  CHECK(head.size() <= most_head_bytes);
  Posted posted{.head = {}, .body = body, .head_bytes = head.size()};
  std::copy(head.begin(), head.end(), posted.head);
  if (!dropped_) queue_.push_back(posted);  // first: where memory runs out, nothing of it has gone
  ++posted_;
  if (queue_.size() == 1 && push(queue_.front())) queue_.pop_front();
}

void StreamChannel::post_receive(std::span<std::byte> target) {
  CHECK(!receiving_);
  target_ = target;
  receiving_ = !target.empty();
}

bool StreamChannel::turn() {
  if (dropped_) return false;
  bool moved = false;
  while (!queue_.empty()) {
    const size_t before = queue_.front().moved;
    const bool gone = push(queue_.front());
    moved |= queue_.front().moved != before;
    if (!gone) break;
    queue_.pop_front();
  }
  if (!receiving_) return moved;
  const int64_t came = stream_->read(target_);
  target_ = target_.subspan(static_cast<size_t>(came));
  receiving_ = !target_.empty();
  return moved || came > 0;
}

int64_t StreamChannel::unsent_bytes() const {
  int64_t bytes = 0;
  for (const Posted& posted : queue_) bytes += posted.bytes() - static_cast<int64_t>(posted.moved);
  return bytes;
}

void StreamChannel::drop() {
  dropped_ = true;
  queue_.clear();
  target_ = {};
}

}  // namespace unisono
