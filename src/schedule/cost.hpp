// What a set of schedules would cost: a walk along the critical path under a simple model of latency and bandwidth.
// Good for comparing algorithms and for seeing where time goes; a measurement overrules it.
#pragma once

#include <cstdint>
#include <span>

#include "schedule/schedule.hpp"

namespace unisono {

// The defaults are one machine's shared memory, also for messages within a host, and TCP on its loopback between hosts.
struct CostModel {
  double flag_ns = 100;                 // from a publication to whoever awaits it
  double copy_ns_per_byte = 0.05;       // within one core's caches
  double reduce_ns_per_byte = 0.02;     // each operand after the first
  double peer_read_ns_per_byte = 0.11;  // lines that another core has written
  double ring_ns = 500;                 // a message within a host, from its send to its receive
  double ring_ns_per_byte = 0.2;        // a rank's sends go out one after the other
  double link_ns = 10'000;              // a message between hosts, for the first byte
  double link_ns_per_byte = 0.5;        // all ranks of a host share its link, which takes one message after the other each way
};

struct Cost {
  double time_ns = 0;      // until the last rank is done
  int rounds = 0;          // longest chain of publications and messages
  int64_t sent_bytes = 0;  // in messages, by the busiest rank
  int64_t link_bytes = 0;  // to other hosts, by the busiest host
  int64_t read_bytes = 0;  // from peers' memory, by the busiest rank
};

// `bytes` is what schedule.hpp calls data, or one piece where the collective works in pieces. One tile carries it all:
// tiles in flight only overlap what the walk adds up. `widened` is how many times as long a partial is as what it was made of: 2 for 16-bit
// floats. The schedules must have passed verify.
Cost cost(std::span<const Schedule> all_ranks, int64_t bytes, const CostModel& model, int widened = 1);

}  // namespace unisono
