// The system calls behind local_socket.hpp. Next: rendezvous/join.cpp, which speaks over them.
#include "transport/local_socket.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.hpp"
#include "base/interrupt.hpp"

namespace unisono {
namespace {

constexpr size_t most_descriptors = 4;

Status failed(const char* what) {
  return {ErrorCode::resource, fmt::format("{}: {}", what, std::strerror(errno))};
}

struct AbstractAddress {
  sockaddr_un address = {};
  socklen_t bytes = 0;
};

AbstractAddress abstract_address(const std::string& name) {
  AbstractAddress result;
  result.address.sun_family = AF_UNIX;
  CHECK(name.size() + 1 < sizeof(result.address.sun_path));
  std::memcpy(result.address.sun_path + 1, name.data(), name.size());  // a leading zero byte makes it abstract
  result.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return result;
}

}  // namespace

Result<ListenOutcome> listen_at(const std::string& name) {
  Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return failed("a socket for joining");
  AbstractAddress at = abstract_address(name);
  if (bind(socket.number(), reinterpret_cast<sockaddr*>(&at.address), at.bytes) != 0) {
    if (errno == EADDRINUSE) return ListenOutcome{Attempt::taken, {}};
    return failed("binding the meeting place");
  }
  if (listen(socket.number(), 4096) != 0) return failed("listening at the meeting place");
  return ListenOutcome{Attempt::done, std::move(socket)};
}

Result<ListenOutcome> connect_to(const std::string& name) {
  Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return failed("a socket for joining");
  AbstractAddress at = abstract_address(name);
  if (connect(socket.number(), reinterpret_cast<sockaddr*>(&at.address), at.bytes) == 0)
    return ListenOutcome{Attempt::done, std::move(socket)};
  if (errno == ECONNREFUSED || errno == EAGAIN || errno == EINTR) return ListenOutcome{Attempt::unavailable, {}};
  return failed("connecting to the meeting place");
}

void stop_listening(const Descriptor& listener) {
  if (listener) shutdown(listener.number(), SHUT_RDWR);
}

Descriptor accept_from(const Descriptor& listener) {
  return Descriptor(accept4(listener.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

Result<PeerIdentity> identity_of(const Descriptor& socket) {
  ucred credentials = {};
  socklen_t bytes = sizeof(credentials);
  if (getsockopt(socket.number(), SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0)
    return failed("asking who the peer is");
  return PeerIdentity{credentials.pid, credentials.uid};
}

Status send_message(const Descriptor& socket, std::span<const std::byte> bytes, std::span<const int> descriptors) {
  CHECK(descriptors.size() <= most_descriptors);
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) char room[CMSG_SPACE(most_descriptors * sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = room;
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
  }
  while (sendmsg(socket.number(), &message, MSG_NOSIGNAL) < 0) {
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return {ErrorCode::peer_lost, fmt::format("sending while joining: {}", std::strerror(errno))};
    pollfd waiting{socket.number(), POLLOUT, 0};
    poll(&waiting, 1, 1000);
  }
  return Status::success();
}

Result<Received> receive_message(const Descriptor& socket, std::span<std::byte> bytes) {
  iovec part{bytes.data(), bytes.size()};
  alignas(cmsghdr) char room[CMSG_SPACE(most_descriptors * sizeof(int))];
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = room;
  message.msg_controllen = sizeof(room);
  ssize_t received;
  bool reset = false;  // the peer closed without having read all that we said; what it said before is still there
  do received = recvmsg(socket.number(), &message, MSG_CMSG_CLOEXEC);
  while (received < 0 && (errno == EINTR || (errno == ECONNRESET && !std::exchange(reset, true))));
  if (received < 0 && errno == ECONNRESET) return Received{};
  if (received < 0) return failed("receiving while joining");
  Received result;
  result.bytes = static_cast<size_t>(received);
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t index = 0; index < count; ++index) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(header) + index * sizeof(int), sizeof(int));
      result.descriptors.emplace_back(number);
    }
  }
  if (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
    return Status(ErrorCode::protocol, "a joining message is longer than it may be, or lost its descriptors "
                                       "(is the limit of open files reached?)");
  return result;
}

Readable wait_readable(const Descriptor& socket, const Deadline& deadline) {
  InterruptWatch interrupts;
  while (true) {
    int64_t remaining = deadline.remaining_ns();
    if (remaining <= 0) return Readable::late;
    if (interrupts.tripped()) return Readable::interrupted;
    pollfd waiting{socket.number(), POLLIN, 0};
    int milliseconds = static_cast<int>(std::min<int64_t>(remaining / 1'000'000 + 1, 100));
    if (poll(&waiting, 1, milliseconds) > 0) return Readable::yes;
  }
}

}  // namespace unisono
