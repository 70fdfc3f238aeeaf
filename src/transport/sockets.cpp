// See sockets.hpp.
#include "transport/sockets.hpp"

#include <fmt/core.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

#include "base/check.hpp"
#include "base/shortage.hpp"

namespace unisono {
namespace {

constexpr size_t most_early_guests = 1024;

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// Reads away what came, and asks whether the other end's kernel has all that was sent, or never will.
bool all_is_there(int socket) {
  std::byte unread[4096];
  for (int pieces = 0; pieces < 1024 && recv(socket, unread, sizeof(unread), 0) > 0;) ++pieces;
  tcp_info info = {};
  socklen_t length = sizeof(info);
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) != 0 || info.tcpi_state == TCP_CLOSE) return true;
  int unacknowledged = 0;
  return ioctl(socket, SIOCOUTQ, &unacknowledged) != 0 || unacknowledged == 0;
}

Status no_sockets(const char* what) {
  return {ErrorCode::resource, fmt::format("sockets on the loopback interface: {}: {}", what, std::strerror(errno))};
}

}  // namespace

Result<std::unique_ptr<Sockets>> Sockets::open(int64_t send_buffer_bytes) {
  std::unique_ptr<Sockets> sockets(new Sockets(send_buffer_bytes));
  if (Status status = sockets->listen(); !status.ok()) return status;
  return sockets;
}

Sockets::~Sockets() {
  if (!is_in_child_) finish_left();
}

Status Sockets::listen() {
  constexpr int backlog = 128;
  listener_ = Descriptor(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!listener_) return no_sockets("socket");
  sockaddr_in address = loopback(0);
  if (bind(listener_.number(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) return no_sockets("bind");
  if (::listen(listener_.number(), backlog) != 0) return no_sockets("listen");
  socklen_t length = sizeof(address);
  if (getsockname(listener_.number(), reinterpret_cast<sockaddr*>(&address), &length) != 0) return no_sockets("getsockname");
  port_ = ntohs(address.sin_port);
  epoll_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return no_sockets("epoll_create1");
  watch(listener_.number());
  others_ = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!others_) return no_sockets("eventfd");
  epoll_event event{EPOLLIN, {.fd = others_.number()}};
  if (epoll_ctl(epoll_.number(), EPOLL_CTL_ADD, others_.number(), &event) != 0) return no_sockets("epoll_ctl");
  return Status::success();
}

void Sockets::prepare(int socket) const {
  const int on = 1, bytes = static_cast<int>(send_buffer_bytes_);
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  if (bytes > 0) setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
}

Descriptor Sockets::connect(int port) const {
  Descriptor connection(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!connection) return connection;
  prepare(connection.number());
  const sockaddr_in address = loopback(port);
  if (::connect(connection.number(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 && errno != EINPROGRESS)
    return Descriptor();
  return connection;
}

// Lets in who is there, and hears what they say they are for. True when somebody said so just now.
bool Sockets::welcome() {
  bool somebody = false;
  while (guests_.size() < most_early_guests) {
    Descriptor guest(accept4(listener_.number(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    lacks_descriptors_ = !guest && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS);
    if (!guest) break;
    prepare(guest.number());
    watch(guest.number());
    guests_.push_back({std::move(guest), {}, 0});
  }
  for (auto guest = guests_.begin(); guest != guests_.end();) {
    bool ended = false;
    if (guest->heard < sizeof(SocketKey)) {
      auto* key = reinterpret_cast<std::byte*>(&guest->key);
      const ssize_t count = recv(guest->socket.number(), key + guest->heard, sizeof(SocketKey) - guest->heard, 0);
      if (count > 0) guest->heard += static_cast<size_t>(count);
      somebody |= guest->heard == sizeof(SocketKey);
      ended = count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR);
    }
    ended |= guest->heard == sizeof(SocketKey) && !is_wanted(*guest);
    guest = ended ? guests_.erase(guest) : std::next(guest);
  }
  return somebody;
}

Descriptor Sockets::arrived(const SocketKey& key) {
  std::lock_guard lock(mutex_);
  if (welcome()) {
    constexpr uint64_t one = 1;
    static_cast<void>(!write(others_.number(), &one, sizeof(one)));  // full: it is readable
  }
  for (auto guest = guests_.begin(); guest != guests_.end(); ++guest) {
    if (guest->heard < sizeof(SocketKey)) arm(guest->socket.number(), readable);
    if (guest->heard < sizeof(SocketKey) || guest->key != key) continue;
    Descriptor socket = std::move(guest->socket);
    guests_.erase(guest);
    return socket;
  }
  return Descriptor();
}

bool Sockets::is_wanted(const Guest& guest) const {
  return guest.key.token == token_ && (guest.key.group == 0 || expected_.contains(guest.key.group));
}

void Sockets::expect(uint64_t group) {
  std::lock_guard lock(mutex_);
  expected_.insert(group);
}

void Sockets::forget(uint64_t group) {
  std::lock_guard lock(mutex_);
  expected_.erase(group);
  welcome();
}

void Sockets::leave(Descriptor socket, Descriptor after_it) {
  constexpr double patience_s = 2;
  if (!socket) socket = std::move(after_it);
  if (!socket) return;
  shutdown(socket.number(), SHUT_WR);
  if (all_is_there(socket.number())) return;
  std::lock_guard lock(mutex_);
  static_cast<void>(or_out_of_memory([&] {  // else it is closed here and now
    left_.push_back({std::move(after_it), std::move(socket), Deadline::in_seconds(patience_s)});
    return Status::success();
  }).ok());
}

bool Sockets::look_after_left() {
  std::lock_guard lock(mutex_);
  left_.remove_if([](const Left& left) { return left.close_by.passed() || all_is_there(left.socket.number()); });
  return !left_.empty();
}

// Nothing announces that the last byte was acknowledged.
void Sockets::finish_left() {
  constexpr int look_again_ms = 1;
  while (look_after_left()) poll(nullptr, 0, look_again_ms);
}

void Sockets::watch(int socket) {
  epoll_event event{EPOLLONESHOT, {.fd = socket}};
  static_cast<void>(epoll_ctl(epoll_.number(), EPOLL_CTL_ADD, socket, &event));  // where it cannot be: sleepers look ten times a second
}

void Sockets::arm(int socket, uint32_t events) {
  const uint32_t wanted = (events & readable ? EPOLLIN : 0u) | (events & writable ? EPOLLOUT : 0u);
  epoll_event event{wanted | EPOLLONESHOT, {.fd = socket}};
  static_cast<void>(epoll_ctl(epoll_.number(), EPOLL_CTL_MOD, socket, &event));
}

void Sockets::rang() {
  epoll_event events[64];
  uint64_t count = 0;
  static_cast<void>(!read(others_.number(), &count, sizeof(count)));
  static_cast<void>(epoll_wait(epoll_.number(), events, std::size(events), 0));
}

void Sockets::close_in_child() {
  is_in_child_ = true;
  listener_.reset();
  epoll_.reset();
  others_.reset();
  guests_.clear();
  left_.clear();
}

}  // namespace unisono
