// `unisono doctor` as ranks on two machines: what a slow wire, a short MTU, little TCP memory, a firewall and a missing secret look like in its report.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <optional>
#include <sstream>

#include "tests/support/json_document.hpp"
#include "tests/support/machine_job.hpp"
#include "tests/support/relay.hpp"
#include "unisono/settings.hpp"

namespace unisono::testing {
namespace {

class MachinesDoctor : public OnMachines {
 protected:
  void SetUp() override {
    OnMachines::SetUp();
    if (!IsSkipped()) machines_.emplace();
  }

  // Every rank runs the command on its machine; the document that rank 0 prints. Its exit status says whether there is a problem.
  JsonDocument examine(const MachineJob& job = {}) { return examine_on(*machines_, job); }
  JsonDocument examine_on(const TestMachines& machines, const MachineJob& job, const char* timeout = "20") {
    const std::string path = folder_.root() + "report.json";
    Children children(job.ranks(), [&](int rank) {
      become_rank(machines, job, rank);
      if (job.variables.contains("UNISONO_SECRET")) unsetenv("UNISONO_SECRET");
      if (rank == 0) dup2(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), STDOUT_FILENO);
      execl(process_environment().at("UNISONO_COMMAND").c_str(), "unisono", "doctor", "--json", "--timeout", timeout, nullptr);
    }, 60);
    const std::vector<Ending> endings = children.wait();
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    JsonDocument document(text.str());
    const bool has_problem = document.ask("document[\"verdict\"]") == "problem";
    EXPECT_EQ(endings[0].succeeded(), !has_problem) << endings[0].output << document.text();
    return document;
  }
  // A check of the only pair, as verdict, what was found and the advice.
  static std::string check(const JsonDocument& document, const std::string& name) {
    return document.ask(fmt::format("\"|\".join(named(document[\"pairs\"][0][\"checks\"])[\"{}\"][key] for key in (\"verdict\", \"found\", \"advice\"))", name));
  }
  static double number(const JsonDocument& document, const std::string& of_the_pair) { return std::stod(document.ask("document[\"pairs\"][0]" + of_the_pair)); }
  static void expect_parts(const std::string& text, const std::vector<std::string>& parts) {
    for (const std::string& part : parts) EXPECT_NE(text.find(part), text.npos) << part << " is not in: " << text;
  }

