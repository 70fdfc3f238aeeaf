// AF_UNIX sockets with abstract names: nothing on disk, whole messages, descriptors beside them, and a peer whose user
// and process the kernel vouches for.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/descriptor.hpp"
#include "unisono/status.hpp"

namespace unisono {

struct PeerIdentity {
  int pid = 0;  // 0 when the peer lives in another pid namespace
  uid_t uid = 0;

  std::string process() const { return pid > 0 ? "pid " + std::to_string(pid) : "pid unknown"; }
};

// What became of an attempt; `unavailable` means nobody answers there now and it may be tried again. `exhausted`: there is
// somebody, but no descriptor left for it.
enum class Attempt { done, unavailable, taken, exhausted };

struct SocketOutcome {
  Attempt attempt = Attempt::done;
  Descriptor socket;
};

Result<SocketOutcome> listen_at(const std::string& name);   // taken: somebody else has the name
Result<SocketOutcome> connect_to(const std::string& name);  // unavailable: nobody listens yet, or many stand in line
void stop_listening(const Descriptor& listener);            // whoever connects is refused, even while a forked child holds it
SocketOutcome accept_from(const Descriptor& listener);      // unavailable: nobody is waiting
Result<PeerIdentity> identity_of(const Descriptor& socket);

// One message of exactly bytes.size(), with up to four descriptors. TimeoutError when the peer takes nothing until the deadline
// (one that has passed: a single try), ResourceError when the kernel carries no more descriptors for this user until then.
struct Outgoing {
  std::span<const std::byte> bytes;
  std::span<const int> descriptors = {};
};
Status send_message(const Descriptor& socket, const Outgoing& outgoing, const Deadline& deadline);

struct Received {
  size_t bytes = 0;  // 0: the peer has closed
  std::vector<Descriptor> descriptors;
};
Result<Received> receive_message(const Descriptor& socket, std::span<std::byte> bytes);

// Waits until the descriptor can be read, the deadline has passed, or the thread was interrupted.
enum class Readable { yes, late, interrupted };
Readable wait_readable(int descriptor, const Deadline& deadline);

}  // namespace unisono
