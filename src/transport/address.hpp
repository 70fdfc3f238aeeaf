// Where a process listens: an IPv4 or IPv6 address and a port. A value.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <optional>
#include <string>
#include <string_view>

namespace unisono {

class Address {
 public:
  Address() = default;  // none
  Address(const sockaddr* socket_address, socklen_t bytes);
  static Address loopback(int port);
  static std::optional<Address> parse(std::string_view text);  // as text() writes it; no names
  static Address of_socket(int socket);                        // that it is bound to
  static Address of_peer(int socket);                          // that it is connected to
  static Address of_route_to(const Address& there);            // that the kernel would use towards it; none, with errno

  explicit operator bool() const { return family() != AF_UNSPEC; }
  bool operator==(const Address& other) const { return text() == other.text(); }
  int family() const { return place_.any.sa_family; }
  int port() const;
  Address with_port(int port) const;
  bool is_loopback() const;
  std::string host() const;  // without the port
  std::string text() const;  // "10.0.0.1:29500", "[fd00::1]:29500"
  const sockaddr* get() const { return &place_.any; }
  socklen_t bytes() const { return family() == AF_INET6 ? sizeof(place_.six) : sizeof(place_.four); }

 private:
  union {
    sockaddr any;
    sockaddr_in four;
    sockaddr_in6 six;
  } place_ = {.six = {}};
};

}  // namespace unisono
