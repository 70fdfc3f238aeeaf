// Timing messages between two ranks: both call with each other's rank, and one of them is the first.
#pragma once

#include <cstdint>

#include "doctor/facts.hpp"
#include "doctor/pair.hpp"
#include "group/world.hpp"
#include "unisono/group.hpp"

namespace unisono::tools {

struct RoundTrip {
  int64_t least_ns = 0, median_ns = 0;  // 0 on the second
};

// Small messages to and fro, a fifth of a second at most. Throws, also where a message does not come within `message_s`.
RoundTrip time_round_trips(int other, bool is_first, const GroupHandle& group, double message_s);

// Everything between the hosts of this rank and the other's, which takes about a second: in a group of their own, so that a failure ends nothing else. What
// went wrong stands in the result.
doctor::PairEnd measure_pair(const World& world, int other, const doctor::MachineFacts& facts, double message_s);

}  // namespace unisono::tools
