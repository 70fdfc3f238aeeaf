// A connection on its way: hands are shaken where there is trust, the connector says what it is for, the other side answers, and TLS is left
// unless the connection is to stay sealed. Without trust, on the loopback interface, it says what it is for and is open. What is said:
// greeting.hpp.
//
// Used by one thread at a time; nothing in it blocks.
#pragma once

#include <memory>
#include <string>

#include "transport/greeting.hpp"
#include "transport/wire.hpp"
#include "unisono/status.hpp"

namespace unisono {

class Opening {
 public:
  Opening(Descriptor socket, std::shared_ptr<const Trust> trust, const SocketKey& key);  // connects
  Opening(Descriptor socket, std::shared_ptr<const Trust> trust, int me);                // accepts

  bool turn();  // as far as it goes now; true: it is open, or cannot be, or asks
  bool is_open() const { return stage_ == Stage::open; }
  bool asks() const { return stage_ == Stage::asking && state_.ok(); }  // accepts: what it is for is known, and waits for an answer
  void answer(const Status& verdict);
  bool is_known() const { return stage_ > Stage::shaking; }  // the other side has the job's secret, or none is needed
  bool names_our_job() const { return is_known() || (tls_ && tls_->names_our_job()); }
  const SocketKey& key() const { return key_; }  // accepts: once it asks
  bool heard_verdict() const { return heard_verdict_; }  // connects: what went wrong, if anything did, the other side has said
  const Status& state() const { return state_; }
  int number() const { return socket_.number(); }
  bool wants_to_write() const { return wants_to_write_; }  // what it waits for; otherwise for something to read
  Wire take();

 private:
  enum class Stage { shaking, saying, hearing_answer, hearing_head, hearing, asking, answering, leaving, open };
  void step();
  bool say();
  bool hear(size_t bytes);
  void check_head();
  void check_greeting();
  void check_answer();
  void refuse(const Status& why);
  std::span<const std::byte> heard() const { return std::as_bytes(std::span(words_)); }
  void fail(const Status& why) { state_ = why; }

  Descriptor socket_;
  std::unique_ptr<Tls> tls_;  // destroyed before the socket
  SocketKey key_;
  Stage stage_;
  std::string words_;  // what is being said or heard
  size_t moved_ = 0;   // of it
  bool connects_, wants_to_write_ = false, heard_verdict_ = false;
  Status verdict_, state_;
};

}  // namespace unisono
