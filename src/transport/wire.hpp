// An open connection, plain or in TLS: as many bytes as go at once. A resource, moved; as send() and recv(), with errno.
#pragma once

#include <memory>
#include <span>

#include "base/descriptor.hpp"
#include "trust/tls.hpp"

namespace unisono {

class Wire {
 public:
  Wire() = default;
  explicit Wire(Descriptor socket, std::unique_ptr<Tls> tls = nullptr) : socket_(std::move(socket)), tls_(std::move(tls)) {}

  explicit operator bool() const { return static_cast<bool>(socket_); }
  int number() const { return socket_.number(); }
  int64_t send(std::span<const std::byte> first, std::span<const std::byte> second) const;  // of both, in a row
  int64_t receive(std::span<std::byte> target) const;                                        // 0: the other end has closed
  bool holds_bytes() const;
  bool wants_to_write() const { return tls_ && tls_->wants_to_write(); }  // also in order to go on reading
  Descriptor let_go();  // nothing more is sent or received by it

 private:
  Descriptor socket_;
  std::unique_ptr<Tls> tls_;  // before the socket goes
};

}  // namespace unisono
