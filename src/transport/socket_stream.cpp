// See socket_stream.hpp. Whoever is gone is told from elsewhere; a connection only says that nothing more will come.
#include "transport/socket_stream.hpp"

#include <fmt/core.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>

namespace unisono {

// The first bytes say what the connection is for.
bool SocketStream::is_connected() {
  if (!state_.ok()) return false;
  if (!socket_) {
    socket_ = port_ != 0 ? sockets_.connect(port_) : sockets_.arrived(key_);
    if (!socket_ && port_ != 0) moved(-1, "connecting");
    if (!socket_) return false;
    if (port_ != 0) sockets_.watch(socket_.number());
    if (port_ == 0) said_ = sizeof(key_);
  }
  if (said_ == sizeof(key_)) return true;
  const ssize_t count = ::send(socket_.number(), reinterpret_cast<const std::byte*>(&key_) + said_, sizeof(key_) - said_, MSG_NOSIGNAL);
  said_ += static_cast<size_t>(moved(count, "connecting"));
  return said_ == sizeof(key_);
}

int64_t SocketStream::moved(ssize_t count, const char* how) {
  if (count >= 0) return count;
  if (errno != EAGAIN && errno != EINTR && errno != ENOTCONN)
    state_ = {ErrorCode::peer_lost, fmt::format("{} ended with \"{}\"", how, std::strerror(errno))};
  return 0;
}

int64_t SocketStream::write(Channel::Sent first, Channel::Sent second) {
  if (!is_connected()) return 0;
  auto part = [](Channel::Sent bytes) { return iovec{const_cast<std::byte*>(bytes.data()), bytes.size()}; };
  iovec parts[] = {part(first), part(second)};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  return moved(sendmsg(socket_.number(), &message, MSG_NOSIGNAL), "sending");
}

int64_t SocketStream::read(std::span<std::byte> target) {
  if (!is_connected()) return 0;
  const ssize_t count = recv(socket_.number(), target.data(), target.size(), 0);
  if (count == 0) state_ = {ErrorCode::peer_lost, "the other end of its connection was closed"};
  return moved(count, "receiving");
}

void SocketStream::finish() {
  if (socket_) shutdown(socket_.number(), SHUT_WR);
}

void SocketStream::close() {
  finish();
  sockets_.leave(std::move(socket_));
}

void SocketStream::arm(bool to_write, bool to_read) {
  if (!state_.ok()) return;
  if (!socket_) return sockets_.arm_listener();
  const bool connecting = said_ < sizeof(key_);
  sockets_.arm(socket_.number(), (to_read ? Sockets::readable : 0u) | (to_write || connecting ? Sockets::writable : 0u));
}

}  // namespace unisono
