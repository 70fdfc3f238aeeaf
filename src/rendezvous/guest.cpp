// See guest.hpp.
#include "rendezvous/guest.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace unisono {

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

// Its last word may say why.
Status went_away(const Guest& guest) {
  if (auto last = receive(guest.socket); last.ok() && last->message.kind == JoinKind::unable) return unable(last->message, guest.who);
  return {ErrorCode::init, fmt::format("rank {} ({}) went away while joining", guest.hello->rank, guest.who.process())};
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
