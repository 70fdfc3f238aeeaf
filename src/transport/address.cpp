// See address.hpp.
#include "transport/address.hpp"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <net/if.h>

#include <charconv>
#include <cstring>

#include "base/descriptor.hpp"

namespace unisono {
namespace {

Address asked(int socket, int (*ask)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage found = {};
  socklen_t bytes = sizeof(found);
  if (ask(socket, reinterpret_cast<sockaddr*>(&found), &bytes) != 0) return {};
  return {reinterpret_cast<const sockaddr*>(&found), bytes};
}

std::optional<int> port_in(std::string_view text) {
  int port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port < 0 || port > 65535) return std::nullopt;
  return port;
}

}  // namespace

Address::Address(const sockaddr* socket_address, socklen_t bytes) {
  const bool known = socket_address->sa_family == AF_INET || socket_address->sa_family == AF_INET6;
  if (known && bytes <= sizeof(place_)) std::memcpy(&place_, socket_address, bytes);
}

Address Address::loopback(int port) {
  Address address;
  address.place_.four.sin_family = AF_INET;
  address.place_.four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address.with_port(port);
}

Address Address::of_socket(int socket) { return asked(socket, getsockname); }
Address Address::of_peer(int socket) { return asked(socket, getpeername); }

// Nothing is sent: connecting a datagram socket only chooses.
Address Address::of_route_to(const Address& there) {
  const Descriptor probe(socket(there.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!probe || connect(probe.number(), there.with_port(there.port() ? there.port() : 1).get(), there.bytes()) != 0) return {};
  return of_socket(probe.number());
}

std::optional<Address> Address::parse(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == text.npos) return std::nullopt;
  std::string host(text.substr(0, colon));
  const std::optional<int> port = port_in(text.substr(colon + 1));
  if (!port) return std::nullopt;
  Address address;
  if (!host.starts_with('[')) {
    address.place_.four.sin_family = AF_INET;
    if (inet_pton(AF_INET, host.c_str(), &address.place_.four.sin_addr) != 1) return std::nullopt;
    return address.with_port(*port);
  }
  if (!host.ends_with(']')) return std::nullopt;
  host = host.substr(1, host.size() - 2);
  address.place_.six.sin6_family = AF_INET6;
  if (const size_t percent = host.find('%'); percent != host.npos) {  // of a link-local one: by which interface
    address.place_.six.sin6_scope_id = if_nametoindex(host.substr(percent + 1).c_str());
    if (address.place_.six.sin6_scope_id == 0) return std::nullopt;
    host.resize(percent);
  }
  if (inet_pton(AF_INET6, host.c_str(), &address.place_.six.sin6_addr) != 1) return std::nullopt;
  return address.with_port(*port);
}

int Address::port() const { return ntohs(family() == AF_INET6 ? place_.six.sin6_port : place_.four.sin_port); }

Address Address::with_port(int port) const {
  Address address = *this;
  (family() == AF_INET6 ? address.place_.six.sin6_port : address.place_.four.sin_port) = htons(static_cast<uint16_t>(port));
  return address;
}

bool Address::is_loopback() const {
  if (family() == AF_INET) return ntohl(place_.four.sin_addr.s_addr) >> 24 == 127;
  return family() == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&place_.six.sin6_addr);
}

std::string Address::host() const {
  char text[INET6_ADDRSTRLEN] = "none";
  if (family() == AF_INET) inet_ntop(AF_INET, &place_.four.sin_addr, text, sizeof(text));
  if (family() != AF_INET6) return text;
  inet_ntop(AF_INET6, &place_.six.sin6_addr, text, sizeof(text));
  char name[IF_NAMESIZE] = "";
  const bool scoped = place_.six.sin6_scope_id != 0 && if_indextoname(place_.six.sin6_scope_id, name);
  return scoped ? fmt::format("{}%{}", text, name) : text;
}

std::string Address::text() const {
  return family() == AF_INET6 ? fmt::format("[{}]:{}", host(), port()) : fmt::format("{}:{}", host(), port());
}

}  // namespace unisono
