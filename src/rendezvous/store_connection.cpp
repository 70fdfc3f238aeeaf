// See store_connection.hpp.
#include "rendezvous/store_connection.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>

#include "base/check.hpp"

namespace unisono {
namespace {

constexpr size_t piece_bytes = 16_KiB;
constexpr uint32_t silent_ms = 8000;

// Keepalives are only sent where nothing else is on its way. A machine that is there acknowledges what it is sent, also when nobody takes it.
bool is_silent(int socket) {
  tcp_info info = {};
  socklen_t bytes = sizeof(info);
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) return false;
  return info.tcpi_state == TCP_ESTABLISHED && info.tcpi_unacked > 0 && info.tcpi_last_ack_recv > silent_ms;
}

Status wait_for(int socket, short events, Patience& patience) {
  for (;;) {
    if (is_silent(socket)) return {ErrorCode::peer_lost, "its machine has not answered for 8 s"};
    const int64_t remaining = patience.deadline.remaining_ns();
    if (remaining <= 0) return {ErrorCode::timeout, "nobody answers"};
    if (patience.interrupts.tripped() || patience.stop.stop_requested()) return {ErrorCode::revoked, "interrupted"};
    pollfd waiting{socket, events, 0};
    const auto milliseconds = static_cast<int>(std::min<int64_t>(remaining / 1'000'000 + 1, 100));
    if (poll(&waiting, 1, milliseconds) > 0) return Status::success();
  }
}

Status unreachable(int error) {
  if (error == ECONNREFUSED) return {ErrorCode::store_lost, std::strerror(error)};
  const bool is_ours = error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
  return {is_ours ? ErrorCode::resource : ErrorCode::peer_lost, std::strerror(error)};
}

// A port that nobody listens at may be given to the very socket that connects to it, which then speaks to itself.
bool is_connected_to_itself(int socket) { return Address::of_socket(socket) == Address::of_peer(socket); }

Result<Descriptor> connect_socket(const Address& address, Patience& patience) {
  Descriptor socket(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return unreachable(errno);
  prepare_store_socket(socket.number());
  if (connect(socket.number(), address.get(), address.bytes()) != 0 && errno != EINPROGRESS) return unreachable(errno);
  RETURN_IF_ERROR(wait_for(socket.number(), POLLOUT, patience));
  int error = 0;
  socklen_t bytes = sizeof(error);
  if (getsockopt(socket.number(), SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) error = errno;
  if (error == 0 && is_connected_to_itself(socket.number())) error = ECONNREFUSED;
  if (error != 0) return unreachable(error);
  return socket;
}

}  // namespace

void prepare_store_socket(int socket) {
  const int on = 1, idle_s = 1, between_s = 1, probes = 8;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &between_s, sizeof(between_s));
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}

StoreConnection::StoreConnection(Descriptor socket, const StoreCaller& caller)
    : socket_(std::move(socket)),
      tls_(caller.trust, socket_.number(), Tls::Role::connects, {.from = caller.hello.rank, .to = TlsEnds::store}) {}

Result<std::unique_ptr<StoreConnection>> StoreConnection::open(const Address& address, const StoreCaller& caller, Patience& patience) {
  auto socket = connect_socket(address, patience);
  if (!socket.ok()) return socket.status();
  std::unique_ptr<StoreConnection> connection(new StoreConnection(std::move(*socket), caller));
  RETURN_IF_ERROR(connection->shake_hands(patience));
  RETURN_IF_ERROR(connection->greet(caller.hello, patience));
  return connection;
}

Status StoreConnection::shake_hands(Patience& patience) {
  while (!tls_.shake_hands()) {
    RETURN_IF_ERROR(tls_.state());
    RETURN_IF_ERROR(await(tls_.wants_to_write() ? POLLOUT : POLLIN, patience));
  }
  return Status::success();
}

Status StoreConnection::greet(const StoreHello& hello, Patience& patience) {
  auto answer = ask(hello_frame(hello), patience);
  if (!answer.ok()) return answer.status();
  if (answer->kind == StoreFrameKind::refused) return read_refused(answer->body);
  if (answer->kind != StoreFrameKind::welcome) return {ErrorCode::protocol, "it does not say who it is"};
  auto welcome = read_welcome(answer->body);
  if (!welcome.ok()) return welcome.status();
  welcome_ = std::move(*welcome);
  return Status::success();
}

Result<StoreFrame> StoreConnection::ask(std::string_view frame, Patience& patience) {
  for (auto rest = std::as_bytes(std::span(frame)); !rest.empty();) {
    const int64_t count = tls_.write(rest);  // a record at a time
    rest = rest.subspan(static_cast<size_t>(count));
    RETURN_IF_ERROR(tls_.state());
    if (count == 0) RETURN_IF_ERROR(await(tls_.wants_to_write() ? POLLOUT : POLLIN, patience));
  }
  for (;;) {
    auto answer = reader_.next();
    if (!answer.ok()) return answer.status();
    if (*answer) return std::move(**answer);
    std::array<std::byte, piece_bytes> piece;
    const int64_t count = tls_.read(piece);
    reader_.feed(std::span(piece).first(static_cast<size_t>(count)));
    RETURN_IF_ERROR(tls_.state());
    if (tls_.has_ended()) return Status(ErrorCode::peer_lost, "the connection ended");
    if (count == 0) RETURN_IF_ERROR(await(tls_.wants_to_write() ? POLLOUT : POLLIN, patience));
  }
}

Status StoreConnection::await(short events, Patience& patience) const { return wait_for(socket_.number(), events, patience); }

bool StoreConnection::is_quiet() const {
  pollfd look{socket_.number(), POLLIN | POLLRDHUP, 0};
  return poll(&look, 1, 0) == 0;
}

}  // namespace unisono
