// See store_address.hpp.
#include "rendezvous/store_address.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "base/all_signals_blocked.hpp"
#include "base/interrupt.hpp"

namespace unisono {
namespace {

template <typename Address>
Address as(const sockaddr_storage& storage) {
  Address address;
  std::memcpy(&address, &storage, sizeof(address));
  return address;
}

struct Found {
  int fault = 0;  // of getaddrinfo()
  std::vector<StoreAddress> addresses;
};

Found ask(const std::string& host, int port, int flags) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  Found found;
  found.fault = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(found.fault == 0 ? list : nullptr, freeaddrinfo);
  for (const addrinfo* entry = owned.get(); entry; entry = entry->ai_next) {
    StoreAddress address;
    if (entry->ai_addrlen > sizeof(address.storage)) continue;
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.bytes = entry->ai_addrlen;
    found.addresses.push_back(address);
  }
  return found;
}

// What the thread of the resolver and the one that waits for it share.
struct Inquiry {
  std::mutex mutex;
  std::condition_variable answered;
  std::optional<Found> found;
};

Result<Found> ask_in_a_thread(const std::string& host, int port, const Deadline& deadline) {
  auto inquiry = std::make_shared<Inquiry>();
  try {
    const AllSignalsBlocked blocked;
    std::thread([inquiry, host, port] {
      Found found = ask(host, port, 0);
      const std::lock_guard lock(inquiry->mutex);
      inquiry->found = std::move(found);
      inquiry->answered.notify_all();
    }).detach();
  } catch (const std::system_error& error) {
    return Status(ErrorCode::resource, fmt::format("no thread to look up \"{}\" with: {}", host, error.what()));
  }
  InterruptWatch interrupts;
  for (std::unique_lock lock(inquiry->mutex); !inquiry->found;) {
    constexpr int64_t slice_ns = 100'000'000;
    inquiry->answered.wait_for(lock, std::chrono::nanoseconds(std::clamp<int64_t>(deadline.remaining_ns(), 0, slice_ns)));
    if (inquiry->found) break;
    if (deadline.passed()) return Status(ErrorCode::timeout, fmt::format("looking up \"{}\" takes too long", host));
    lock.unlock();
    if (interrupts.tripped()) return Status(ErrorCode::revoked, fmt::format("interrupted while looking up \"{}\"", host));
    lock.lock();
  }
  return std::move(*inquiry->found);
}

StoreAddress address_by(int (*ask_kernel)(int, sockaddr*, socklen_t*), int socket) {
  StoreAddress address;
  address.bytes = sizeof(address.storage);
  if (ask_kernel(socket, reinterpret_cast<sockaddr*>(&address.storage), &address.bytes) != 0) return {};
  return address;
}

}  // namespace

int StoreAddress::port() const {
  return ntohs(family() == AF_INET6 ? as<sockaddr_in6>(storage).sin6_port : as<sockaddr_in>(storage).sin_port);
}

bool StoreAddress::is_loopback() const {
  if (family() == AF_INET) return ntohl(as<sockaddr_in>(storage).sin_addr.s_addr) >> 24 == 127;
  const in6_addr address = as<sockaddr_in6>(storage).sin6_addr;
  return family() == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&address);
}

bool StoreAddress::is_any() const {
  if (family() == AF_INET) return as<sockaddr_in>(storage).sin_addr.s_addr == INADDR_ANY;
  const in6_addr address = as<sockaddr_in6>(storage).sin6_addr;
  constexpr unsigned char mapped_any[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};  // ::ffff:0.0.0.0
  return family() == AF_INET6 && (IN6_IS_ADDR_UNSPECIFIED(&address) || std::memcmp(&address, mapped_any, sizeof(mapped_any)) == 0);
}

std::string StoreAddress::host() const {
  char text[NI_MAXHOST] = "?";
  getnameinfo(get(), bytes, text, sizeof(text), nullptr, 0, NI_NUMERICHOST);
  return text;
}

std::string StoreAddress::text() const { return family() == AF_INET6 ? fmt::format("[{}]:{}", host(), port()) : fmt::format("{}:{}", host(), port()); }

std::string StoreAddress::network() const {
  if (family() != AF_INET6) return host();
  const in6_addr address = as<sockaddr_in6>(storage).sin6_addr;
  return {reinterpret_cast<const char*>(&address), 8};
}

Result<std::vector<StoreAddress>> find_addresses(const std::string& given, int port, const Deadline& deadline) {
  const bool is_bracketed = given.size() > 2 && given.front() == '[' && given.back() == ']';
  const std::string host = is_bracketed ? given.substr(1, given.size() - 2) : given;
  if (host.empty() || host.find('\0') != host.npos) return Status(ErrorCode::argument, "the host is empty, or has a zero in it");
  Found found = ask(host, port, AI_NUMERICHOST);
  if (found.fault != 0) {
    auto answer = ask_in_a_thread(host, port, deadline);
    if (!answer.ok()) return answer.status();
    found = std::move(*answer);
  }
  if (found.fault != 0 || found.addresses.empty())
    return Status(ErrorCode::init, fmt::format("\"{}\" has no address: {}", host, gai_strerror(found.fault)));
  for (const StoreAddress& address : found.addresses)
    if (address.is_any() && host != "0.0.0.0" && host != "::")
      return Status(ErrorCode::argument, fmt::format("\"{}\" means every address of this machine; to ask for that, say {}", host,
                                                     address.family() == AF_INET ? "0.0.0.0" : "::"));
  return found.addresses;
}

StoreAddress address_of_socket(int socket) { return address_by(getsockname, socket); }
StoreAddress address_of_peer(int socket) { return address_by(getpeername, socket); }

}  // namespace unisono
