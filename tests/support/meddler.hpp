// Somebody between two ranks, who sees and changes what passes: it has no secret.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "base/descriptor.hpp"
#include "transport/address.hpp"

namespace unisono::testing {

inline Descriptor connected_to(const Address& to) {
  Descriptor socket(::socket(to.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(connect(socket.number(), to.get(), to.bytes()), 0) << std::strerror(errno);
  return socket;
}

inline void send_all(const Descriptor& to, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(to.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
}

// Listens at an address of its own and passes on to another; one connection after the other.
class Meddler {
 public:
  struct Ways {
    int64_t flips_at = -1;   // a bit of this byte, of those that go to the listener
    int64_t flips_back_at = -1;  // … or of those that come back
    bool gathers = false;    // what comes within two hundredths of a second goes on in one piece
  };
  explicit Meddler(const Address& to) : Meddler(to, Ways()) {}
  Meddler(const Address& to, const Ways& ways) : to_(to), ways_(ways), listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const Address any = Address::loopback(0);
    EXPECT_EQ(bind(listener_.number(), any.get(), any.bytes()), 0);
    EXPECT_EQ(listen(listener_.number(), 16), 0);
    address_ = Address::of_socket(listener_.number());
    thread_ = std::thread([this] { run(); });
  }
  ~Meddler() {
    stops_ = true;
    shutdown(listener_.number(), SHUT_RDWR);
    thread_.join();
  }
  const Address& address() const { return address_; }
  std::string heard() {  // of who connected, all of it
    std::lock_guard lock(mutex_);
    return heard_;
  }
  int64_t passed_back() const { return passed_back_; }

 private:
  void run() {
    for (;;) {
      const Descriptor client(accept4(listener_.number(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!client) return;
      const Descriptor server = connected_to(to_);
      int64_t forth = 0, back = 0;
      while (!stops_ && pass(client, server, forth, ways_.flips_at, true) && pass(server, client, back, ways_.flips_back_at, false)) continue;
    }
  }
  bool pass(const Descriptor& from, const Descriptor& to, int64_t& passed, int64_t flips_at, bool keeps) {
    pollfd look{from.number(), POLLIN, 0};
    if (poll(&look, 1, 1) <= 0) return true;
    if (ways_.gathers) poll(nullptr, 0, 20);
    char bytes[65536];
    const ssize_t count = recv(from.number(), bytes, sizeof(bytes), 0);
    if (count <= 0) return false;
    if (flips_at >= passed && flips_at < passed + count) bytes[flips_at - passed] ^= 0x10;
    passed += count;
    if (!keeps) passed_back_ += count;
    if (keeps) {
      std::lock_guard lock(mutex_);
      heard_.append(bytes, static_cast<size_t>(count));
    }
    send_all(to, {bytes, static_cast<size_t>(count)});
    return true;
  }

  Address to_, address_;
  Ways ways_;
  Descriptor listener_;
  std::mutex mutex_;
  std::string heard_;
  std::atomic<int64_t> passed_back_{0};
  std::atomic<bool> stops_{false};
  std::thread thread_;
};

}  // namespace unisono::testing
