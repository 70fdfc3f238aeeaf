// Where a process listens: an IPv4 or IPv6 address and a port. A value.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace unisono {

class Address {
 public:
  Address() = default;  // none
  Address(const sockaddr* socket_address, socklen_t bytes);
  static Address loopback(int port);
  static std::optional<Address> parse(std::string_view text);       // as text() writes it; no names
  static std::optional<Address> parse_host(std::string_view text);  // as host() writes it; the port is 0
  static Address of_socket(int socket);                        // that it is bound to
  static Address of_peer(int socket);                          // that it is connected to
  static Address of_route_to(const Address& there);            // that the kernel would use towards it; none, with errno

  explicit operator bool() const { return family() != AF_UNSPEC; }
  bool operator==(const Address& other) const { return text() == other.text(); }
  int family() const { return place_.any.sa_family; }
  int port() const;
  Address with_port(int port) const;
  Address with_scope_of(const Address& other) const;  // link-local: by the interface that the other is at
  Address without_scope() const;                      // as another machine may be told it
  bool is_loopback() const;
  bool is_link_local() const;  // of IPv6
  bool is_any() const;         // 0.0.0.0 or ::, also as ::ffff:0.0.0.0
  bool is_same_host(const Address& other) const { return with_port(0) == other.with_port(0); }
  std::string host() const;  // without the port
  std::string text() const;  // "10.0.0.1:29500", "[fd00::1]:29500"
  std::string network() const;  // whom it counts for among strangers: the address, of IPv6 its first 64 bits
  const sockaddr* get() const { return &place_.any; }
  socklen_t bytes() const { return family() == AF_INET6 ? sizeof(place_.six) : sizeof(place_.four); }

 private:
  union {
    sockaddr any;
    sockaddr_in four;
    sockaddr_in6 six;
  } place_ = {.six = {}};
};

// Where a rank listens, as another knows it. A value.
struct Whereabouts {
  std::vector<Address> addresses = {};  // in the order in which to try them
  bool out_of_reach = false;            // none of them can be reached from here: that rank connects
  bool waits_for_us = false;            // that rank cannot reach this one: this one connects, also in order to receive
};

inline constexpr size_t most_addresses = 8;  // of one rank

// "10.0.0.1:29500,[fd00::1]:29500"
std::string text_of(const std::vector<Address>& addresses);
std::optional<std::vector<Address>> addresses_in(std::string_view text);  // nothing but what text_of() writes, and at most so many

}  // namespace unisono
