// One connection at a TCPStore's server: hands are shaken, the client says who it is, and then its frames are answered one after the other.
// Runs in the server's thread alone; nothing in it waits. The server that owns all sessions is told what becomes of each.
//
// It lives for as long as the server keeps it or one of its handlers is still to run.
#pragma once

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>
#include <deque>
#include <memory>
#include <string>

#include "base/descriptor.hpp"
#include "rendezvous/store_frames.hpp"
#include "rendezvous/store_table.hpp"
#include "transport/address.hpp"
#include "trust/strangers.hpp"
#include "trust/tls.hpp"

namespace unisono {

class StoreSession;

struct StoreSessionLimits {
  double stranger_s = 5;                  // for hands and hello
  size_t queued_bytes = 64_MiB;           // of answers that a client does not take
};

// What sessions have in common, and whom they tell.
class StoreSessions {
 public:
  virtual ~StoreSessions() = default;
  virtual void known(StoreSession& session, const StoreHello& hello) = 0;  // it has shown the secret and said who it is
  virtual void ended(StoreSession& session, const Status& why) = 0;        // and is not to be kept any longer
  virtual void changed() = 0;                                              // keys were set: somebody may wait for them

  asio::io_context io{1};
  std::shared_ptr<const Trust> trust;
  StoreTable table;
  StoreSessionLimits limits;
  StoreWelcome welcome;
};

class StoreSession : public std::enable_shared_from_this<StoreSession> {
 public:
  StoreSession(StoreSessions& sessions, uint64_t id, Descriptor socket);
  StoreSession(const StoreSession&) = delete;

  bool start();  // false: it cannot be watched
  void answer(const std::shared_ptr<const std::string>& frame);  // what it has waited for
  void close();

  uint64_t id() const { return id_; }
  bool is_known() const { return state_ == State::known; }
  bool names_our_job() const { return tls_.names_our_job(); }
  Stranger as_stranger() const { return {address_.network(), names_our_job(), since_ns_}; }
  const Address& address() const { return address_; }

 private:
  enum class State { stranger, known, refused, closed };

  void turn();
  Status advance();
  Status receive();
  Status take_frames();
  Status send();
  void arm();
  void set_timer(int64_t wait_ns);
  void time_is_over();
  Status handle(const StoreFrame& frame);
  Status greet(const StoreFrame& frame);
  Status perform(const StoreFrame& frame);
  Status await(const StoreFrame& frame);
  void queue(std::string frame) { queue(std::make_shared<const std::string>(std::move(frame))); }
  void queue(std::shared_ptr<const std::string> frame);
  void refuse(const Status& why);

  StoreSessions& sessions_;
  const uint64_t id_;
  const int64_t since_ns_;
  const Address address_;
  const int socket_;
  asio::posix::stream_descriptor watched_;  // owns the socket
  asio::steady_timer timer_;                // of a stranger, of waiting for keys, of one that was refused
  uint64_t timer_count_ = 0;                // a timer that was set anew may still have its old handler on the way
  Tls tls_;
  State state_ = State::stranger;
  bool hands_shaken_ = false, waits_ = false, reads_ = false, writes_ = false, turns_again_ = false;
  Status refusal_;
  StoreFrameReader reader_{most_hello_bytes};
  std::deque<std::shared_ptr<const std::string>> queue_;
  size_t queued_bytes_ = 0, sent_of_first_ = 0;
};

}  // namespace unisono
