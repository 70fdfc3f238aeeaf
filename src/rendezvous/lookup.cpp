// See lookup.hpp.
#include "rendezvous/lookup.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "base/all_signals_blocked.hpp"
#include "base/interrupt.hpp"

namespace unisono {
namespace {

struct Found {
  int fault = 0;  // of getaddrinfo()
  std::vector<Address> addresses;
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
  for (const addrinfo* entry = owned.get(); entry; entry = entry->ai_next)
    if (const Address address(entry->ai_addr, entry->ai_addrlen); address) found.addresses.push_back(address);
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

}  // namespace

Result<std::vector<Address>> find_addresses(const std::string& given, int port, const Deadline& deadline) {
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
  for (const Address& address : found.addresses)
    if (address.is_any() && host != "0.0.0.0" && host != "::")
      return Status(ErrorCode::argument, fmt::format("\"{}\" means every address of this machine; to ask for that, say {}", host,
                                                     address.family() == AF_INET ? "0.0.0.0" : "::"));
  return found.addresses;
}

Result<std::vector<Address>> await_addresses(const std::string& host, int port, const Deadline& deadline, const Log& log) {
  constexpr double say_so_after_s = 5;
  constexpr int64_t slice_ms = 200;
  InterruptWatch interrupts;
  Deadline say_so = Deadline::in_seconds(say_so_after_s);
  for (;;) {
    auto addresses = find_addresses(host, port, deadline);
    if (addresses.ok() || addresses.status().code() != ErrorCode::init) return addresses;
    if (deadline.passed()) return Status(ErrorCode::timeout, addresses.status().message());
    if (interrupts.tripped()) return Status(ErrorCode::revoked, fmt::format("interrupted while looking up \"{}\"", host));
    if (say_so.passed()) log.warning(fmt::format("still waiting: {}", addresses.status().message()));
    if (say_so.passed()) say_so = {};
    poll(nullptr, 0, static_cast<int>(std::clamp<int64_t>(deadline.remaining_ns() / 1'000'000, 1, slice_ms)));
  }
}

}  // namespace unisono
