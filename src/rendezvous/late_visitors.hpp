// Rank 0, after joining: whoever knocks now is told that the job runs already, or to come again if it is a member that left.
// Nobody is waited for: the control thread, which also watches for deaths, tells when a visitor has spoken.
#pragma once

#include <vector>

#include "rendezvous/join.hpp"

namespace unisono {

class LateVisitors {
 public:
  LateVisitors(Joined& joined, const JoinRequest& request) : joined_(joined), request_(request) {}
  LateVisitors(const LateVisitors&) = delete;

  std::vector<int> welcome();    // lets in who knocks; the sockets to watch from now on
  bool answer(int socket);       // it has spoken or gone away; false when it is none of ours (any more)
  void dismiss_silent();         // those who have said nothing for long

 private:
  struct Guest {
    Descriptor socket;
    Deadline deadline;
  };

  Joined& joined_;
  const JoinRequest& request_;
  std::vector<Guest> guests_;  // the oldest first
};

}  // namespace unisono
