// One ordered stream of bytes between this rank and another, for one group and one use. Letters and the steps of calls have streams
// of their own, so a letter that nobody reads never holds up a call.
//
// Nothing here waits: what is sent or to be received is posted, and stays where it is until it has been moved by turns. Sends go
// out in the order posted. A receive says where the next bytes are to go before they have come, which is what fabrics want; there is
// one at a time, and it may take less or more than one send had, though the same is fastest.
//
// Not thread-safe: used under the token of whom it serves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "unisono/status.hpp"

namespace unisono {

class Channel {
 public:
  using Sent = std::span<const std::byte>;
  static constexpr size_t most_head_bytes = 32;

  Channel() = default;
  Channel(const Channel&) = delete;
  virtual ~Channel() = default;

  virtual Status open() = 0;  // before the first send: takes what memory it needs, and is done when it was done before
  virtual void post_send(Sent head, Sent body) = 0;  // the head, of at most most_head_bytes, is copied
  virtual void post_receive(std::span<std::byte> target) = 0;
  virtual bool turn() = 0;    // moves what can be moved now; true when something was
  virtual void arm() = 0;     // somebody is about to sleep: its bell rings when a turn may move what is posted
  virtual void drop() = 0;    // what was posted, whose memory is its owner's again; nothing goes through here any more
  virtual void close() = 0;   // gives back what open() took; nobody may use it any more
  virtual void finish() = 0;  // nothing more will be posted: the other end learns that nothing more will come
  virtual bool holds_more() = 0;     // whether bytes may still come of an end that is gone: they were sent, and count
  virtual bool is_delivered() const { return true; }  // the other end's kernel has all that was sent, as far as can be known
  virtual Status state() const = 0;  // ok, or why nothing more will come or go
  virtual int64_t unsent_bytes() const = 0;      // of what is posted, heads included
  virtual int64_t unreceived_bytes() const = 0;  // of what is to be received

  uint64_t posted() const { return posted_; }  // sends, ever
  uint64_t sent() const { return sent_; }      // of these, the first so many have left their place
  bool sending() const { return sent_ != posted_; }
  bool receiving() const { return receiving_; }

 protected:
  uint64_t posted_ = 0, sent_ = 0;
  bool receiving_ = false;
};

}  // namespace unisono
