// Ranks that have sockets and a secret, and nothing else of a world: who lets whom in, and what passes between them.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "transport/socket_stream.hpp"

namespace unisono::testing {

inline constexpr uint64_t group = 4711;
inline constexpr double patience_s = 20;

inline std::shared_ptr<const Trust> rank_trust(char secret, std::string_view job = "job") {
  std::array<std::byte, 32> bytes;
  bytes.fill(static_cast<std::byte>(secret));
  return *Trust::of(bytes, job);
}

// A rank's sockets, and the thread that lets others in.
class Rank {
 public:
  explicit Rank(int rank, char secret = 'a', bool sealed = false, double stranger_s = 5, std::string_view job = "job") : token_(100 + static_cast<uint64_t>(rank)) {
    auto refused = [this](const std::string& why) {
      std::lock_guard lock(mutex_);
      log_ += why + "\n";
    };
    sockets_ = *Sockets::open({.trust = rank_trust(secret, job), .me = rank, .sealed = sealed, .stranger_s = stranger_s, .refused = refused});
    sockets_->know(token_);
    sockets_->expect(group);
    control_ = std::thread([this] {
      pollfd wakes{sockets_->descriptor(), POLLIN, 0};
      while (!stops_) {
        if (poll(&wakes, 1, 10) > 0) sockets_->rang();
        sockets_->look_after_left();
      }
    });
  }
  ~Rank() { stop_control(); }
  void stop_control() {  // from then on nobody looks who knocks
    stops_ = true;
    if (control_.joinable()) control_.join();
  }
  Sockets& sockets() { return *sockets_; }
  uint64_t token() const { return token_; }
  int number() const { return static_cast<int>(token_) - 100; }
  std::string log() {
    std::lock_guard lock(mutex_);
    return log_;
  }

 private:
  uint64_t token_;
  std::mutex mutex_;
  std::string log_;
  std::unique_ptr<Sockets> sockets_;
  std::atomic<bool> stops_{false};
  std::thread control_;
};

inline SocketStream stream_between(Rank& one, int rank, Rank& other, int peer) {
  return {one.sockets(), {{other.token(), group, 0, rank, peer}, {one.token(), group, 0, peer, rank}, {{other.sockets().address()}}}};
}

inline void expect_bytes_pass(SocketStream& from, SocketStream& to, size_t bytes) {
  std::vector<std::byte> sent(bytes), got(bytes);
  for (size_t index = 0; index < bytes; ++index) sent[index] = static_cast<std::byte>(index * 7 + index / 251);
  size_t out = 0, in = 0;
  const Deadline deadline = Deadline::in_seconds(patience_s);
  while (in < bytes && from.state().ok() && to.state().ok() && !deadline.passed()) {
    if (out < bytes) out += static_cast<size_t>(from.write(Channel::Sent(sent).subspan(out, (bytes - out) / 2), Channel::Sent(sent).subspan(out + (bytes - out) / 2)));
    in += static_cast<size_t>(to.read(std::span(got).subspan(in)));
  }
  EXPECT_EQ(in, bytes) << from.state().text() << to.state().text();
  EXPECT_EQ(got, sent);
}

// What a connector hears in the end.
inline Status refusal(Rank& from, int rank, Rank& to, const SocketKey& key) {
  SocketStream stream(from.sockets(), {key, {from.token(), group, 0, key.to, rank}, {{to.sockets().address()}}});
  const std::byte byte{};
  const Deadline deadline = Deadline::in_seconds(patience_s);
  while (stream.state().ok() && !deadline.passed())
    if (stream.write({&byte, 1}, {}) > 0) return Status::success();
  return stream.state();
}

}  // namespace unisono::testing
