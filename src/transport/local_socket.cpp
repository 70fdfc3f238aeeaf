// The system calls behind local_socket.hpp. Next: rendezvous/join.cpp, which speaks over them.
#include "transport/local_socket.hpp"

#include <fcntl.h>
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

Result<SocketOutcome> listen_at(const std::string& name) {
  Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return failed("a socket for joining");
  AbstractAddress at = abstract_address(name);
  if (bind(socket.number(), reinterpret_cast<sockaddr*>(&at.address), at.bytes) != 0) {
    if (errno == EADDRINUSE) return SocketOutcome{Attempt::taken, {}};
    return failed("binding the meeting place");
  }
  if (listen(socket.number(), 4096) != 0) return failed("listening at the meeting place");
  return SocketOutcome{Attempt::done, std::move(socket)};
}

// Waiting a little in the kernel's line: who only looks whether there is room never gets in beside a process that connects all the
// time. Afterwards nothing on the socket waits.
Result<SocketOutcome> connect_to(const std::string& name) {
  Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket) return failed("a socket for joining");
  const timeval patience{0, 100'000};
  setsockopt(socket.number(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  AbstractAddress at = abstract_address(name);
  if (connect(socket.number(), reinterpret_cast<sockaddr*>(&at.address), at.bytes) == 0) {
    fcntl(socket.number(), F_SETFL, O_NONBLOCK);
    return SocketOutcome{Attempt::done, std::move(socket)};
  }
  if (errno == ECONNREFUSED || errno == EAGAIN || errno == EINTR) return SocketOutcome{Attempt::unavailable, {}};
  return failed("connecting to the meeting place");
}

void stop_listening(const Descriptor& listener) {
  if (listener) shutdown(listener.number(), SHUT_RDWR);
}

SocketOutcome accept_from(const Descriptor& listener) {
  Descriptor socket(accept4(listener.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket) return {Attempt::done, std::move(socket)};
  const bool exhausted = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
  return {exhausted ? Attempt::exhausted : Attempt::unavailable, {}};
}

Result<PeerIdentity> identity_of(const Descriptor& socket) {
  ucred credentials = {};
  socklen_t bytes = sizeof(credentials);
  if (getsockopt(socket.number(), SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0)
    return failed("asking who the peer is");
  return PeerIdentity{credentials.pid, credentials.uid};
}

// The kernel counts the descriptors that a user has sent and nobody has received yet, and refuses more than the user may open.
// They become fewer as the receivers come to take them; nothing announces it, so it is tried again soon.
Status send_message(const Descriptor& socket, const Outgoing& outgoing, const Deadline& deadline) {
  CHECK(outgoing.descriptors.size() <= most_descriptors);
  iovec part{const_cast<std::byte*>(outgoing.bytes.data()), outgoing.bytes.size()};
  alignas(cmsghdr) char room[CMSG_SPACE(most_descriptors * sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!outgoing.descriptors.empty()) {
    message.msg_control = room;
    message.msg_controllen = CMSG_SPACE(outgoing.descriptors.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(outgoing.descriptors.size_bytes());
    std::memcpy(CMSG_DATA(header), outgoing.descriptors.data(), outgoing.descriptors.size_bytes());
  }
  constexpr int look_again_ms = 1, slice_ms = 100;
  InterruptWatch interrupts;
  while (sendmsg(socket.number(), &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    const int error = errno;
    if (error == EINTR) continue;
    if (error != EAGAIN && error != ETOOMANYREFS)
      return {ErrorCode::peer_lost, fmt::format("sending while joining: {}", std::strerror(error))};
    if (interrupts.tripped()) return {ErrorCode::revoked, "interrupted while sending"};
    if (deadline.passed() && error == ETOOMANYREFS)
      return {ErrorCode::resource, "this user has as many descriptors on their way between processes as the kernel permits (ulimit -n), "
                                   "and nobody takes them"};
    if (deadline.passed()) return {ErrorCode::timeout, "the other side takes nothing"};
    pollfd waiting{socket.number(), POLLOUT, 0};
    if (error == EAGAIN)
      poll(&waiting, 1, slice_ms);
    else
      poll(nullptr, 0, look_again_ms);
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
    return message.msg_flags & MSG_CTRUNC
               ? Status(ErrorCode::resource, "there was no room for the descriptors of a joining message; is the limit of open files "
                                             "(ulimit -n) reached?")
               : Status(ErrorCode::protocol, "a joining message is longer than it may be");
  for (const Descriptor& descriptor : result.descriptors)  // moved up from the standard three in vain: see descriptor.hpp
    if (!descriptor) return Status(ErrorCode::resource, "no descriptor is left; raise the limit of open files (ulimit -n)");
  return result;
}

Readable wait_readable(int descriptor, const Deadline& deadline) {
  InterruptWatch interrupts;
  while (true) {
    int64_t remaining = deadline.remaining_ns();
    if (remaining <= 0) return Readable::late;
    if (interrupts.tripped()) return Readable::interrupted;
    pollfd waiting{descriptor, POLLIN, 0};
    int milliseconds = static_cast<int>(std::min<int64_t>(remaining / 1'000'000 + 1, 100));
    if (poll(&waiting, 1, milliseconds) > 0) return Readable::yes;
  }
}

}  // namespace unisono
