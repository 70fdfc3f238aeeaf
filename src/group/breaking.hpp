// Which fault breaks a group, on one host: the first that any member there sees or hears of. Rules without clock or socket; who tells other hosts, and when, is members.cpp's.
//
// A member writes the text into its own lane; then one word of the host's members decides which fault was the first; then that one goes into everybody's lane, where waiters look.
// Decided before anybody is told: who hears of it may leave at once, and who only sees that one leave is to name the same fault. Who decided may die, or be stopped, before it has told
// all: so whoever waits looks at the deciding word, too (learn).
//
// Thread-safe. But once this member has left, learn() and fault() may not be called: the lanes may be another group's by then. Takes no memory, but for the text of a fault.
// Order: the text is written before the deciding word is swapped in, with acquire-release; all words are loaded with acquire.
#pragma once

#include <mutex>
#include <optional>

#include "transport/lanes.hpp"
#include "unisono/status.hpp"

namespace unisono {

class Breaking {
 public:
  explicit Breaking(Lanes& lanes) : lanes_(lanes) {}

  enum class Report { stands, too_late, closed };
  Report report(const Status& fault);  // stands: it is the first on this host
  bool learn();                        // whether the group is broken, also where this member was not told yet
  bool is_broken() const { return lanes_.mine().abort.load(std::memory_order_acquire) != 0; }  // as far as this member was told
  Status fault() const;                // the one that stands; only where it is broken
  std::optional<Status> open_fault();  // the same, to be told to others; nothing once this member is leaving, which then tells it itself

  bool close();  // this member is leaving: nothing is written from here on. False where it was already.

 private:
  Lanes& lanes_;
  std::mutex mutex_;
  bool closed_ = false;
};

}  // namespace unisono
