// Bytes to another rank and back through TCP connections. See sockets.hpp.
//
// Whoever has something to send first connects, and the other end answers on the same connection. Where both begin at once there are
// two, and each carries one direction: a rank writes to the one that it found or made first, and reads from whichever the other writes to.
//
// Where only one of the two can reach the other (a firewall, NAT), that one connects as soon as it wants to send or to receive, and the other waits for it.
#pragma once

#include "transport/connecting.hpp"
#include "transport/stream.hpp"

namespace unisono {

class SocketStream final : public Stream {
 public:
  struct Ends {
    SocketKey mine, theirs;  // what a connection is for that this rank opens, and the other
    Whereabouts there;       // where the other listens
  };
  SocketStream(Sockets& sockets, const Ends& ends) : sockets_(sockets), ends_(ends) {}

  Status open() override { return Status::success(); }
  ~SocketStream() override { close(); }
  void close() override;
  int64_t write(Channel::Sent first, Channel::Sent second) override;
  int64_t read(std::span<std::byte> target) override;
  void arm(bool to_write, bool to_read) override;
  void finish() override { close(); }  // nobody reads any more either
  bool holds_more() override;  // until its end is seen
  bool is_delivered() const override;
  Status state() const override { return state_; }

 private:
  bool may_write();
  void connect();
  bool has_arrived();
  int64_t read_from(const Wire& wire, std::span<std::byte> target, bool& ended);
  int64_t take_ahead(std::span<std::byte> target);
  bool has_unread() const;
  void look_at_other();

  Sockets& sockets_;
  Ends ends_;
  std::unique_ptr<Connecting> connecting_;  // of the one that this rank makes
  Wire made_, came_;                  // by this rank, by the other
  const Wire* out_ = nullptr;         // the one of them that this rank writes to, or will; null: none yet
  const Wire* in_ = nullptr;          // the one that it reads from
  bool closed_ = false;
  // What came with the last short read: the head of a frame and what follows it are one call of the kernel's.
  std::byte ahead_[8192];
  size_t ahead_begin_ = 0, ahead_end_ = 0;
  Status unwritable_;  // what came before can still be read
  Status state_;
};

}  // namespace unisono
