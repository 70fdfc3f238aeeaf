// See guest.hpp.
#include "rendezvous/guest.hpp"
#include "transport/fabric.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace unisono {

void admit_guests(Door& door, Guests& guests) {
  for (Visitor& visitor : door.admit()) {
    guests.push_back(std::make_unique<Guest>());
    guests.back()->socket = std::move(visitor.socket);
    guests.back()->who = visitor.who;
  }
}

// Of too many the oldest makes room for the next; a rank that is cut off so comes again.
void dismiss_silent_guests(Guests& guests) {
  constexpr int64_t most_silent_guests = 64;
  int64_t silent = std::ranges::count_if(guests, [](const auto& guest) { return guest->is_silent(); });
  std::erase_if(guests, [&](const auto& guest) {
    if (!guest->socket) return true;
    if (!guest->is_silent() || (silent <= most_silent_guests && !guest->speaks_by.passed())) return false;
    --silent;
    return true;
  });
}

Status already_running(const JoinRequest& request, const Descriptor& holder) {
  PeerIdentity who{0, geteuid()};
  if (holder)
    if (auto identity = identity_of(holder); identity.ok()) who = *identity;
  if (who.uid != geteuid())
    return {ErrorCode::auth, fmt::format("the meeting place of job \"{}\" is held by another user's process (uid {}, {})",
                                         request.job, who.uid, who.process())};
  return {ErrorCode::init, fmt::format("job \"{}\" is already running: its rank 0 is {}, and this process (pid {}) also "
                                       "calls itself rank 0; wait for it to end or choose another UNISONO_JOB",
                                       request.job, who.process(), getpid())};
}

Status unable(const JoinMessage& message, const PeerIdentity& who) {
  const Status said = message.said();
  return {said.code(), fmt::format("rank {} ({}) cannot join: {}", message.rank, who.process(), said.message())};
}

Status cannot_join(const JoinRequest& request, const Status& why) {
  return {why.code(), fmt::format("rank {} (pid {}) cannot join: {}", request.rank, getpid(), why.message()), request.rank};
}

// Its last word may say why.
Status went_away(const Guest& guest) {
  if (auto last = receive(guest.socket); last.ok() && last->message.kind == JoinKind::unable) return unable(last->message, guest.who);
  return {ErrorCode::init, fmt::format("rank {} ({}) went away while joining", guest.hello->rank, guest.who.process())};
}

Missing who_is_missing(const Seats& seats, const Gone& gone) {
  Missing missing;
  for (size_t index = 1; index < seats.size(); ++index) {
    const auto rank = static_cast<int>(index);
    const auto process = gone.find(rank);
    if (process != gone.end()) missing.add(rank, fmt::format("rank {} ({}) came and has ended", rank, process->second));
    else if (!seats[index]) missing.numbers.push_back(rank);
  }
  return missing;
}

// Of many that are gone a few are named, so that the rest is not cut off where the error is handed on.
Status not_all_came(const JoinRequest& request, const Missing& missing) {
  constexpr size_t most_named = 4;
  std::string gone;
  for (size_t index = 0; index < std::min(missing.gone.size(), most_named); ++index) gone += "; " + missing.gone[index];
  if (missing.gone.size() > most_named) gone += fmt::format("; and {} more came and are gone", missing.gone.size() - most_named);
  const bool all_came = missing.numbers.size() == missing.gone.size();
  return {ErrorCode::init, fmt::format("{} of {} ranks joined job \"{}\"; missing: {}{}.{}{}", request.size - static_cast<int>(missing.numbers.size()), request.size, request.job,
                                       fmt::join(missing.numbers, ", "), gone, all_came ? "" : " Were they started, with the same job and world size?", request.hint)};
}

void tell_guests(const Guests& guests, const JoinMessage& outcome, const Deadline& deadline) {
  JoinMessage to_others = outcome;
  if (outcome.kind == JoinKind::go) to_others.kind = JoinKind::retry;  // they came too late for this world
  for (const auto& guest : guests) {
    if (guest->hello) static_cast<void>(send(guest->socket, outcome, {}, deadline).ok());  // a guest that is gone needs no answer
    if (!guest->hello) mention(guest->socket, to_others);
  }
}

Result<std::optional<JoinMessage>> word_of(Guest& guest) {
  auto received = receive(guest.socket);
  if (!guest.hello) {
    if (!received.ok()) guest.socket.reset();
    return std::optional<JoinMessage>();
  }
  if (!received.ok()) return went_away(guest);
  if (received->message.kind == JoinKind::unable) return unable(received->message, guest.who);
  return std::optional(received->message);
}

Status not_all_went_on(const JoinRequest& request, const std::vector<int>& unready) {
  return {ErrorCode::init, fmt::format("all {} ranks of job \"{}\" met, but these did not go on in time: {}. Are they stopped?", request.size, request.job,
                                       fmt::join(unready, ", "))};
}

Status not_all_ready(const JoinRequest& request, const Seats& seats) {
  std::vector<int> ranks;
  for (const Guest* guest : seats)
    if (guest && !guest->ready) ranks.push_back(guest->hello->rank);
  return not_all_went_on(request, ranks);
}

Status store_has_not_answered(const JoinRequest& request) {
  return {ErrorCode::init, fmt::format("not all of {} ranks joined job \"{}\", and the store by which they meet has not answered", request.size, request.job)};
}

// Whether a guest and this process mean the same world.
Status means_the_same_world(const JoinMessage& hello, const PeerIdentity& who, const JoinRequest& request, const JoinMessage& mine) {
  if (std::string_view(hello.version) != mine.version)
    return {ErrorCode::version, fmt::format("rank {} ({}) speaks {}, rank {} (pid {}) speaks {}; use one version of "
                                            "the library", hello.rank, who.process(), hello.version, request.rank, getpid(), mine.version)};
  if (hello.size != request.size)
    return {ErrorCode::init, fmt::format("rank {} ({}) says there are {} ranks, rank {} (pid {}) says {}", hello.rank,
                                         who.process(), hello.size, request.rank, getpid(), request.size)};
  if (hello.rank < 0 || hello.rank >= request.size)
    return {ErrorCode::init, fmt::format("{} calls itself rank {} in a world of {}", who.process(), hello.rank, request.size)};
  if (hello.hosts != mine.hosts)
    return {ErrorCode::init, fmt::format("UNISONO_PRETEND_HOSTS is \"{}\" on rank {} ({}) and \"{}\" on rank 0 (pid {}); give all ranks the same",
                                         hello.text, hello.rank, who.process(), mine.text, getpid())};
  if (mine.hosts != 0 && (hello.fabric != 0) != (mine.fabric != 0))
    return {ErrorCode::init, differs_in_fabric(fmt::format("rank {} ({})", hello.rank, who.process()), hello.fabric != 0, fmt::format("rank {} (pid {})", request.rank, getpid()))};
  return Status::success();
}

// The socket is looked at after the pidfd was opened, so a pid that was used again is not watched.
Descriptor process_of(const Guest& guest) {
  if (guest.who.pid <= 0) return {};
  Descriptor pidfd(static_cast<int>(syscall(SYS_pidfd_open, guest.who.pid, 0)));
  char byte;
  const bool gone = recv(guest.socket.number(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
  return gone ? Descriptor() : std::move(pidfd);
}

}  // namespace unisono
