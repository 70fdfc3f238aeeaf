// One ordered stream of bytes over several connections, for networks that give one connection less than the wire has.
//
// What is posted is cut into stripes. A stripe goes to whichever connection takes it, behind a head that says where in the stream it belongs; at the
// other end it goes into its place.
//
// The other end takes heads in the order of the stream and nothing else in order: the bytes of all stripes whose heads it has come in as they are
// there. So every place of the stream is given to one stripe, and one number says how far that went: what lies before it came twice. A stripe whose head
// comes early stays where it is, in the kernel, and never holds up the one that is awaited: that one is at the front of its own connection, or will be.
#pragma once

#include <bit>
#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include "base/sizes.hpp"
#include "transport/stream.hpp"

namespace unisono {

// What stands in front of every stripe. It travels between machines as it lies here, and is received where it is read; docs/wire_format.md has every byte.
struct StripeHead {
  uint64_t at = 0;  // in the stream
  uint32_t bytes = 0;
  uint32_t unused = 0;
};
static_assert(std::endian::native == std::endian::little && sizeof(StripeHead) == 16);
static_assert(offsetof(StripeHead, bytes) == 8 && offsetof(StripeHead, unused) == 12);

inline constexpr uint64_t most_in_a_stripe = 256_KiB;

Status check_stripe(const StripeHead& head);  // by itself; whether its place is still free is the receiver's to know

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
  int64_t unsent_bytes() const override;
  int64_t unreceived_bytes() const override { return static_cast<int64_t>(target_.size() - came_); }

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
    StripeHead head;
    uint64_t moved = 0;      // of its head and its bytes
    bool has_place = false;  // one that comes, once it is its turn in the stream
  };
  struct Connection {
    std::unique_ptr<Stream> stream;
    Stripe out, in;

    bool is_halfway() const { return out.head.bytes != 0 || in.moved != 0; }
  };
  bool send_some();
  bool push(Connection& connection, Stripe& stripe);
  Posted& posted_at(uint64_t at);
  bool receive_from(Connection& connection);
  bool receive_some(Connection& connection);
  bool take_head(Connection& connection);
  bool is_early(const Stripe& in) const;
  bool is_due(const Stripe& in) const;

  std::vector<Connection> connections_;
  size_t next_ = 0;           // whose turn it is to take a stripe
  std::deque<Posted> queue_;  // of which something is not gone
  uint64_t cut_ = 0, end_ = 0;  // of the stream to the other end: so far it has been cut into stripes, and so long it is
  std::span<std::byte> target_;
  uint64_t begins_at_ = 0, came_ = 0;  // of the target: where it lies in the stream, and how much of it there is
  uint64_t given_ = 0;                 // of the stream from the other end: as far as its places have been given to stripes
  bool dropped_ = false;
  Status state_;
};

}  // namespace unisono
