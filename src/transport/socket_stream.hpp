// Bytes to another rank and back through one TCP connection on the loopback interface. See sockets.hpp.
#pragma once

#include "transport/sockets.hpp"
#include "transport/stream.hpp"

namespace unisono {

class SocketStream final : public Stream {
 public:
  SocketStream(Sockets& sockets, const SocketKey& key, int connect_to_port)  // 0: the other end connects
      : sockets_(sockets), key_(key), port_(connect_to_port) {}

  Status open() override { return Status::success(); }
  ~SocketStream() override { close(); }
  void close() override;
  int64_t write(Channel::Sent first, Channel::Sent second) override;
  int64_t read(std::span<std::byte> target) override;
  void arm(bool to_write, bool to_read) override;
  void finish() override;
  bool holds_more() override { return state_.ok() && is_connected(); }  // until its end is seen
  Status state() const override { return state_; }

 private:
  bool is_connected();
  int64_t moved(ssize_t count, const char* how);

  Sockets& sockets_;
  SocketKey key_;
  int port_;
  Descriptor socket_;
  size_t said_ = 0;  // bytes of the key
  Status state_;
};

}  // namespace unisono
