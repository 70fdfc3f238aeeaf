// A call that is made again and again, and what was decided of it the first time.
//
// Who writes: whoever prepares it, before the first call; then only the holder of the group's runner token, and only the decision
// and what `before` fetches.
#pragma once

#include <optional>

#include "engine/call.hpp"
#include "group/announcement.hpp"

namespace unisono {

struct Plan;

// The algorithm of a call and its announcement: all that can be said of it before it is made.
struct Decision {
  const Plan* plan = nullptr;  // null: to be decided anew
  Announcement announcement;
  uint32_t hash = 0;           // what travels for the announcement: see signatures.hpp
  uint32_t known_in_era = 0;   // in which all members are known to mean the same by it
};

struct StandingCall {
  Call call;
  std::optional<Call> before;  // fetches what the call needs, each time anew; the call is then decided anew as well
  Decision decision;
};

}  // namespace unisono
