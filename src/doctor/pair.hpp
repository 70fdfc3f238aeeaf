// Two hosts and what was measured between them, judged by pure functions. Who measures: tools/doctor/measure.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "doctor/row.hpp"

namespace unisono::doctor {

// What one of the two ends knows; goes from there to rank 0 as it is, since all ranks have one version of the library. A value.
struct PairEnd {
  int32_t rank = 0;
  int32_t reaches = 1;           // whether this end's host could connect to the other's when they joined
  int32_t connected = 0;         // this end opened the connection
  int32_t connections = 0;       // that carried data
  int32_t interface_mtu = 0, path_mtu = 0, segment_bytes = 0;  // as TCP has it; 0: unknown
  int64_t interface_speed_mbit = 0;                            // 0: unknown
  int64_t retransmits = 0;                                     // of this end, during the test
  int64_t sent_bytes = 0;                                      // all that this end sent during the test
  int64_t timed_bytes = 0, timed_ns = 0;                       // of the largest messages, and how long the other end took to have them
  int64_t least_round_trip_ns = 0, median_round_trip_ns = 0;   // of small messages; the first end's
  int64_t most_receive_bytes = 0, most_send_bytes = 0;         // tcp_rmem and tcp_wmem, the third number; 0: unknown
  int64_t receive_line[3] = {}, send_line[3] = {};             // all of them
  char here[64] = {}, there[64] = {};                          // addresses of the connection that carried most
  char interface[32] = {};
  char error[512] = {};                                        // why it was not measured, or not all of it
};

struct PairFacts {
  std::string first, second;  // names of the hosts
  PairEnd from, to;           // the first's, the second's

  const PairEnd& end(bool of_second) const { return of_second ? to : from; }
};

double megabits_per_second(const PairEnd& end);  // that this end sent; 0: not measured

std::vector<Row> check_pair(const PairFacts& facts);
std::string describe_pair(const PairFacts& facts);  // "one (rank 0, 10.0.0.1 at eth0) and two (…), one connected"

// Which pairs of so many hosts are measured, in rounds; the pairs of a round are measured at the same time and have no host in common. All pairs, one after the other,
// of up to eight hosts; of more, each host with the next, going round, in two or three rounds.
using HostPair = std::pair<int, int>;
std::vector<std::vector<HostPair>> rounds_of_pairs(int hosts);
inline constexpr int most_hosts_for_all_pairs = 8;

// Ranks of one host.
struct NeighbourFacts {
  int ranks = 1;
  int first = 0, second = 0;  // the two that were timed
  int64_t least_round_trip_ns = 0, median_round_trip_ns = 0;
  int readers_refused = 0;  // ranks that may not read the memory of all others here
  bool reads_are_off = false;
  std::string error = {};
};
Row check_neighbours(const NeighbourFacts& facts);

}  // namespace unisono::doctor