  FileTree folder_{{}};
  std::optional<TwoMachines> machines_;
};

TEST_F(MachinesDoctor, has_little_to_say_of_a_good_wire) {
  const JsonDocument document = examine({.machine_of_rank = {0, 1, 1}});
  EXPECT_EQ(document.ask("[(host[\"host\"], host[\"ranks\"]) for host in document[\"hosts\"]]"), "[('one', [0]), ('two', [1, 2])]");
  EXPECT_EQ(document.ask("document[\"problems\"]"), "0") << document.text();
  for (const char* name : {"reachability", "exchange", "mtu"}) EXPECT_TRUE(check(document, name).starts_with("ok|")) << check(document, name);
  EXPECT_TRUE(check(document, "bandwidth").find("low for a network") == std::string::npos) << check(document, "bandwidth");
  expect_parts(check(document, "mtu"), {"one: wire 1500, path 1500", "two: wire 1500, path 1500"});
  EXPECT_GT(number(document, "[\"first\"][\"sent_mbit_per_s\"]"), 100);
  EXPECT_EQ(document.ask("document[\"pairs\"][0][\"first\"][\"address\"].split(\":\")[0], document[\"pairs\"][0][\"second\"][\"interface\"]"), "('10.77.0.1', 'wire')");
  EXPECT_EQ(document.ask("\"wire is chosen by the route to 10.77.0.1\" in named(document[\"hosts\"][1][\"checks\"])[\"interfaces\"][\"found\"]"), "True") << document.text();
}

TEST_F(MachinesDoctor, finds_a_slow_wire_a_short_mtu_and_little_memory) {
  for (int machine : {0, 1}) machines_->run_in(machine, "ip link set wire mtu 1280 && tc qdisc add dev wire root tbf rate 10mbit burst 16kb latency 50ms");
  machines_->run_in(1, "echo 4096 16384 16384 > /proc/sys/net/ipv4/tcp_rmem");
  const JsonDocument document = examine();
  for (const char* end : {"first", "second"}) {
    const double mbit = number(document, fmt::format("[\"{}\"][\"sent_mbit_per_s\"]", end));
    EXPECT_GT(mbit, 1) << document.text();
    EXPECT_LT(mbit, 20) << document.text();
    EXPECT_EQ(number(document, fmt::format("[\"{}\"][\"interface_mtu\"]", end)), 1280);
    EXPECT_LE(number(document, fmt::format("[\"{}\"][\"segment_bytes\"]", end)), 1240);
  }
  expect_parts(check(document, "bandwidth"), {"warning|", "low for a network", "tc qdisc show"});
  expect_parts(check(document, "mtu"), {"one: wire 1280", "two: wire 1280"});
  expect_parts(check(document, "tcp_memory"), {"warning|", "two: tcp_rmem 16 KiB", "on two, as root: sysctl -w net.ipv4.tcp_rmem=\"4096 131072 16777216\""});
  EXPECT_EQ(check(document, "tcp_memory").find("on one"), std::string::npos) << "the other machine has enough";
  expect_parts(document.ask("named(document[\"hosts\"][1][\"checks\"])[\"tcp_memory\"][\"advice\"]"), {"sysctl -w net.ipv4.tcp_rmem="});
  EXPECT_EQ(document.ask("named(document[\"hosts\"][0][\"checks\"])[\"tcp_memory\"][\"advice\"]"), "");
  expect_parts(document.ask("named(document[\"job\"])[\"different_tcp_memory\"][\"found\"]"), {"tcp_rmem 4096 16384 16384", " on two"});
}

// A queue that is too short loses packets: TCP sends them again, and the report counts them.
TEST_F(MachinesDoctor, counts_what_was_sent_again) {
  machines_->run_in(0, "tc qdisc add dev wire root tbf rate 200mbit burst 5kb latency 1ms");
  const JsonDocument document = examine();
  EXPECT_GT(number(document, "[\"first\"][\"retransmits\"]"), 0) << document.text();
  expect_parts(check(document, "retransmits"), {"warning|", "ip -s link"});
}

TEST_F(MachinesDoctor, says_which_way_a_firewall_is_closed) {
  for (const char* family : {"-4", "-6"})
    machines_->run_in(1, fmt::format("ip {0} rule add pref 100 lookup local && ip {0} rule del pref 0 && ip {0} rule add pref 5 iif wire ipproto tcp dport 20000-20100 blackhole", family));
  const JsonDocument document = examine({.variables = {{"UNISONO_PORT_RANGE", "20000-20100"}}});
  expect_parts(check(document, "reachability"), {"warning|", "two reaches one, but not the other way: two opens all connections", "on two: export UNISONO_PORT_RANGE"});
  EXPECT_EQ(document.ask("[document[\"pairs\"][0][end][\"connected\"] for end in (\"first\", \"second\")]"), "[False, True]");
  EXPECT_EQ(document.ask("[document[\"pairs\"][0][end][\"reaches\"] for end in (\"first\", \"second\")]"), "[False, True]");
}

// The ways of the job that carry no data are as narrow: the report comes through all the same.
TEST_F(MachinesDoctor, knows_a_way_that_swallows_long_packets) {
  if (const std::string why = cannot_relay(); !why.empty()) GTEST_SKIP() << why;
  const RelayedMachines machines;
  machines.faults().longest_bytes = 1000;
  const JsonDocument document = examine_on(machines, {}, "2.5");
  EXPECT_GT(machines.faults().too_long, 0);
  expect_parts(check(document, "exchange"), {"problem|", "small messages passed and large ones did not", "TimeoutError", "tcp_mtu_probing=1"});
  EXPECT_TRUE(check(document, "latency").starts_with("ok|")) << check(document, "latency");
  EXPECT_GT(number(document, "[\"first\"][\"retransmits\"]"), 0) << document.text();
  EXPECT_EQ(document.ask("len(document[\"hosts\"])"), "2");
}

TEST_F(MachinesDoctor, names_the_missing_secret) {
  const JsonDocument document = examine({.variables = {{"UNISONO_SECRET", "is taken away"}}});
  EXPECT_EQ(document.ask("named(document[\"job\"])[\"joining\"][\"verdict\"]"), "problem");
  expect_parts(document.ask("named(document[\"job\"])[\"joining\"][\"found\"]"), {"AuthError", "unisono secret new"});
  expect_parts(document.ask("named(document[\"hosts\"][0][\"checks\"])[\"secret\"][\"verdict\"]"), {"problem"});
}

}  // namespace
}  // namespace unisono::testing
