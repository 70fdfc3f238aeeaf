// Where a TCPStore is: addresses of IPv4 and IPv6, given as such or as a name.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "unisono/status.hpp"

namespace unisono {

// A socket address; a value.
struct StoreAddress {
  sockaddr_storage storage = {};
  socklen_t bytes = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
  int port() const;
  bool is_loopback() const;
  bool is_any() const;           // 0.0.0.0 or ::
  std::string host() const;      // "127.0.0.1", "::1"
  std::string text() const;      // with its port: "127.0.0.1:29500", "[::1]:29500"
  std::string network() const;   // whom it counts for among strangers: the address, of IPv6 its first 64 bits
};

// In the order in which to try them. The resolver has a thread of its own, which is left behind at the deadline or when interrupted.
// ArgumentError: no host, or one that means 0.0.0.0 or :: and does not say so. InitError: nobody of that name, as yet.
Result<std::vector<StoreAddress>> find_addresses(const std::string& host, int port, const Deadline& deadline);

StoreAddress address_of_socket(int socket);
StoreAddress address_of_peer(int socket);

}  // namespace unisono
