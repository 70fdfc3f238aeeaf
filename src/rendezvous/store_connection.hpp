// One connection of a client to a TCPStore's server: opened, proven by TLS and a hello, and then a question at a time. Every wait ends at a
// deadline, and when the thread is interrupted.
#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "base/descriptor.hpp"
#include "base/interrupt.hpp"
#include "rendezvous/store_frames.hpp"
#include "transport/address.hpp"
#include "trust/tls.hpp"

namespace unisono {

// How long one call may wait, whatever it waits for.
struct Patience {
  Deadline deadline;
  InterruptWatch interrupts = {};
  std::stop_token stop = {};
};

struct StoreCaller {
  std::shared_ptr<const Trust> trust;
  StoreHello hello;
};

class StoreConnection {
 public:
  // StoreLostError: nobody listens there. PeerLostError, TimeoutError: it ended, or nobody answered; the next attempt may succeed.
  // AuthError, VersionError, ProtocolError: it will not.
  static Result<std::unique_ptr<StoreConnection>> open(const Address& address, const StoreCaller& caller, Patience& patience);
  StoreConnection(const StoreConnection&) = delete;

  // After an error the connection is of no use any more.
  Result<StoreFrame> ask(std::string_view frame, Patience& patience);
  bool is_quiet() const;  // it is there, and nothing has come unasked
  const StoreWelcome& welcome() const { return welcome_; }

 private:
  StoreConnection(Descriptor socket, const StoreCaller& caller);
  Status shake_hands(Patience& patience);
  Status greet(const StoreHello& hello, Patience& patience);
  Status await(short events, Patience& patience) const;

  Descriptor socket_;
  Tls tls_;
  StoreFrameReader reader_{most_frame_bytes};
  StoreWelcome welcome_;
};

// Keepalives tell within ten seconds that the other machine is gone, also on a connection that nothing is said on.
void prepare_store_socket(int socket);

}  // namespace unisono
