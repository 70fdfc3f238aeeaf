// See address.hpp.
#include "transport/address.hpp"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <net/if.h>

#include <algorithm>
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
  std::string_view host = text.substr(0, colon);
  const std::optional<int> port = port_in(text.substr(colon + 1));
  const bool is_bracketed = host.starts_with('[') && host.ends_with(']');
  if (is_bracketed) host = host.substr(1, host.size() - 2);
  const std::optional<Address> address = port ? parse_host(host) : std::nullopt;
  if (!address || is_bracketed != (address->family() == AF_INET6)) return std::nullopt;
  return address->with_port(*port);
}

std::optional<Address> Address::parse_host(std::string_view text) {
  std::string host(text);
  Address address;
  if (host.find(':') == host.npos) {
    address.place_.four.sin_family = AF_INET;
    return inet_pton(AF_INET, host.c_str(), &address.place_.four.sin_addr) == 1 ? std::optional(address) : std::nullopt;
  }
  address.place_.six.sin6_family = AF_INET6;
  if (const size_t percent = host.find('%'); percent != host.npos) {  // of a link-local one: by which interface
    address.place_.six.sin6_scope_id = if_nametoindex(host.substr(percent + 1).c_str());
    if (address.place_.six.sin6_scope_id == 0) return std::nullopt;
    host.resize(percent);
  }
  return inet_pton(AF_INET6, host.c_str(), &address.place_.six.sin6_addr) == 1 ? std::optional(address) : std::nullopt;
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

bool Address::is_link_local() const { return family() == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&place_.six.sin6_addr); }

bool Address::is_any() const {
  if (family() == AF_INET) return place_.four.sin_addr.s_addr == INADDR_ANY;
  constexpr unsigned char mapped_any[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  const in6_addr& address = place_.six.sin6_addr;
  return family() == AF_INET6 && (IN6_IS_ADDR_UNSPECIFIED(&address) || std::memcmp(&address, mapped_any, sizeof(mapped_any)) == 0);
}

Address Address::with_scope_of(const Address& other) const {
  Address address = *this;
  if (is_link_local() && other.is_link_local()) address.place_.six.sin6_scope_id = other.place_.six.sin6_scope_id;
  return address;
}

Address Address::without_scope() const {
  Address address = *this;
  if (is_link_local()) address.place_.six.sin6_scope_id = 0;
  return address;
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

std::string Address::network() const {
  constexpr size_t network_bytes = 8;
  return family() == AF_INET6 ? std::string(reinterpret_cast<const char*>(&place_.six.sin6_addr), network_bytes) : host();
}

std::string text_of(const std::vector<Address>& addresses) {
  std::string text;
  for (const Address& address : addresses) text += (text.empty() ? "" : ",") + address.text();
  return text;
}

std::optional<std::vector<Address>> addresses_in(std::string_view text) {
  std::vector<Address> addresses;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find(','));
    const std::optional<Address> address = Address::parse(word);
    if (!address || addresses.size() == most_addresses) return std::nullopt;
    addresses.push_back(*address);
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
  }
  return text_of(addresses) == text ? std::optional(addresses) : std::nullopt;
}

}  // namespace unisono
