// See listeners.hpp. Used by sockets.cpp.
#include "transport/listeners.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <fstream>

namespace unisono {
namespace {

// Empty, with errno. In a range, ports of connections that ended a moment ago are taken again; two that do so at once are told apart by listen().
Listener bind_and_listen(const Address& at, bool is_reused) {
  Listener listener{Descriptor(socket(at.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)), at};
  if (!listener.socket) return {};
  constexpr int on = 1, backlog = 1024;
  if (is_reused) setsockopt(listener.socket.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(listener.socket.number(), at.get(), at.bytes()) != 0 || listen(listener.socket.number(), backlog) != 0) return {};
  listener.address = Address::of_socket(listener.socket.number());
  return listener;
}

// At this port, if there is one, otherwise at any that may be had. Empty, with errno.
Listener listen_somewhere(const Address& at, const PortRange& ports, int port, int first_look) {
  Listener listener;
  if (port != 0) listener = bind_and_listen(at.with_port(port), !ports.is_any());
  if (port != 0 && (listener.socket || errno != EADDRINUSE)) return listener;
  if (ports.is_any()) return bind_and_listen(at, false);
  for (int index = 0; index < ports.count() && !listener.socket; ++index) {
    listener = bind_and_listen(at.with_port(ports.at(first_look + index)), true);
    if (!listener.socket && errno != EADDRINUSE && errno != EACCES) return {};
  }
  return listener;
}

std::string kernels_range() {
  std::string first = "?", last = "?";
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> first >> last;
  return first + "-" + last;
}

Status no_listener(const Address& at, const PortRange& ports) {
  const int error = errno;
  const std::string text = std::strerror(error);
  if (!ports.is_any() && (error == EADDRINUSE || error == EACCES))
    return {ErrorCode::resource, fmt::format("no port of UNISONO_PORT_RANGE={} is free at {}: {} is {}; every rank of a machine takes one, so give as many as ranks "
                                             "that run there", ports.text(), at.host(), ports.first,
                                             error == EACCES ? "not for this user (below 1024?)" : "held by " + holder_of(at.with_port(ports.first)))};
  if (error == EADDRINUSE)
    return {ErrorCode::resource, fmt::format("no port is free at {}: all of {} (net.ipv4.ip_local_port_range) are taken; widen it, or name others by "
                                             "UNISONO_PORT_RANGE", at.host(), kernels_range())};
  return {ErrorCode::resource, fmt::format("cannot listen at {}: {}", at.host(), text)};
}

}  // namespace

Result<std::vector<Listener>> open_listeners(const std::vector<Address>& addresses, const PortRange& ports, int first_look) {
  std::vector<Listener> listeners;
  for (const Address& at : addresses) {
    const int port = listeners.empty() ? at.port() : listeners.front().address.port();
    Listener listener = listen_somewhere(at, ports, port, first_look);
    if (!listener.socket && listeners.empty() && errno != EADDRNOTAVAIL) return no_listener(at, ports);
    if (listener.socket) listeners.push_back(std::move(listener));
  }
  if (listeners.empty()) return no_listener(addresses.front(), ports);
  return listeners;
}

}  // namespace unisono
