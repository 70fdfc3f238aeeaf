// Both sides of a TCPStore for tests: masters and users by a secret of one letter, and a client that has the secret and says whatever it is told to.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstring>
#include <string>

#include "rendezvous/store_frames.hpp"
#include "rendezvous/tcp_store.hpp"
#include "tests/support/children.hpp"

namespace unisono::testing {

using distributed::TCPStore;

inline std::shared_ptr<const Trust> trust_of(char secret, std::string_view job = "job") {
  std::array<std::byte, 32> bytes;
  bytes.fill(static_cast<std::byte>(secret));
  return *Trust::of(bytes, job);
}

inline std::shared_ptr<TCPStore> made(TcpStoreRequest request) {
  if (request.host.empty()) request.host = "127.0.0.1";
  if (!request.trust) request.trust = trust_of('a');
  auto store = make_tcp_store(request);
  throw_if_error(store.status());
  return *store;
}

inline std::shared_ptr<TCPStore> master(TcpStoreRequest request = {}) {
  request.options.is_master = true;
  return made(std::move(request));
}

inline std::shared_ptr<TCPStore> user_of(int port, double timeout_s = 300) {
  TcpStoreRequest request{.port = port};
  request.options.timeout_s = timeout_s;
  return made(std::move(request));
}

inline sockaddr_in loopback_at(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

inline Descriptor connected_to(int port, const char* from = "127.0.0.1") {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in mine = loopback_at(0);
  inet_pton(AF_INET, from, &mine.sin_addr);
  EXPECT_EQ(bind(socket.number(), reinterpret_cast<const sockaddr*>(&mine), sizeof(mine)), 0) << std::strerror(errno);
  const sockaddr_in address = loopback_at(port);
  EXPECT_EQ(connect(socket.number(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0) << std::strerror(errno);
  return socket;
}

// A free port of the loopback interface that nobody else is given while this lives. Nobody listens there until the test does.
class FreePort {
 public:
  FreePort() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;
    setsockopt(socket_.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    const sockaddr_in address = loopback_at(0);
    EXPECT_EQ(bind(socket_.number(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0) << std::strerror(errno);
  }
  int number() const { return Address::of_socket(socket_.number()).port(); }

 private:
  Descriptor socket_;
};

// A plain listener on the loopback interface, at a port that is its own or at a free one.
inline Descriptor listening(int port = 0) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  setsockopt(socket.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const sockaddr_in address = loopback_at(port);
  EXPECT_EQ(bind(socket.number(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0) << std::strerror(errno);
  EXPECT_EQ(listen(socket.number(), 128), 0);
  return socket;
}

inline Descriptor accepted_by(const Descriptor& listener) { return Descriptor(accept4(listener.number(), nullptr, nullptr, SOCK_CLOEXEC)); }

// Whether the other end has closed it, for whatever reason, within half a minute. What it said before is thrown away.
inline bool is_closed(const Descriptor& socket, int patience_ms = 30'000) {
  char unread[4096];
  for (;;) {
    pollfd waiting{socket.number(), POLLIN, 0};
    if (poll(&waiting, 1, patience_ms) <= 0) return false;
    if (recv(socket.number(), unread, sizeof(unread), 0) <= 0) return true;
  }
}

class RawStoreClient {
 public:
  explicit RawStoreClient(int port, int rank = TlsEnds::client)
      : socket_(connected_to(port)), tls_(trust_of('a'), socket_.number(), Tls::Role::connects, {.from = rank, .to = TlsEnds::store}) {
    while (!tls_.shake_hands() && tls_.state().ok()) {
    }
    EXPECT_TRUE(tls_.state().ok()) << tls_.state().text();
  }

  RawStoreClient& greet() {
    say(hello_frame({.rank = TlsEnds::client}));
    EXPECT_EQ(heard()->kind, StoreFrameKind::welcome);
    return *this;
  }
  // The socket blocks, so all of it goes, or the connection has ended.
  void say(std::string_view bytes) {
    for (auto rest = std::as_bytes(std::span(bytes)); !rest.empty() && tls_.state().ok();) rest = rest.subspan(static_cast<size_t>(tls_.write(rest)));
  }
  void does_not_wait() const { fcntl(socket_.number(), F_SETFL, O_NONBLOCK); }
  int64_t say_what_goes(std::string_view bytes) { return tls_.write(std::as_bytes(std::span(bytes))); }
  bool is_alive() const { return tls_.state().ok(); }

  // The next frame; nothing where the connection has ended.
  std::optional<StoreFrame> heard() {
    for (;;) {
      auto frame = reader_.next();
      EXPECT_TRUE(frame.ok()) << frame.status().text();
      if (!frame.ok() || *frame) return frame.ok() ? std::move(*frame) : std::nullopt;
      std::array<std::byte, 4096> piece;
      const auto count = static_cast<size_t>(tls_.read(piece));
      if (count == 0 && (tls_.has_ended() || !tls_.state().ok())) return std::nullopt;
      reader_.feed(std::span(piece).first(count));
    }
  }
  // That it is refused with these words, and the connection ended.
  void expect_refused(ErrorCode code, const std::string& words) {
    const auto frame = heard();
    ASSERT_TRUE(frame && frame->kind == StoreFrameKind::refused) << words;
    const Status refusal = read_refused(frame->body);
    EXPECT_EQ(refusal.code(), code) << refusal.text();
    EXPECT_NE(refusal.message().find(words), std::string::npos) << refusal.text();
    EXPECT_FALSE(heard());
  }

 private:
  Descriptor socket_;
  Tls tls_;
  StoreFrameReader reader_{most_frame_bytes};
};

}  // namespace unisono::testing
