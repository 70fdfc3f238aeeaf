// A connection to a rank on its way to one of several addresses. They are tried in order: the next one when the last has failed, or has not answered for
// a quarter of a second, beside it. The first that answers is spoken to; if that is not the rank, the others go on. So an address that leads nowhere,
// or to somebody else (every machine has a docker0), costs little.
//
// A listener that many strangers knock at may take this one for one of them and close its connection before it has proven who it is: then all are tried
// again, after a rest.
//
// Only one is ever told what the connection is for, so that the other end does not take one for it that this end has given up.
//
// Used by one thread at a time; nothing in it blocks.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport/sockets.hpp"

namespace unisono {

class Connecting {
 public:
  // `patience_s`: until an address that does not answer at all is given up.
  Connecting(Sockets& sockets, std::vector<Address> addresses, const SocketKey& key, double patience_s = 30);

  bool turn();  // as far as it goes now; true: it is open, or cannot be
  void arm();   // somebody is about to sleep until a turn may do something
  const Status& state() const { return state_; }  // why it cannot be: each address with what became of it
  Wire take();
  const Address& address() const { return attempts_[current_].to; }  // once it is open
  int64_t answered_ns(const std::function<bool(const Address&)>& counts) const;  // when somebody last answered at an address that counts; 0: nobody has
  bool was_short() const { return was_short_; }                      // nobody was asked, for lack of descriptors or memory here

 private:
  enum class Stage { waits, connects, answers, failed };
  struct Attempt {
    Address to;
    Stage stage = Stage::waits;
    Descriptor socket = {};
    Deadline silent_until = {};
    bool was_cut_off = false;  // it answered, and then closed the connection without a word
    bool was_refused = false;  // by the kernel there: nobody listens
    int64_t answered_ns = 0;   // the last time
    std::string why = {};
  };
  void begin();
  void begin_next();
  void begin_again();
  void look();
  bool speak();
  void fail(Attempt& attempt, const std::string& why);
  void fail(Attempt& attempt, int error);
  void drop_others();
  bool is_found() const { return opening_ && opening_->is_known(); }  // there is nothing to decide any more
  Status no_way() const;

  Sockets& sockets_;
  SocketKey key_;
  double patience_s_;
  Deadline tries_until_;
  int64_t rest_ns_ = 20'000'000;  // before the next round
  std::vector<Attempt> attempts_;
  size_t begun_ = 0;          // so many of them
  int64_t next_at_ns_ = 0;    // when the next is begun, though none has failed
  size_t current_ = 0;        // that is spoken to
  std::unique_ptr<Opening> opening_;
  int64_t begun_to_speak_ns_ = 0;
  bool was_short_ = false;
  bool all_strangers_ = true;  // of those that failed, every one answered, and none had the secret
  Status state_;
};

}  // namespace unisono
