// The meeting place as rank 0 keeps it: who is let in, how many at a time, and what is said of those who are not.
//
// Anybody on the machine can connect to an abstract name, as often and as fast as it likes. So nothing here waits, nothing is
// done for another user but closing its connection, one look lets in a bounded number, and the log gets a line a minute.
#pragma once

#include <vector>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "transport/local_socket.hpp"

namespace unisono {

struct Visitor {
  Descriptor socket;
  PeerIdentity who;
};

class Door {
 public:
  Door() = default;  // closed
  Door(Descriptor listener, Log log);

  // Those of our own user that are waiting, up to a few dozen at a time.
  std::vector<Visitor> admit();
  // Of the last look. Whoever has other things to do than answering the door rests after both of these.
  bool is_crowded() const { return crowded_; }      // more may be waiting than were let in
  bool is_exhausted() const { return exhausted_; }  // no descriptor was left: one visitor was sent away
  int number() const { return listener_.number(); }
  void close();            // whoever connects from now on is refused, even while a forked child holds a copy
  void close_in_child();   // the copy of a forked child, which stays the parent's to close

 private:
  void turn_away(const PeerIdentity& who);
  void turn_away_one_without_descriptor();

  Descriptor listener_;
  Descriptor spare_;  // given up for a moment when no descriptor is left, so that who is waiting can be sent away
  Log log_;
  bool crowded_ = false, exhausted_ = false;
  int64_t turned_away_ = 0;  // since the last line about it
  Deadline silent_until_{0};
};

}  // namespace unisono
