// A connection on its way: hands are shaken where there is trust, the connector says what it is for, the other side answers, and TLS is left
// unless the connection is to stay sealed. Without trust, on the loopback interface, it says what it is for and is open. What is said:
// docs/wire_format.md.
//
// Used by one thread at a time; nothing in it blocks.
#pragma once

#include <memory>
#include <string>

#include "transport/wire.hpp"
#include "unisono/status.hpp"

namespace unisono {

// What a connection is for; both ends say the same. A value.
struct SocketKey {
  uint64_t token = 0;  // of the process that listens
  uint64_t group = 0;
  int32_t use = 0;
  int32_t from = 0, to = 0;  // ranks; `from` connects
  int32_t sealed = 0;        // 1: it stays in TLS
  int32_t number = 0, of = 1;  // the how-manieth of several connections for the same

  bool operator==(const SocketKey&) const = default;
};

class Opening {
 public:
  Opening(Descriptor socket, std::shared_ptr<const Trust> trust, const SocketKey& key);  // connects
  Opening(Descriptor socket, std::shared_ptr<const Trust> trust, int me);                // accepts

  bool turn();  // as far as it goes now; true: it is open, or cannot be, or asks
  bool is_open() const { return stage_ == Stage::open; }
  bool asks() const { return stage_ == Stage::asking && state_.ok(); }  // accepts: what it is for is known, and waits for an answer
  void answer(const Status& verdict);
  bool is_known() const { return stage_ > Stage::shaking; }  // the other side has the job's secret, or none is needed
  const SocketKey& key() const { return key_; }  // accepts: once it asks
  const Status& state() const { return state_; }
  int number() const { return socket_.number(); }
  bool wants_to_write() const { return wants_to_write_; }  // what it waits for; otherwise for something to read
  Wire take();

 private:
  enum class Stage { shaking, saying, hearing_answer, hearing, asking, answering, leaving, open };
  struct Greeting;
  struct Answer;
  void step();
  bool say();
  bool hear(size_t bytes);
  void check_greeting();
  void check_answer();
  void fail(const Status& why) { state_ = why; }

  Descriptor socket_;
  std::unique_ptr<Tls> tls_;  // destroyed before the socket
  SocketKey key_;
  Stage stage_;
  std::string words_;  // what is being said or heard
  size_t moved_ = 0;   // of it
  bool connects_, wants_to_write_ = false;
  Status verdict_, state_;
};

}  // namespace unisono
