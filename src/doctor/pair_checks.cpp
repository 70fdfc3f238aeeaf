// What the numbers between two hosts mean. See pair.hpp.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/legible.hpp"
#include "base/sizes.hpp"
#include "doctor/machine_checks.hpp"
#include "doctor/pair.hpp"

namespace unisono::doctor {
namespace {

std::string text_in_field(std::span<const char> field) { return legible(unisono::text_in(field)); }

std::string microseconds(int64_t ns) { return ns >= 10'000'000 ? fmt::format("{:.1f} ms", static_cast<double>(ns) * 1e-6) : fmt::format("{:.1f} µs", static_cast<double>(ns) * 1e-3); }

std::string rate(double mbit) { return mbit >= 1000 ? fmt::format("{:.2f} Gbit/s", mbit * 1e-3) : fmt::format("{:.1f} Mbit/s", mbit); }

bool was_measured(const PairFacts& facts) { return facts.from.timed_ns > 0 && facts.to.timed_ns > 0; }
bool was_pinged(const PairFacts& facts) { return facts.from.least_round_trip_ns > 0; }

std::string error_of(const PairFacts& facts) {
  const std::string first = text_in_field(facts.from.error), second = text_in_field(facts.to.error);
  if (first.empty()) return second;
  return second.empty() || second == first ? first : fmt::format("{}: {}; {}: {}", facts.first, first, facts.second, second);
}

Row not_measured(const char* name, const PairFacts& facts) {
  const std::string why = error_of(facts);
  return {name, Verdict::note, "unknown: " + (why.empty() ? "it was not measured" : why)};
}

Row check_reachability(const PairFacts& facts) {
  if (facts.from.reaches && facts.to.reaches) return {"reachability", Verdict::ok, fmt::format("{} reaches {}, and {} reaches {}", facts.first, facts.second, facts.second, facts.first)};
  const std::string& outside = facts.from.reaches ? facts.first : facts.second;
  const std::string& inside = facts.from.reaches ? facts.second : facts.first;
  if (!facts.from.reaches && !facts.to.reaches)
    return {"reachability", Verdict::problem, "neither reaches the other", "open the ports of UNISONO_PORT_RANGE in the firewalls of both"};
  return {"reachability", Verdict::warning, fmt::format("{} reaches {}, but not the other way: {} opens all connections", outside, inside, outside),
          fmt::format("on {}: export UNISONO_PORT_RANGE=20000-20063 and let TCP connections to these ports in; behind NAT: UNISONO_ADVERTISE", outside)};
}

// Small messages pass and large ones do not: long packets are lost on the way, and nobody is told.
Row check_exchange(const PairFacts& facts) {
  const std::string error = error_of(facts);
  if (error.empty()) return {"exchange", Verdict::ok, "messages of all sizes passed"};
  const bool looks_like_a_hole = was_pinged(facts) && !was_measured(facts);
  return {"exchange", Verdict::problem, (looks_like_a_hole ? "small messages passed and large ones did not: " : "messages did not pass: ") + error,
          looks_like_a_hole ? "the way may lose long packets without a word: as root on both: sysctl -w net.ipv4.tcp_mtu_probing=1, or ip link set dev NAME mtu 1280"
                            : "see what the error names; UNISONO_LOG=info tells more"};
}

Row check_latency(const PairFacts& facts) {
  if (!was_pinged(facts)) return not_measured("latency", facts);
  constexpr int64_t of_one_room_ns = 1'000'000;
  const int64_t least = facts.from.least_round_trip_ns;
  Row row{"latency", Verdict::ok, fmt::format("round trip {} at least, {} in the median", microseconds(least), microseconds(facts.from.median_round_trip_ns))};
  if (least < of_one_room_ns) return row;
  row.verdict = Verdict::note;
  row.found += ": more than between machines of one room";
  return row;
}

Row check_bandwidth(const PairFacts& facts) {
  if (!was_measured(facts)) return not_measured("bandwidth", facts);
  constexpr double little_mbit = 100;
  const double there = megabits_per_second(facts.from), back = megabits_per_second(facts.to), least = std::min(there, back);
  const int64_t speed = std::min(facts.from.interface_speed_mbit, facts.to.interface_speed_mbit);
  Row row{"bandwidth", Verdict::ok, fmt::format("{} from {} to {}, {} back{}", rate(there), facts.first, facts.second, rate(back),
                                                speed > 0 ? fmt::format("; the interfaces say {}", rate(static_cast<double>(speed))) : "")};
  const auto raise_to = [&](Verdict verdict, std::string found, std::string advice) {
    if (verdict <= row.verdict) return;
    row.verdict = verdict;
    row.found += std::move(found);
    row.advice = std::move(advice);
  };
  if (least < little_mbit) raise_to(Verdict::warning, ": low for a network of machines that compute together", "see the interface, and whether something limits its rate: ethtool NAME; tc qdisc show dev NAME");
  if (speed > 0 && least < 0.1 * static_cast<double>(speed))
    raise_to(Verdict::warning, ": less than a tenth of what the interfaces say", "see retransmits and tcp_memory below, and who else uses the network; UNISONO_SOCKETS_PER_PEER=4 helps where one connection is limited");
  if (std::max(there, back) > 2 * least) raise_to(Verdict::note, ": one way is more than twice as fast as the other", "see duplex and errors: ethtool -S NAME; ip -s link");
  if (speed > 0 && least < 0.5 * static_cast<double>(speed)) raise_to(Verdict::note, ": less than half of what the interfaces say", "UNISONO_SOCKETS_PER_PEER=4 helps where one connection is limited");
  return row;
}

// Each way by itself: what a wire loses one way is not made up for by what went well the other way.
Row check_retransmits(const PairFacts& facts) {
  if (facts.from.connections == 0 && facts.to.connections == 0) return not_measured("retransmits", facts);
  constexpr double much = 0.001;
  const int64_t segment = std::max<int64_t>(std::min(facts.from.segment_bytes, facts.to.segment_bytes), 500);
  Row row{"retransmits", Verdict::ok, {}};
  for (const bool second : {false, true}) {
    const PairEnd& end = facts.end(second);
    const double sent = static_cast<double>(end.sent_bytes) / static_cast<double>(segment);
    row.found += fmt::format("{}{} of about {:.0f} segments from {}", second ? ", " : "", end.retransmits, sent, second ? facts.second : facts.first);
    if (end.retransmits == 0) continue;
    row.verdict = std::max(row.verdict, static_cast<double>(end.retransmits) > much * sent ? Verdict::warning : Verdict::note);
  }
  if (row.verdict == Verdict::warning)
    row.advice = "packets are lost on the way: look for errors and drops with ip -s link and ethtool -S NAME, for a rate limit with tc qdisc show, and at the switch";
  return row;
}

Row check_path_mtu(const PairFacts& facts) {
  constexpr int heads_v6 = 60, options = 40;  // IPv6 and TCP; timestamps and the like
  constexpr int longest_packet = 65535;       // whatever an interface would take: loopback has 65536
  if (facts.from.path_mtu == 0 || facts.to.path_mtu == 0) return not_measured("mtu", facts);
  Row row{"mtu", Verdict::ok, {}};
  for (const bool second : {false, true}) {
    const PairEnd& end = facts.end(second);
    const std::string& host = second ? facts.second : facts.first;
    row.found += fmt::format("{}{}: {} {}, path {}, segments of {}", second ? "; " : "", host, text_in_field(end.interface), end.interface_mtu, end.path_mtu, end.segment_bytes);
    const bool is_narrow = end.interface_mtu > 0 && end.path_mtu < std::min(end.interface_mtu, longest_packet);
    const bool has_shrunk = end.segment_bytes + heads_v6 + options < std::min(end.path_mtu, facts.end(!second).interface_mtu);
    if (!is_narrow && !has_shrunk) continue;
    row.verdict = Verdict::warning;
    row.found += is_narrow ? " (less than the interface's: the way takes shorter packets)" : " (less than the path allows: long packets were lost and shorter ones tried)";
    row.advice = fmt::format("on {}, as root: ip link set dev {} mtu {}; or let ICMP through and sysctl -w net.ipv4.tcp_mtu_probing=1", host, text_in_field(end.interface),
                             is_narrow ? end.path_mtu : end.segment_bytes + heads_v6);
  }
  const int first = facts.from.interface_mtu, second = facts.to.interface_mtu;
  if (row.verdict == Verdict::ok && first > 0 && second > 0 && first != second) {
    row.verdict = Verdict::note;
    row.found += "; the interfaces differ";
    row.advice = fmt::format("the same on both: ip link set dev NAME mtu {}", std::max(first, second));
  }
  return row;
}

// What has to be under way to keep the wire busy, against what the kernels may hold of it. Of a socket's memory TCP offers half as a window.
Row check_bandwidth_delay(const PairFacts& facts) {
  if (!was_measured(facts) || !was_pinged(facts)) return not_measured("tcp_memory", facts);
  const double measured = std::max(megabits_per_second(facts.from), megabits_per_second(facts.to));
  const auto speed = static_cast<double>(std::min(facts.from.interface_speed_mbit, facts.to.interface_speed_mbit));
  const double mbit = std::max(measured, speed);
  const auto product = static_cast<int64_t>(mbit * 1e6 / 8 * static_cast<double>(facts.from.least_round_trip_ns) * 1e-9);
  const int64_t wanted = 2 * product;
  Row row{"tcp_memory", Verdict::ok, fmt::format("{} x {} are {} under way, and need twice as much memory", rate(mbit), microseconds(facts.from.least_round_trip_ns), readable_size(product))};
  for (const bool second : {false, true}) {
    const PairEnd& end = facts.end(second);
    const std::string& host = second ? facts.second : facts.first;
    if (end.most_receive_bytes == 0) {
      row.found += fmt::format("; {}: unknown", host);
      continue;
    }
    row.found += fmt::format("; {}: tcp_rmem {}, tcp_wmem {} at most", host, readable_size(end.most_receive_bytes), readable_size(end.most_send_bytes));
    const int64_t good = std::max<int64_t>(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(wanted))), good_tcp_memory_bytes);
    std::vector<std::string> lines;
    if (end.most_receive_bytes < wanted) lines.push_back(tcp_memory_line("tcp_rmem", std::to_array(end.receive_line), good));
    if (end.most_send_bytes < wanted) lines.push_back(tcp_memory_line("tcp_wmem", std::to_array(end.send_line), good));
    if (lines.empty()) continue;
    row.verdict = Verdict::warning;
    row.advice += fmt::format("{}on {}, as root: {}", row.advice.empty() ? "" : "; ", host, fmt::join(lines, "; "));
  }
  return row;
}

}  // namespace

