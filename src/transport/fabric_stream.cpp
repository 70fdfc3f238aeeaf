// See fabric_stream.hpp.
#include "transport/fabric_stream.hpp"

#include <fmt/core.h>
#include <sys/random.h>

#include <algorithm>
#include <cstring>

#include "base/clock.hpp"
#include "base/shortage.hpp"

namespace unisono {
namespace {

constexpr size_t most_fetched = 16;        // messages that are kept ready
constexpr uint64_t first_frames_bytes = 64 << 10;  // while it may still move: not before the frame is over
constexpr unsigned looks_between = 64;     // at the way, which costs a system call
constexpr double rest_of_the_killed_s = 0.1;  // a message of which a part had come when its sender was killed may never be whole
constexpr uint64_t told_after = FabricStream::window_bytes / 4;

uint64_t random_tag() {
  uint64_t tag = 0;
  if (getrandom(&tag, sizeof(tag), 0) != static_cast<ssize_t>(sizeof(tag))) tag = static_cast<uint64_t>(now_ns());
  return tag;
}

Channel::Sent bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

// The first so many bytes of two parts in a row.
std::pair<Channel::Sent, Channel::Sent> first_of(Channel::Sent first, Channel::Sent second, size_t bytes) {
  const size_t of_first = std::min(first.size(), bytes);
  return {first.first(of_first), second.first(std::min(second.size(), bytes - of_first))};
}

}  // namespace

Status check_fabric_frame(const FabricFrame& frame, const FabricHeard& heard) {
  using Kind = FabricFrame::Kind;
  const auto can_be = [&] {
    if (heard.ended) return false;
    if (frame.kind == Kind::hello) return !heard.hello && frame.bytes <= most_fabric_address_bytes;
    if (!heard.hello) return false;  // it comes first
    if (frame.kind == Kind::data) return !heard.moved && frame.bytes > 0 && frame.bytes <= most_fabric_data_bytes && frame.number == 0;
    if (frame.bytes != 0) return false;
    if (frame.kind == Kind::moves) return !heard.moved && frame.number == 0;
    if (frame.kind == Kind::took) return frame.number > heard.taken && frame.number <= heard.sent;
    return frame.kind == Kind::ended && (heard.moved || frame.number == 0);
  };
  if (can_be()) return Status::success();
  return {ErrorCode::protocol, fmt::format("it sent a frame of kind {}, {} bytes and number {} beside its fabric, which cannot be there", static_cast<uint32_t>(frame.kind), frame.bytes, frame.number)};
}

FabricStream::FabricStream(Fabric& fabric, std::unique_ptr<Stream> way, double rest_within_s) : fabric_(fabric), way_(std::move(way)), tag_(random_tag()), rest_within_s_(rest_within_s) {
  messages_.reserve(most_fetched);  // where memory runs out nothing that came is lost
  words_.reserve(2 * fabric_frame_bytes);
}

void FabricStream::say(FabricFrame::Kind kind, uint64_t number, std::string_view rest) {
  const FabricFrame frame{.kind = kind, .bytes = static_cast<uint32_t>(rest.size()), .number = number};
  words_.append(reinterpret_cast<const char*>(&frame), sizeof(frame));
  words_ += rest;
}

// True when none are left.
bool FabricStream::push_words() {
  if (words_.empty()) return true;
  if (way_left_ > 0) return false;  // the rest of a frame of data comes first
  words_.erase(0, static_cast<size_t>(way_->write(bytes_of(words_), {})));
  return words_.empty();
}

void FabricStream::say_hello() {
  if (std::exchange(said_hello_, true)) return;
  say(FabricFrame::Kind::hello, tag_, fabric_.address());
}

// True when a head is whole.
bool FabricStream::hear_head() {
  const auto all = std::as_writable_bytes(std::span(&in_, 1));
  in_moved_ += static_cast<size_t>(way_->read(all.subspan(in_moved_)));
  if (in_moved_ < all.size()) return false;
  in_moved_ = 0;
  state_ = check_fabric_frame(in_, heard_);
  return state_.ok();
}

void FabricStream::heard_all_of_hello() {
  say_hello();
  heard_.hello = true;
  if (their_address_.empty() || fabric_.address().empty()) return;
  auto reached = fabric_.reach(their_address_);
  if (!reached.ok()) return;  // which it has told the user
  moves_soon_ = true;
  peer_ = std::move(*reached);
}

// Frames, as far as they have come, up to one of data. What follows that is for who reads.
void FabricStream::hear() {
  using Kind = FabricFrame::Kind;
  while (state_.ok()) {
    if (in_left_ > 0 && in_.kind == Kind::hello) {
      char piece[1024];
      const auto count = static_cast<size_t>(way_->read(std::as_writable_bytes(std::span(piece).first(std::min(in_left_, sizeof(piece))))));
      their_address_.append(piece, count);
      in_left_ -= count;
      if (count == 0) return;
      if (in_left_ == 0) heard_all_of_hello();
      continue;
    }
    if (in_left_ > 0 || !hear_head()) return;
    in_left_ = in_.bytes;
    if (in_.kind == Kind::hello) their_tag_ = in_.number;
    if (in_.kind == Kind::hello) their_address_.reserve(in_left_);
    if (in_.kind == Kind::hello && in_left_ == 0) heard_all_of_hello();
    if (in_.kind == Kind::moves) heard_.moved = true;
    if (in_.kind == Kind::took) heard_.taken = in_.number;
    if (in_.kind == Kind::ended) heard_.ended = true;
    if (in_.kind == Kind::ended) ends_at_ = in_.number;
  }
}

int64_t FabricStream::write(Channel::Sent first, Channel::Sent second) {
  if (!state_.ok() || closed_) return 0;
  say_hello();
  if (!heard_.hello) hear();
  if (moves_soon_ && way_left_ == 0) {
    say(FabricFrame::Kind::moves, 0);
    moves_soon_ = false;
  }
  if (!sends_by_fabric()) return write_by_way(first, second);
  return push_words() ? write_by_fabric(first, second) : 0;
}

// The head of a frame goes with what it carries.
int64_t FabricStream::write_by_way(Channel::Sent first, Channel::Sent second) {
  if (way_left_ == 0) {
    if (!push_words()) return 0;
    way_left_ = std::min<uint64_t>(first.size() + second.size(), heard_.hello ? most_fabric_data_bytes : first_frames_bytes);
    const FabricFrame frame{.kind = FabricFrame::Kind::data, .bytes = static_cast<uint32_t>(way_left_), .number = 0};
    head_.assign(reinterpret_cast<const char*>(&frame), sizeof(frame));
  }
  const auto [begin, rest] = first_of(first, second, way_left_);
  const size_t heads = head_.size();
  if (heads > 0) head_.append(reinterpret_cast<const char*>(begin.data()), begin.size());
  const auto gone = static_cast<size_t>(heads > 0 ? way_->write(bytes_of(head_), rest) : way_->write(begin, rest));
  head_.resize(heads);  // none of this takes memory: the bytes have gone
  head_.erase(0, std::min(gone, heads));
  const size_t count = gone - std::min(gone, heads);
  way_left_ -= count;
  if (!way_->state().ok()) judge_end(way_->state());
  return static_cast<int64_t>(count);
}

int64_t FabricStream::write_by_fabric(Channel::Sent first, Channel::Sent second) {
  const size_t all = first.size() + second.size();
  size_t count = 0;
  while (count < all && peer_->state().ok()) {
    if (window_bytes - (heard_.sent - heard_.taken) < std::min(all - count, FabricMessage::most_bytes)) hear();
    const size_t room = window_bytes - (heard_.sent - heard_.taken);
    const auto [begin, rest] = first_of(first.subspan(std::min(count, first.size())), second.subspan(std::max(count, first.size()) - first.size()), std::min(room, FabricMessage::most_bytes));
    const size_t bytes = begin.size() + rest.size();
    if (bytes == 0) break;
    state_ = fabric_.send(*peer_, their_tag_, begin, rest);
    if (!state_.ok()) return static_cast<int64_t>(count);
    heard_.sent += bytes;
    count += bytes;
  }
  if (!peer_->state().ok()) judge_end(peer_->state());
  else if (count == 0 && !way_->state().ok()) judge_end(way_->state());
  return static_cast<int64_t>(count);
}

void FabricStream::fetch() {
  while (messages_.size() < most_fetched) {
    auto message = fabric_.receive(tag_);
    if (!message) return;
    messages_.push_back(std::move(message));
  }
}

// What was sent before the end counts.
void FabricStream::judge_end(const Status& why) {
  if (heard_.moved) fetch();
  const bool more_may_come = !messages_.empty() || (heard_.ended && came_ < ends_at_);
  if (more_may_come && rest_by_.at_ns == never_ns) rest_by_ = Deadline::in_seconds(heard_.ended ? rest_within_s_ : std::min(rest_within_s_, rest_of_the_killed_s));
  const bool is_whole = !messages_.empty() && messages_.front()->state != FabricMessage::State::flying;
  if (is_whole || (more_may_come && !rest_by_.passed())) return;
  state_ = why;
  if (peer_ && !heard_.ended) peer_->lost();
}

int64_t FabricStream::read(std::span<std::byte> target) {
  if (!state_.ok() || closed_) return 0;
  if (heard_.moved) return read_by_fabric(target);
  hear();
  push_words();
  if (heard_.moved) return read_by_fabric(target);
  if (!state_.ok()) return 0;
  const bool is_data = in_left_ > 0 && in_.kind == FabricFrame::Kind::data;
  const int64_t count = is_data ? way_->read(target.first(std::min<uint64_t>(target.size(), in_left_))) : 0;
  in_left_ -= static_cast<uint64_t>(count);
  if (count == 0 && !way_->state().ok()) judge_end(way_->state());
  return count;
}

int64_t FabricStream::read_by_fabric(std::span<std::byte> target) {
  fetch();
  size_t count = 0;
  while (!messages_.empty() && count < target.size() && messages_.front()->state != FabricMessage::State::flying) {
    const FabricMessage& first = *messages_.front();
    if (first.state == FabricMessage::State::failed) {
      state_ = {ErrorCode::peer_lost, "what it sent by the fabric did not come whole"};
      break;
    }
    const size_t bytes = std::min(first.bytes - read_of_first_, target.size() - count);
    std::memcpy(target.data() + count, first.data.data() + read_of_first_, bytes);
    read_of_first_ += bytes;
    count += bytes;
    if (read_of_first_ < first.bytes) continue;
    fabric_.give_back(std::move(messages_.front()));
    messages_.erase(messages_.begin());
    read_of_first_ = 0;
  }
  came_ += count;
  if (count > 0) looks_ = 0;
  if (came_ - told_ >= told_after && words_.empty()) {
    say(FabricFrame::Kind::took, came_);
    told_ = came_;
  }
  if (!words_.empty()) push_words();
  if (count == 0) look_around();
  return static_cast<int64_t>(count);
}

// Nothing has come by the fabric.
void FabricStream::look_around() {
  if (peer_ && !peer_->state().ok()) judge_end(peer_->state());
  if (++looks_ % looks_between != 0 && !std::exchange(looks_at_way_, false)) return;
  hear();
  if (heard_.ended && came_ == ends_at_) state_ = {ErrorCode::peer_lost, "the other end of its connection was closed"};
  else if (!way_->state().ok()) judge_end(way_->state());
}

void FabricStream::arm(bool to_write, bool to_read) {
  if (!state_.ok() || closed_) return;
  looks_at_way_ = true;
  const bool has_words = !words_.empty() || !head_.empty();
  way_->arm(has_words || (to_write && !sends_by_fabric()), to_read || in_left_ == 0);
  if (sends_by_fabric() || heard_.moved) fabric_.arm();
}

// The fabric takes leave of those whom it can reach and who are there: who the other is, and that it has gone, may not have been heard yet.
void FabricStream::look_once_more() {
  if (state_.ok()) hear();
  if (peer_ && !way_->state().ok() && !heard_.ended) peer_->lost();
}

void FabricStream::close() {
  if (std::exchange(closed_, true) || fabric_.is_in_child()) return;
  static_cast<void>(or_out_of_memory([this] { return look_once_more(), Status::success(); }).ok());
  if (said_hello_ && way_left_ == 0 && state_.ok() && words_.empty()) {
    say(FabricFrame::Kind::ended, heard_.sent);
    push_words();
  }
  while (auto unread = heard_.moved ? fabric_.receive(tag_) : nullptr) fabric_.give_back(std::move(unread));  // else UCX keeps it as long as it lives
  for (auto& message : messages_) fabric_.give_back(std::move(message));
  messages_.clear();
  peer_.reset();
  way_->close();
}

}  // namespace unisono
