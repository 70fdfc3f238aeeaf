// Bytes to another rank and back, as a transport moves them: as many as go at once. What is posted and kept in order stands above it,
// in StreamChannel, so that a transport is these few functions.
#pragma once

#include <deque>
#include <memory>

#include "transport/channel.hpp"

namespace unisono {

class Stream {
 public:
  Stream() = default;
  Stream(const Stream&) = delete;
  virtual ~Stream() = default;

  virtual Status open() = 0;   // see Channel
  virtual void close() = 0;
  virtual int64_t write(Channel::Sent first, Channel::Sent second) = 0;  // of both, in a row; how much went
  virtual int64_t read(std::span<std::byte> target) = 0;                 // how much came
  virtual void arm(bool to_write, bool to_read) = 0;  // see Channel
  virtual void finish() = 0;
  virtual bool holds_more() = 0;
  virtual bool is_delivered() const { return true; }
  virtual Status state() const = 0;
};

class StreamChannel final : public Channel {
 public:
  explicit StreamChannel(std::unique_ptr<Stream> stream) : stream_(std::move(stream)) {}

  Status open() override { return stream_->open(); }
  void post_send(Sent head, Sent body) override;
  void post_receive(std::span<std::byte> target) override;
  bool turn() override;
  void arm() override { stream_->arm(sending(), receiving()); }
  void drop() override;
  void close() override { stream_->close(); }
  void finish() override { stream_->finish(); }
  bool holds_more() override { return stream_->holds_more(); }
  bool is_delivered() const override { return stream_->is_delivered(); }
  Status state() const override { return stream_->state(); }
  int64_t unsent_bytes() const override;
  int64_t unreceived_bytes() const override { return static_cast<int64_t>(target_.size()); }

 private:
  struct Posted {
    std::byte head[most_head_bytes];
    Sent body;
    size_t head_bytes, moved = 0;  // of both together

    int64_t bytes() const { return static_cast<int64_t>(head_bytes + body.size()); }
  };
  bool push(Posted& posted);

  std::unique_ptr<Stream> stream_;
  std::deque<Posted> queue_;  // those that did not go at once
  std::span<std::byte> target_;  // what is left of it
  bool dropped_ = false;
};

}  // namespace unisono
