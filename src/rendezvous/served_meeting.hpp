// The store that rank 0 serves, for ranks of several machines to meet by: how it begins, and what becomes of it where they could not join. See group/launch.cpp.
//
// A rank on another machine may come when the others have given up already, and should hear why. Nothing can tell it that but rank 0's own process, if that lives on: what
// lies in a store that outlives all of them would be heard by the next run as well, for to a rank that comes first both look the same. So rank 0 keeps serving,
// until every rank has heard it, or rank 0 comes again, in this process or another, or the deadline of joining has passed. Each rank hears it once; one that comes
// again waits for the next store, as does one that has left a world (roster.hpp).
#pragma once

#include <memory>
#include <string>

#include "rendezvous/tcp_store.hpp"

namespace unisono {

// The store of an attempt that failed ends for this one.
Result<std::shared_ptr<distributed::TCPStore>> serve_meeting(const TcpStoreRequest& request, const std::string& prefix);

struct FailedMeeting {
  std::string prefix;
  int size = 1;
  Deadline deadline;  // of joining
  Status why;
};

// Waits a second for those who are there to hear it; goes on in the background for those who come later.
void tell_latecomers(std::shared_ptr<distributed::TCPStore> served, FailedMeeting failed);

}  // namespace unisono