double megabits_per_second(const PairEnd& end) {
  return end.timed_ns > 0 ? static_cast<double>(end.timed_bytes) * 8e3 / static_cast<double>(end.timed_ns) : 0;
}

std::vector<Row> check_pair(const PairFacts& facts) {
  return {check_reachability(facts), check_exchange(facts), check_latency(facts), check_bandwidth(facts),
          check_retransmits(facts), check_path_mtu(facts), check_bandwidth_delay(facts)};
}

std::string describe_pair(const PairFacts& facts) {
  auto place = [](const std::string& host, const PairEnd& end) {
    const std::string address = text_in_field(end.here), interface = text_in_field(end.interface);
    return fmt::format("{} (rank {}{}{})", host, end.rank, address.empty() ? "" : ", " + address, interface.empty() ? "" : " at " + interface);
  };
  std::string text = fmt::format("{} and {}", place(facts.first, facts.from), place(facts.second, facts.to));
  if (facts.from.connected || facts.to.connected) text += fmt::format(", connected by {}", facts.from.connected ? facts.first : facts.second);
  return text;
}

std::vector<std::vector<HostPair>> rounds_of_pairs(int hosts) {
  std::vector<std::vector<HostPair>> rounds;
  if (hosts <= most_hosts_for_all_pairs) {
    for (int first = 0; first < hosts; ++first)
      for (int second = first + 1; second < hosts; ++second) rounds.push_back({{first, second}});
    return rounds;
  }
  rounds.resize(hosts % 2 == 0 ? 2 : 3);
  for (int host = 0; host < hosts; ++host) {
    const int next = (host + 1) % hosts;
    const bool is_last_of_odd = hosts % 2 != 0 && host == hosts - 1;  // both its neighbours are taken in the first two rounds
    rounds[is_last_of_odd ? 2 : static_cast<size_t>(host % 2)].push_back({std::min(host, next), std::max(host, next)});
  }
  return rounds;
}

Row check_neighbours(const NeighbourFacts& facts) {
  if (!facts.error.empty()) return {"neighbours", Verdict::problem, "the ranks of this host could not exchange messages: " + facts.error, "see what the error names"};
  const std::string read = facts.reads_are_off ? "reading each other's memory is off (UNISONO_PEER_READS)"
                           : facts.readers_refused == 0 ? "all may read each other's memory"
                                                        : fmt::format("{} of them may not read the others' memory, so large tensors are copied once more", facts.readers_refused);
  Row row{"neighbours", Verdict::ok, fmt::format("{} ranks; round trip between ranks {} and {} {} at least, {} in the median; {}", facts.ranks, facts.first, facts.second,
                                                 microseconds(facts.least_round_trip_ns), microseconds(facts.median_round_trip_ns), read)};
  if (facts.readers_refused == 0 || facts.reads_are_off) return row;
  row.verdict = Verdict::warning;
  row.advice = "see peer_reads of this host";
  return row;
}

}  // namespace unisono::doctor
