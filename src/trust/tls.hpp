// One connection's TLS, over a socket that does not block: TLS 1.3 by the job's key alone, with X25519, without certificates or tickets.
//
//   The connector shows an identity in the clear: job and both ends. Who accepts refuses another job, itself as the connector, and one that
//   looks for somebody else, so that nothing can be sent back or passed on to another. Neither goes on without proof of the key.
//   After leave() the connection carries plain bytes. Nobody sends such a byte before both have said, and heard, that TLS is over; and TLS
//   reads no byte further than its own last record, so that none gets lost.
//
//   Until hands are shaken it takes at most 64 KiB: whoever sends more is a stranger who wants memory.
//
// Used by one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "trust/identity.hpp"
#include "trust/trust.hpp"
#include "unisono/status.hpp"

struct ssl_st;
struct ssl_session_st;

namespace unisono {

class Tls {
 public:
  enum class Role { connects, accepts };
  Tls(std::shared_ptr<const Trust> trust, int socket, Role role, TlsEnds ends);  // who accepts knows only `to` at first
  Tls(const Tls&) = delete;
  ~Tls();

  bool shake_hands();  // as far as it goes now; true: done
  int64_t write(std::span<const std::byte> bytes);  // how much went; what did not go is offered again, and less of it at first goes nowhere
  int64_t read(std::span<std::byte> target);        // how much came
  bool leave();                                     // as far as it goes now; true: what follows is plain
  bool holds_bytes() const;                         // read from the socket, and not yet from here
  bool has_ended() const { return ended_; }         // the other end has said that nothing more comes
  bool wants_to_write() const { return wants_to_write_; }  // what it waits for; otherwise for something to read
  const Status& state() const { return state_; }    // why it cannot go on
  const TlsEnds& ends() const { return ends_; }
  int renewals() const { return renewals_; }        // of the key by which it sends
  bool names_our_job() const { return ends_.from != TlsEnds::nobody; }  // accepts: the connector has said so, and proven nothing yet

 private:
  friend struct TlsCallbacks;
  friend struct TlsSocket;
  struct Free {
    void operator()(ssl_st* ssl) const;
  };
  bool settle(int result, const char* doing);
  Status refusal(const char* doing) const;
  void forget_key();
  void renew_key();

  std::shared_ptr<const Trust> trust_;
  Role role_;
  TlsEnds ends_;
  std::string identity_;     // as the connector shows it
  Status unknown_;           // why an identity was not accepted
  int socket_;
  int64_t received_bytes_ = 0;  // until hands were shaken
  std::unique_ptr<ssl_st, Free> ssl_;
  HelloLog::Random hello_ = {};  // accepts: of the connector's first words
  bool noted_ = false;           // in the log of these
  size_t unsent_bytes_ = 0;  // in a record that the socket did not take
  int64_t since_renewal_bytes_ = 0;  // sent by the key at hand
  int renewals_ = 0;
  bool wants_to_write_ = false, ended_ = false, said_end_ = false;
  Status state_;
};

ssl_ctx_st* make_tls_context();  // null where OpenSSL offers too little; owned by the caller

}  // namespace unisono
