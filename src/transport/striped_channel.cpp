// See striped_channel.hpp.
#include "transport/striped_channel.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "base/check.hpp"
#include "base/sizes.hpp"

namespace unisono {
namespace {

constexpr uint64_t most_in_a_stripe = 256_KiB;
constexpr uint64_t stripe_head_bytes = sizeof(StripedChannel::Head);
static_assert(stripe_head_bytes == 16);

// What is left of two parts in a row of which so much has moved.
struct Parts {
  Channel::Sent first, second;

  Parts after(uint64_t moved) const {
    return {first.subspan(std::min<size_t>(moved, first.size())), second.subspan(std::max<size_t>(moved, first.size()) - first.size())};
  }
};

}  // namespace

StripedChannel::StripedChannel(std::vector<std::unique_ptr<Stream>> streams) {
  for (auto& stream : streams) connections_.push_back({std::move(stream), {}, {}});
}

Status StripedChannel::open() {
  for (Connection& connection : connections_) RETURN_IF_ERROR(connection.stream->open());
  return Status::success();
}

void StripedChannel::post_send(Sent head, Sent body) {
  CHECK(head.size() <= most_head_bytes);
  ++posted_;
  if (dropped_) return;
  Posted posted{.head = {}, .body = body, .head_bytes = head.size(), .left = head.size() + body.size(), .begins_at = end_};
  std::ranges::copy(head, posted.head);
  end_ += posted.bytes();
  queue_.push_back(posted);
  send_some();
}

StripedChannel::Posted& StripedChannel::posted_at(uint64_t at) {
  auto after = std::ranges::upper_bound(queue_, at, {}, &Posted::begins_at);
  return *std::prev(after);
}

// The stripe's head and what it has of a posted head go as one part.
bool StripedChannel::push(Connection& connection, Stripe& stripe) {
  Posted& posted = posted_at(stripe.head.at);
  const uint64_t from = stripe.head.at - posted.begins_at, to = from + stripe.head.bytes;
  std::byte first[stripe_head_bytes + most_head_bytes];
  std::memcpy(first, &stripe.head, stripe_head_bytes);
  const Sent head = Sent(posted.head, posted.head_bytes).subspan(std::min(from, posted.head_bytes));
  std::ranges::copy(head, first + stripe_head_bytes);
  const uint64_t body_from = std::max(from, posted.head_bytes) - posted.head_bytes;
  const Parts all{Sent(first, stripe_head_bytes + head.size()), posted.body.subspan(body_from, to - posted.head_bytes - body_from)};
  const Parts left = all.after(stripe.moved);
  const auto count = static_cast<uint64_t>(connection.stream->write(left.first, left.second));
  stripe.moved += count;
  if (stripe.moved == stripe_head_bytes + stripe.head.bytes) {
    posted.left -= stripe.head.bytes;
    stripe = {};
  }
  return count > 0;
}

// A connection that is in the middle of a stripe has to go on with that one. A stripe that a connection takes nothing of goes to the next.
bool StripedChannel::send_some() {
  bool moved = false;
  for (Connection& connection : connections_)
    if (connection.out.head.bytes != 0) moved |= push(connection, connection.out);
  for (size_t refused = 0; cut_ < end_ && refused < connections_.size();) {
    Connection& connection = connections_[std::exchange(next_, (next_ + 1) % connections_.size())];
    ++refused;
    if (connection.out.head.bytes != 0) continue;
    const Posted& posted = posted_at(cut_);
    // A stripe holds all of a posted head or none of it: the first of a send is longer than any head.
    Stripe stripe{.head = {cut_, static_cast<uint32_t>(std::min(posted.begins_at + posted.bytes() - cut_, most_in_a_stripe)), 0}};
    const uint64_t after = cut_ + stripe.head.bytes;
    if (!push(connection, stripe)) continue;
    cut_ = after;
    connection.out = stripe;
    refused = 0;
    moved = true;
  }
  while (!queue_.empty() && queue_.front().left == 0) {
    queue_.pop_front();
    ++sent_;
  }
  return moved;
}

void StripedChannel::post_receive(std::span<std::byte> target) {
  CHECK(!receiving_);
  target_ = target;
  came_ = 0;
  receiving_ = !target.empty();
}

// True once it is whole.
bool StripedChannel::take_head(Connection& connection) {
  Stripe& in = connection.in;
  if (in.moved >= stripe_head_bytes) return true;
  const auto place = std::as_writable_bytes(std::span(&in.head, 1)).subspan(in.moved);
  in.moved += static_cast<uint64_t>(connection.stream->read(place));
  if (in.moved < stripe_head_bytes) return false;
  if (in.head.at >= begins_at_ && in.head.bytes > 0 && in.head.bytes <= most_in_a_stripe && in.head.at <= UINT64_MAX - in.head.bytes) return true;
  state_ = {ErrorCode::protocol, fmt::format("it sent {} bytes for place {} of a stream of which {} have been read", in.head.bytes, in.head.at, begins_at_)};
  return false;
}

bool StripedChannel::receive_some(Connection& connection) {
  Stripe& in = connection.in;
  if (!take_head(connection)) return false;
  const uint64_t at = in.head.at + in.moved - stripe_head_bytes, end = begins_at_ + target_.size();
  if (at >= end) return false;
  const uint64_t wanted = std::min(in.head.at + in.head.bytes, end) - at;
  const auto count = static_cast<uint64_t>(connection.stream->read(target_.subspan(at - begins_at_, wanted)));
  in.moved += count;
  came_ += count;
  if (in.moved == stripe_head_bytes + in.head.bytes) in = {};
  return count > 0;
}

bool StripedChannel::turn() {
  if (dropped_ || !state_.ok()) return false;
  bool moved = !queue_.empty() && send_some();
  for (size_t index = 0; index < connections_.size() && receiving_ && state_.ok(); ++index) {
    while (came_ < target_.size() && state_.ok() && receive_some(connections_[index])) moved = true;
    if (came_ < target_.size()) continue;
    begins_at_ += target_.size();
    receiving_ = false;
  }
  return moved;
}

void StripedChannel::arm() {
  for (Connection& connection : connections_) {
    const bool sends = connection.out.head.bytes != 0 || cut_ < end_;
    const bool waits = connection.in.moved < stripe_head_bytes || connection.in.head.at < begins_at_ + target_.size();
    connection.stream->arm(sends, receiving_ && waits);
  }
}

void StripedChannel::drop() {
  dropped_ = true;
  queue_.clear();
  target_ = {};
}

void StripedChannel::close() {
  for (Connection& connection : connections_) connection.stream->close();
}

void StripedChannel::finish() {
  for (Connection& connection : connections_) connection.stream->finish();
}

bool StripedChannel::holds_more() {
  return std::ranges::any_of(connections_, [](Connection& connection) { return connection.stream->holds_more(); });
}

// One that ended between two stripes may have carried all that it was to: what is still awaited may come by another.
Status StripedChannel::state() const {
  if (!state_.ok()) return state_;
  const Connection* ended = nullptr;
  for (const Connection& connection : connections_) {
    if (connection.stream->state().ok()) continue;
    if (connection.is_halfway() || cut_ < end_) return connection.stream->state();
    ended = &connection;
  }
  const bool all_ended = ended && std::ranges::none_of(connections_, [](const Connection& one) { return one.stream->state().ok(); });
  return all_ended ? ended->stream->state() : Status::success();
}

}  // namespace unisono
