// What a member that is gone still owes to a call: a rule without clock or socket, used by trouble.cpp and by the simulation of tests/torture/breaking_world.hpp.
//
// A member that has finished the call has given what it had to give, and may be gone; unless a part of that was still on its way when its machine fell silent. Of a member on
// another host it may not be known how far it came: its mates tell that, if it has any. Then it owes its part once nothing more can come from it, or nothing has moved for a while.
#pragma once

#include <cstdint>

namespace unisono {

struct GoneMember {
  bool is_here = false;         // on this host: nothing of it is on a wire
  bool knows_how_far = false;   // it came; always of one on this host
  bool has_finished = false;    // this call, if that is known
  bool is_silent = false;       // its machine
  bool is_awaited = false;      // a part of this call is to come from it
  bool has_no_more = false;     // what it sent before it ended has come
  bool has_been_waited_for = false;  // for as long as better news may take
};

enum class Owed : uint8_t { nothing, its_part, what_it_sent };

constexpr Owed owed_by(const GoneMember& member) {
  if (member.knows_how_far && member.has_finished)
    return !member.is_here && member.is_silent && member.is_awaited ? Owed::what_it_sent : Owed::nothing;
  if (member.knows_how_far) return Owed::its_part;
  return member.has_no_more || member.is_silent || member.has_been_waited_for ? Owed::its_part : Owed::nothing;
}

}  // namespace unisono
