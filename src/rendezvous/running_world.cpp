// See running_world.hpp. Used by job_names.cpp; the answer is that of Sockets::verdict_on().
#include "rendezvous/running_world.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>

#include "rendezvous/trust_for.hpp"
#include "transport/opening.hpp"
#include "transport/sockets.hpp"

namespace unisono {
namespace {

constexpr int look_again_ms = 100;

// Waits until it can be read from or written to; false at the deadline.
bool wait_for(int socket, short events, const Deadline& deadline) {
  pollfd waiting{socket, events, 0};
  while (!deadline.passed())
    if (poll(&waiting, 1, look_again_ms) > 0) return true;
  return false;
}

Descriptor connect_to(const Address& to, const Deadline& deadline) {
  Descriptor connection(socket(to.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!connection) return {};
  if (connect(connection.number(), to.get(), to.bytes()) != 0 && errno != EINPROGRESS) return {};
  int error = 0;
  socklen_t bytes = sizeof(error);
  const bool is_up = wait_for(connection.number(), POLLOUT, deadline) && getsockopt(connection.number(), SOL_SOCKET, SO_ERROR, &error, &bytes) == 0 && error == 0;
  return is_up ? std::move(connection) : Descriptor();
}

Whether ask_at(const Address& to, const std::shared_ptr<const Trust>& trust, const SocketKey& key, const Deadline& deadline) {
  Descriptor connection = connect_to(to, deadline);
  if (!connection) return Whether::unknown;
  Opening opening(std::move(connection), trust, key);
  while (!opening.turn())
    if (!wait_for(opening.number(), opening.wants_to_write() ? POLLOUT : POLLIN, deadline)) return Whether::unknown;
  if (opening.is_open()) return Whether::there;
  return opening.heard_verdict() ? Whether::gone : Whether::unknown;
}

// The next word, which it is taken from.
std::string_view take_word(std::string_view& text) {
  const std::string_view word = text.substr(0, text.find(' '));
  text.remove_prefix(std::min(word.size() + 1, text.size()));
  return word;
}

// A name that was drawn, and a digest, are alike.
bool is_hexadecimal(std::string_view word) {
  constexpr size_t digits = 32;
  return word.size() == digits && word.find_first_not_of("0123456789abcdef") == word.npos;
}

}  // namespace

std::string RunningWorld::text() const { return fmt::format("{} {} {} {}", generation, job.substr(job.find(' ') + 1), digest, seat.text()); }

std::optional<RunningWorld> RunningWorld::parse(std::string_view text) {
  if (text.size() > most_entry_bytes) return std::nullopt;
  RunningWorld world;
  std::string_view rest = text;
  const std::string_view number = take_word(rest);
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), world.generation);
  if (error != std::errc() || end != number.data() + number.size() || world.generation < 1) return std::nullopt;
  const std::string_view name = take_word(rest);
  world.job = fmt::format("store {}", name);
  world.digest = take_word(rest);
  if (!is_hexadecimal(name) || !is_hexadecimal(world.digest)) return std::nullopt;
  const std::optional<Seat> seat = Seat::parse(rest);
  if (!seat) return std::nullopt;
  world.seat = *seat;
  return world.text() == text ? std::optional(world) : std::nullopt;
}

Whether ask_for(int rank, const RunningWorld& running, const std::string& added, const Deadline& deadline) {
  const auto addresses = addresses_in(running.seat.addresses);
  auto trust = trust_between_machines(fmt::format("{}{} {}", running.job, added, running.digest), "a rank of a running world is on another machine");
  if (!addresses || !trust.ok()) return Whether::unknown;
  const SocketKey key{.token = running.seat.probe, .group = 0, .use = inquiry_use, .from = rank, .to = running.seat.rank, .sealed = 1};
  for (const Address& to : *addresses) {
    constexpr double patience_s = 0.5;  // with one of them
    const Whether presence = ask_at(to, *trust, key, earlier(deadline, Deadline::in_seconds(patience_s)));
    if (presence != Whether::unknown) return presence;
  }
  return Whether::unknown;
}

}  // namespace unisono
