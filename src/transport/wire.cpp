// See wire.hpp.
#include "transport/wire.hpp"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>

namespace unisono {
namespace {

constexpr size_t short_bytes = 512;  // a copy costs less than telling the kernel of two places

// Of what TLS could not do now, as the kernel would say it.
int64_t would_block_or(const Tls& tls, int64_t ended) {
  if (tls.has_ended()) return ended;
  errno = tls.state().ok() ? EAGAIN : ECONNRESET;
  return -1;
}

}  // namespace

int64_t Wire::send(std::span<const std::byte> first, std::span<const std::byte> second) const {
  if (tls_) {
    int64_t sent = tls_->write(first);
    if (sent == static_cast<int64_t>(first.size()) && !second.empty()) sent += tls_->write(second);
    return sent > 0 || (first.empty() && second.empty()) ? sent : would_block_or(*tls_, -1);
  }
  std::byte both[short_bytes];
  if (first.size() + second.size() <= sizeof(both)) {
    std::ranges::copy(second, std::ranges::copy(first, both).out);
    return ::send(socket_.number(), both, first.size() + second.size(), MSG_NOSIGNAL);
  }
  auto part = [](std::span<const std::byte> bytes) { return iovec{const_cast<std::byte*>(bytes.data()), bytes.size()}; };
  iovec parts[] = {part(first), part(second)};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  return sendmsg(socket_.number(), &message, MSG_NOSIGNAL);
}

int64_t Wire::receive(std::span<std::byte> target) const {
  if (!tls_) return recv(socket_.number(), target.data(), target.size(), 0);
  const int64_t count = tls_->read(target);
  return count > 0 ? count : would_block_or(*tls_, 0);
}

bool Wire::holds_bytes() const {
  std::byte byte;
  return socket_ && ((tls_ && tls_->holds_bytes()) || recv(socket_.number(), &byte, 1, MSG_PEEK) > 0);
}

Descriptor Wire::let_go() {
  tls_.reset();
  return std::move(socket_);
}

}  // namespace unisono
