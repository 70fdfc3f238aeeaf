// One ordered stream of bytes over several connections, for networks that give one connection less than the wire has.
//
// What is posted is cut into stripes. A stripe goes to whichever connection takes it, behind a head that says where in the stream it belongs; at the
// other end it goes into its place, in whatever order stripes come. One that lies behind what is being received stays where it is, in the kernel,
// and never holds up the one that is awaited: that one is at the front of its own connection, or will be.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "transport/stream.hpp"

namespace unisono {

class StripedChannel final : public Channel {
 public:
  explicit StripedChannel(std::vector<std::unique_ptr<Stream>> streams);

  Status open() override;
  void post_send(Sent head, Sent body) override;
  void post_receive(std::span<std::byte> target) override;
  bool turn() override;
  void arm() override;
  void drop() override;
  void close() override;
  void finish() override;
  bool holds_more() override;
  Status state() const override;

  struct Head {
    uint64_t at = 0;  // in the stream
    uint32_t bytes = 0;
    uint32_t zero = 0;
  };

 private:
  struct Posted {
    std::byte head[most_head_bytes];
    Sent body;
    uint64_t head_bytes, left;  // left: of both together, until all of them are gone
    uint64_t begins_at;         // in the stream

    uint64_t bytes() const { return head_bytes + body.size(); }
  };
  // The stripe that a connection is in the middle of; of none, `head.bytes` is 0.
  struct Stripe {
    Head head;
    uint64_t moved = 0;  // of its head and its bytes
  };
  struct Connection {
    std::unique_ptr<Stream> stream;
    Stripe out, in;

    bool is_halfway() const { return out.head.bytes != 0 || in.moved != 0; }
  };
  bool send_some();
  bool push(Connection& connection, Stripe& stripe);
  Posted& posted_at(uint64_t at);
  bool receive_some(Connection& connection);
  bool take_head(Connection& connection);

  std::vector<Connection> connections_;
  size_t next_ = 0;           // whose turn it is to take a stripe
  std::deque<Posted> queue_;  // of which something is not gone
  uint64_t cut_ = 0, end_ = 0;  // of the stream to the other end: so far it has been cut into stripes, and so long it is
  std::span<std::byte> target_;
  uint64_t begins_at_ = 0, came_ = 0;  // of the target: where it lies in the stream, and how much of it there is
  bool dropped_ = false;
  Status state_;
};

}  // namespace unisono
