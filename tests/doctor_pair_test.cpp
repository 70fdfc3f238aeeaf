// What `unisono doctor` makes of what was measured between two hosts, and how it tells of several. See doctor_test.cpp for one machine.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstring>
#include <functional>
#include <set>

#include "base/sizes.hpp"
#include "doctor/pair.hpp"
#include "doctor/report.hpp"
#include "doctor/tcp_sockets.hpp"

namespace unisono::doctor {
namespace {

PairEnd good_end(int rank, const char* address) {
  PairEnd end;
  end.rank = rank;
  end.connected = rank == 0;
  end.connections = 1;
  end.interface_mtu = end.path_mtu = 1500;
  end.segment_bytes = 1448;
  end.interface_speed_mbit = 10'000;
  end.timed_bytes = end.sent_bytes = 1'000'000'000;
  end.timed_ns = 900'000'000;  // 8.9 Gbit/s
  end.receive_line[0] = end.send_line[0] = 4096;
  end.receive_line[1] = 131072;
  end.send_line[1] = 16384;
  end.most_receive_bytes = end.receive_line[2] = 6291456;
  end.most_send_bytes = end.send_line[2] = 4194304;
  std::strcpy(end.here, address);
  std::strcpy(end.interface, "eth0");
  return end;
}

PairFacts good_pair() {
  PairFacts facts{"one", "two", good_end(0, "10.0.0.1:4000"), good_end(1, "10.0.0.2:5000")};
  facts.from.least_round_trip_ns = 40'000;
  facts.from.median_round_trip_ns = 55'000;
  return facts;
}

Row row_of(const PairFacts& facts, std::string_view name) {
  for (const Row& row : check_pair(facts))
    if (row.name == name) return row;
  ADD_FAILURE() << "there is no check " << name;
  return {};
}

TEST(DoctorPair, finds_nothing_wrong_with_a_good_wire) {
  for (const Row& row : check_pair(good_pair())) EXPECT_EQ(row.verdict, Verdict::ok) << row.name << ": " << row.found;
  EXPECT_EQ(describe_pair(good_pair()), "one (rank 0, 10.0.0.1:4000 at eth0) and two (rank 1, 10.0.0.2:5000 at eth0), connected by one");
  EXPECT_NE(row_of(good_pair(), "latency").found.find("40.0 µs at least, 55.0 µs in the median"), std::string::npos);
  EXPECT_NE(row_of(good_pair(), "bandwidth").found.find("8.89 Gbit/s from one to two"), std::string::npos);
}

struct Ill {
  const char* name;
  Verdict verdict;
  std::function<void(PairFacts&)> make_ill;
  std::vector<std::string> found, advice;
};

TEST(DoctorPair, says_what_is_wrong_and_what_to_type) {
  const std::vector<Ill> ills = {
      {"reachability", Verdict::warning, [](auto& facts) { facts.to.reaches = 0; }, {"one reaches two, but not the other way", "one opens all"}, {"on one: export UNISONO_PORT_RANGE"}},
      {"reachability", Verdict::warning, [](auto& facts) { facts.from.reaches = 0; }, {"two reaches one"}, {"on two: "}},
      {"reachability", Verdict::problem, [](auto& facts) { facts.from.reaches = facts.to.reaches = 0; }, {"neither"}, {"firewalls"}},
      {"latency", Verdict::note, [](auto& facts) { facts.from.least_round_trip_ns = 20'000'000; }, {"20.0 ms"}, {}},
      {"bandwidth", Verdict::warning, [](auto& facts) { facts.from.timed_bytes = 1'000'000; }, {"8.9 Mbit/s from one to two"}, {"tc qdisc show"}},
      {"bandwidth", Verdict::warning, [](auto& facts) { facts.to.timed_bytes = 100'000'000; }, {"888.9 Mbit/s back", "a tenth"}, {"UNISONO_SOCKETS_PER_PEER"}},
      {"bandwidth", Verdict::note, [](auto& facts) { facts.to.timed_bytes = 400'000'000; }, {"twice as fast"}, {"ethtool -S"}},
      {"retransmits", Verdict::note, [](auto& facts) { facts.from.retransmits = 3; }, {"3 of about", "segments from one"}, {}},
      {"retransmits", Verdict::warning, [](auto& facts) { facts.to.retransmits = 30'000; }, {"30000 of about", "segments from two"}, {"ip -s link"}},
      {"retransmits", Verdict::warning, [](auto& facts) { facts.from.retransmits = 100; facts.from.sent_bytes = 14'480'000; facts.to.sent_bytes = 1'000'000'000; }, {"100 of about 1"}, {"ip -s link"}},
      {"mtu", Verdict::warning, [](auto& facts) { facts.to.path_mtu = 1400; }, {"two: eth0 1500, path 1400", "shorter packets"}, {"ip link set dev eth0 mtu 1400", "tcp_mtu_probing"}},
      {"mtu", Verdict::warning, [](auto& facts) { facts.from.segment_bytes = 512; }, {"long packets were lost"}, {"tcp_mtu_probing=1"}},
      {"mtu", Verdict::note, [](auto& facts) { facts.from.interface_mtu = facts.from.path_mtu = 9000; }, {"the interfaces differ"}, {"mtu 9000"}},
      {"mtu", Verdict::ok, [](auto& facts) { facts.from.interface_mtu = facts.to.interface_mtu = 65536; facts.from.path_mtu = facts.to.path_mtu = 65535;
                                             facts.from.segment_bytes = facts.to.segment_bytes = 65483; }, {"path 65535"}, {}},
      {"tcp_memory", Verdict::warning, [](auto& facts) { facts.to.most_receive_bytes = facts.to.receive_line[2] = 65536; }, {"two: tcp_rmem 64 KiB"},
       {"on two, as root: sysctl -w net.ipv4.tcp_rmem=\"4096 131072 16777216\""}},
      {"tcp_memory", Verdict::warning, [](auto& facts) { facts.from.least_round_trip_ns = 50'000'000; }, {"60 MiB under way"},
       {"on one, as root: sysctl -w net.ipv4.tcp_rmem=\"4096 131072 134217728\"", "tcp_wmem=", "on two"}},
  };
  for (const Ill& ill : ills) {
    PairFacts facts = good_pair();
    ill.make_ill(facts);
    const Row row = row_of(facts, ill.name);
    EXPECT_EQ(row.verdict, ill.verdict) << ill.name << ": " << row.found;
    for (const std::string& part : ill.found) EXPECT_NE(row.found.find(part), row.found.npos) << part << " is not in: " << row.found;
    for (const std::string& part : ill.advice) EXPECT_NE(row.advice.find(part), row.advice.npos) << part << " is not in: " << row.advice;
    EXPECT_EQ(row.advice.empty(), ill.advice.empty()) << row.advice;
  }
}

// Small messages were answered, large ones were not: what a way that swallows long packets looks like.
TEST(DoctorPair, knows_a_black_hole_by_what_passed) {
  PairFacts facts = good_pair();
  facts.from.timed_ns = facts.to.timed_ns = facts.from.timed_bytes = facts.to.timed_bytes = 0;
  std::strcpy(facts.from.error, "TimeoutError: nobody answered");
  const Row hole = row_of(facts, "exchange");
  EXPECT_EQ(hole.verdict, Verdict::problem);
  EXPECT_NE(hole.found.find("small messages passed and large ones did not"), std::string::npos) << hole.found;
  EXPECT_NE(hole.advice.find("tcp_mtu_probing=1"), std::string::npos) << hole.advice;
  EXPECT_TRUE(row_of(facts, "bandwidth").found.starts_with("unknown: "));
  facts.from.least_round_trip_ns = 0;
  EXPECT_TRUE(row_of(facts, "exchange").found.starts_with("messages did not pass"));
  EXPECT_EQ(row_of(facts, "latency").verdict, Verdict::note);
}

TEST(DoctorPair, pairs_of_one_round_have_no_host_in_common) {
  for (int hosts = 1; hosts <= 41; ++hosts) {
    std::set<HostPair> all;
    for (const auto& round : rounds_of_pairs(hosts)) {
      std::set<int> busy;
      for (const HostPair& pair : round) {
        EXPECT_LT(pair.first, pair.second);
        EXPECT_TRUE(busy.insert(pair.first).second && busy.insert(pair.second).second) << hosts << " hosts";
        EXPECT_TRUE(all.insert(pair).second) << "twice, of " << hosts << " hosts";
      }
    }
    const int wanted = hosts <= most_hosts_for_all_pairs ? hosts * (hosts - 1) / 2 : hosts;
    EXPECT_EQ(static_cast<int>(all.size()), wanted) << hosts << " hosts";
  }
}

TEST(DoctorNeighbours, say_how_fast_they_are_and_whether_they_read) {
  NeighbourFacts facts{.ranks = 4, .first = 0, .second = 1, .least_round_trip_ns = 900, .median_round_trip_ns = 1'200};
  EXPECT_EQ(check_neighbours(facts).verdict, Verdict::ok);
  EXPECT_NE(check_neighbours(facts).found.find("0.9 µs at least, 1.2 µs in the median; all may read"), std::string::npos) << check_neighbours(facts).found;
  facts.readers_refused = 4;
  EXPECT_EQ(check_neighbours(facts).verdict, Verdict::warning);
  facts.reads_are_off = true;
  EXPECT_EQ(check_neighbours(facts).verdict, Verdict::ok);
}

TEST(DoctorReport, tells_what_differs_between_hosts) {
  const std::vector<HostReport> hosts = {{"one", {0}, {{"settings", Verdict::ok, "x", {}, "default"}, {"memory", Verdict::ok, "5"}}},
                                         {"two", {1}, {{"settings", Verdict::ok, "x", {}, "UNISONO_ENCRYPT=on"}, {"memory", Verdict::ok, "6"}}},
                                         {"three", {2}, {{"settings", Verdict::ok, "x", {}, "default"}, {"memory", Verdict::ok, "7"}}}};
  const std::vector<Row> rows = differences_between(hosts);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].name, "different_settings");
  EXPECT_EQ(rows[0].found, "UNISONO_ENCRYPT=on on two; default on one, three");
  EXPECT_TRUE(differences_between({hosts[0], hosts[2]}).empty());
}

TEST(DoctorReport, is_short_of_what_is_well_and_full_of_what_is_not) {
  Report report{.version = "0.1.0", .is_job = true};
  report.hosts = {{"one", {0, 1, 2, 5}, {{"memory", Verdict::note, "plenty"}, {"cores", Verdict::warning, "few", "more"}}}};
  for (int pair = 0; pair < 4; ++pair) report.pairs.push_back({good_pair(), check_pair(good_pair())});
  const std::string text = text_of(report);
  for (const char* part : {"one (ranks 0-2, 5)\n", "  warning  cores            few\n", "-> more\n", "1 other check, 1 of them with a note (--json has all)\n", "latency", "bandwidth", "0 problems, 1 warning, 1 note\n"})
    EXPECT_NE(text.find(part), text.npos) << part << " is not in\n" << text;
  for (const char* part : {"plenty", "retransmits"}) EXPECT_EQ(text.find(part), text.npos) << text;
  report.pairs.resize(1);
  EXPECT_NE(text_of(report).find("retransmits"), std::string::npos);
}

// Two ends of a connection in this process: what went through it is told of, and nothing else.
TEST(DoctorSockets, tell_what_they_have_carried) {
  const Descriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const Address any = Address::loopback(0);
  ASSERT_EQ(bind(listener.number(), any.get(), any.bytes()), 0);
  ASSERT_EQ(listen(listener.number(), 1), 0);
  const Address there = Address::of_socket(listener.number());
  const Descriptor one(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(connect(one.number(), there.get(), there.bytes()), 0);
  const Descriptor two(accept4(listener.number(), nullptr, nullptr, SOCK_CLOEXEC));
  const std::vector<TcpSocket> before = tcp_sockets_here();
  EXPECT_TRUE(grown_between(before, tcp_sockets_here()).empty());
  char bytes[1000] = {};
  ASSERT_EQ(send(one.number(), bytes, sizeof(bytes), 0), 1000);
  ASSERT_EQ(recv(two.number(), bytes, sizeof(bytes), MSG_WAITALL), 1000);
  const std::vector<TcpSocket> grown = grown_between(before, tcp_sockets_here());
  ASSERT_GE(grown.size(), 1u);
  for (const TcpSocket& used : grown) {
    EXPECT_TRUE(used.here == there || used.there == there);
    EXPECT_EQ(std::max(used.sent_bytes, used.received_bytes), 1000);
    EXPECT_GT(used.segment_bytes, 500);
  }
}

}  // namespace
}  // namespace unisono::doctor
