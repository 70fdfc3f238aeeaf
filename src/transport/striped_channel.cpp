// See striped_channel.hpp.
#include "transport/striped_channel.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "base/check.hpp"

namespace unisono {
namespace {

constexpr uint64_t stripe_head_bytes = sizeof(StripeHead);

// What is left of two parts in a row of which so much has moved.
struct Parts {
  Channel::Sent first, second;

  Parts after(uint64_t moved) const {
    return {first.subspan(std::min<size_t>(moved, first.size())), second.subspan(std::max<size_t>(moved, first.size()) - first.size())};
  }
};

}  // namespace

Status check_stripe(const StripeHead& head) {
  if (head.bytes > 0 && head.bytes <= most_in_a_stripe && head.at <= UINT64_MAX - head.bytes && head.unused == 0) return Status::success();
  return {ErrorCode::protocol, fmt::format("it sent a stripe of {} bytes for place {} of its stream, which cannot be", head.bytes, head.at)};
}

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

// One whose head is here, and not yet that of a stripe before it.
bool StripedChannel::is_early(const Stripe& in) const { return in.moved >= stripe_head_bytes && !in.has_place && in.head.at > given_; }

// One whose turn has come, or never will.
bool StripedChannel::is_due(const Stripe& in) const { return in.moved >= stripe_head_bytes && !in.has_place && in.head.at <= given_; }

// True once the stripe has its place. No two have the same, and places are read in order, so none that has one lies before the target.
bool StripedChannel::take_head(Connection& connection) {
  Stripe& in = connection.in;
  if (in.has_place) return true;
  if (in.moved < stripe_head_bytes) {
    const auto rest = std::as_writable_bytes(std::span(&in.head, 1)).subspan(in.moved);
    in.moved += static_cast<uint64_t>(connection.stream->read(rest));
    if (in.moved < stripe_head_bytes) return false;
    state_ = check_stripe(in.head);
  }
  if (!state_.ok() || is_early(in)) return false;
  if (in.head.at < given_) {
    state_ = {ErrorCode::protocol, fmt::format("it sent {} bytes for place {} of a stream of which the first {} were sent before", in.head.bytes, in.head.at, given_)};
    return false;
  }
  given_ += in.head.bytes;
  in.has_place = true;
  return true;
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

bool StripedChannel::receive_from(Connection& connection) {
  bool moved = false;
  while (receiving_ && state_.ok() && receive_some(connection)) {
    moved = true;
    if (came_ < target_.size()) continue;
    begins_at_ += target_.size();
    receiving_ = false;
  }
  return moved;
}

// A head at one connection may be what a stripe at another has waited for. That one is looked at once more: of what it holds some may have left the
// kernel with its head, and no bell rings for that.
bool StripedChannel::turn() {
  if (dropped_ || !state_.ok()) return false;
  bool moved = !queue_.empty() && send_some();
  do {
    for (Connection& connection : connections_) moved |= receive_from(connection);
  } while (receiving_ && state_.ok() && std::ranges::any_of(connections_, [this](const Connection& one) { return is_due(one.in); }));
  return moved;
}

void StripedChannel::arm() {
  for (Connection& connection : connections_) {
    const bool sends = connection.out.head.bytes != 0 || cut_ < end_;
    const Stripe& in = connection.in;
    const bool reads = in.moved < stripe_head_bytes || (!is_early(in) && in.head.at + in.moved - stripe_head_bytes < begins_at_ + target_.size());
    connection.stream->arm(sends, receiving_ && reads);
  }
}

int64_t StripedChannel::unsent_bytes() const {
  uint64_t bytes = 0;
  for (const Posted& posted : queue_) bytes += posted.left;
  return static_cast<int64_t>(bytes);
}

void StripedChannel::drop() {
  dropped_ = true;
  queue_.clear();
  target_ = {};
  came_ = 0;
}

void StripedChannel::close() {
  for (Connection& connection : connections_) connection.stream->close();
}

void StripedChannel::finish() {
  for (Connection& connection : connections_) connection.stream->finish();
}

// Where a stripe is early, what it waits for has to come by another connection.
bool StripedChannel::holds_more() {
  return std::ranges::any_of(connections_, [this](Connection& connection) { return !is_early(connection.in) && connection.stream->holds_more(); });
}

// One that ended between two stripes may have carried all that it was to: what is still awaited may come by another.
Status StripedChannel::state() const {
  if (!state_.ok()) return state_;
  const Connection* ended = nullptr;
  bool more_may_come = false;
  for (const Connection& connection : connections_) {
    const bool goes_on = connection.stream->state().ok();
    more_may_come |= goes_on && !is_early(connection.in);
    if (goes_on) continue;
    if (connection.is_halfway() || cut_ < end_) return connection.stream->state();
    ended = &connection;
  }
  if (more_may_come) return Status::success();
  if (ended) return ended->stream->state();
  return {ErrorCode::protocol, fmt::format("it left out place {} of its stream", given_)};
}

}  // namespace unisono
