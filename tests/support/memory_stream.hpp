// A stream without a transport: what comes by it is what a test puts there, as far as the test lets it come. What is written goes nowhere.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "transport/striped_channel.hpp"

namespace unisono::testing {

class MemoryStream final : public Stream {
 public:
  std::string bytes;
  size_t allowed = SIZE_MAX;  // of them may come by now
  bool ends = false;          // behind them
  bool armed_to_read = false;

  size_t read_so_far() const { return at_; }

  Status open() override { return Status::success(); }
  void close() override {}
  int64_t write(Channel::Sent first, Channel::Sent second) override { return static_cast<int64_t>(first.size() + second.size()); }
  int64_t read(std::span<std::byte> target) override {
    const size_t count = std::min(target.size(), std::min(allowed, bytes.size()) - at_);
    std::memcpy(target.data(), bytes.data() + at_, count);
    at_ += count;
    ended_ |= count == 0 && ends && at_ == bytes.size();
    return static_cast<int64_t>(count);
  }
  void arm(bool, bool to_read) override { armed_to_read = to_read; }
  void finish() override {}
  bool holds_more() override { return !ended_; }
  Status state() const override { return ended_ ? Status(ErrorCode::peer_lost, "the stream has ended") : Status(); }

 private:
  size_t at_ = 0;
  bool ended_ = false;
};

// So many of them under one channel.
class StripedStreams {
 public:
  explicit StripedStreams(int count) {
    std::vector<std::unique_ptr<Stream>> streams;
    for (int number = 0; number < count; ++number) {
      auto stream = std::make_unique<MemoryStream>();
      streams_.push_back(stream.get());
      streams.push_back(std::move(stream));
    }
    channel_ = std::make_unique<StripedChannel>(std::move(streams));
  }
  StripedChannel& channel() { return *channel_; }
  MemoryStream& operator[](size_t number) { return *streams_[number]; }
  std::vector<MemoryStream*>& all() { return streams_; }

 private:
  std::vector<MemoryStream*> streams_;  // the channel's
  std::unique_ptr<StripedChannel> channel_;
};

inline std::string stripe_words(const StripeHead& head, const std::string& body) { return std::string(reinterpret_cast<const char*>(&head), sizeof(head)) + body; }

}  // namespace unisono::testing
