// By which addresses ranks on two machines find each other: several interfaces, some of which lead nowhere; firewalls; settings that choose.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>

#include <cstdlib>
#include <fstream>
#include <map>

#include "tests/support/calls.hpp"
#include "tests/support/children.hpp"
#include "tests/support/losses.hpp"
#include "tests/support/machines.hpp"
#include "tests/support/outcomes.hpp"
#include "transport/listeners.hpp"
#include "unisono/distributed.hpp"

namespace unisono::testing {
namespace {

struct Job {
  std::vector<int> machine_of_rank = {0, 1};
  std::map<std::string, std::string> environment = {};  // of all ranks; %m stands for the last number of the machine's address
  std::string master = TwoMachines::address(0);

  int ranks() const { return static_cast<int>(machine_of_rank.size()); }
};

class MachinesAddresses : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = cannot_make_machines(); !why.empty()) GTEST_SKIP() << why;
    if (under_thread_sanitizer()) GTEST_SKIP() << "starts processes";
    machines_.emplace();
  }

  // A further interface with an address of its own, which the other machine reaches by the wire, or not.
  void add_interface(int machine, const std::string& name, const std::string& address) {
    machines_->run_in(machine, fmt::format("ip link add {0} type veth peer name {0}p && ip addr add {1}/32 dev {0} && ip link set {0} up && ip link set {0}p up", name, address));
  }
  void add_route(int machine, const std::string& to) { machines_->run_in(machine, fmt::format("ip route add {} via {}", to, TwoMachines::address(1 - machine))); }
  // Both machines have a second interface, 10.78.0.1 and 10.78.0.2, that can be reached.
  void add_second_interfaces() {
    for (int machine : {0, 1}) {
      add_interface(machine, "side", second_address(machine));
      add_route(1 - machine, second_address(machine));
    }
  }
  static std::string second_address(int machine) { return fmt::format("10.78.0.{}", machine + 1); }
  // Nobody comes in there to these ports, and nobody is told: what a firewall does. To one address, or to all.
  void drop_what_comes_to(int machine, const std::string& ports, const std::string& address = "") {
    for (const char* family : {"-4", "-6"}) {
      if (!address.empty() && family[1] == '6') continue;
      machines_->run_in(machine, fmt::format("ip {0} rule add pref 100 lookup local && ip {0} rule del pref 0 && ip {0} rule add pref 5 {1} iif wire ipproto tcp dport {2} "
                                             "blackhole", family, address.empty() ? "" : "to " + address, ports));
    }
  }

  void enter(const Job& job, int rank) const {
    const int machine = job.machine_of_rank[static_cast<size_t>(rank)];
    machines_->enter(machine);
    std::map<std::string, std::string> all = {{"RANK", std::to_string(rank)}, {"WORLD_SIZE", std::to_string(job.ranks())}, {"MASTER_ADDR", job.master},
                                              {"MASTER_PORT", "29500"}, {"UNISONO_SECRET", std::string(64, 'a')}, {"HOME", "/nonexistent"},
                                              {"UNISONO_JOIN_TIMEOUT", "30"}, {"UNISONO_TIMEOUT", "20"}};
    for (const auto& [name, value] : job.environment) all[name] = value;
    for (auto& [name, value] : all) {
      while (value.find("%m") != value.npos) value.replace(value.find("%m"), 2, std::to_string(machine + 1));
      setenv(name.c_str(), value.c_str(), 1);
    }
  }
  // All ranks join, compute in both directions, and see what `look` looks at.
  void run(const Job& job, const std::function<void(int rank)>& look = [](int) {}) {
    SharedArray<double> joined_s(static_cast<size_t>(job.ranks()));
    expect_all_succeeded(Children(job.ranks(), [&](int rank) {
      enter(job, rank);
      const int64_t begin_ns = now_ns();
      distributed::init_process_group({});
      joined_s[rank] = static_cast<double>(now_ns() - begin_ns) * 1e-9;
      compute(rank, job.ranks());
      look(rank);
      distributed::barrier({});
      distributed::destroy_process_group();
    }).wait());
    for (int rank = 0; rank < job.ranks(); ++rank) joined_within_s_ = std::max(joined_within_s_, joined_s[rank]);
  }
  static void compute(int rank, int ranks) {
    std::vector<float> data(300'000, static_cast<float>(rank + 1));
    distributed::all_reduce(view(data), {});
    EXPECT_EQ(data.back(), static_cast<float>(ranks * (ranks + 1) / 2));
    for (int root = 0; root < ranks; ++root) {
      std::vector<float> sent(1000, rank == root ? 7.f + static_cast<float>(root) : 0.f);
      distributed::broadcast(view(sent), {.src = root});
      EXPECT_EQ(sent.back(), 7.f + static_cast<float>(root));
    }
    for (int sender : {0, ranks - 1}) {
      std::vector<float> letter(10, rank == sender ? static_cast<float>(sender + 1) : 0.f);
      const int receiver = ranks - 1 - sender;
      if (rank == sender) distributed::send(view(letter), receiver);
      if (rank == receiver) distributed::recv(view(letter), sender);
      EXPECT_EQ(letter.back(), rank == sender || rank == receiver ? static_cast<float>(sender + 1) : 0.f);
    }
  }
  // What each rank hears when joining cannot be.
  Outcomes join_in_vain(const Job& job) {
    Outcomes outcomes(job.ranks());
    Children(job.ranks(), [&](int rank) {
      enter(job, rank);
      outcomes.note(rank, [&] { distributed::init_process_group({}); });
    }).wait();
    return outcomes;
  }

  std::optional<TwoMachines> machines_;
  double joined_within_s_ = 0;
};

constexpr int listening = 0x0A, established = 0x01;

std::string written(unsigned address, unsigned port) { return fmt::format("{}.{}.{}.{}:{}", address & 255, address >> 8 & 255, address >> 16 & 255, address >> 24, port); }

// The addresses of this machine's sockets in a state, as "10.77.0.1:20000", and those of the other ends of connections: whoever connects does so from
// whatever address leads there.
std::vector<std::string> sockets_here(int wanted) {
  std::vector<std::string> found;
  std::ifstream table("/proc/net/tcp");
  std::string line;
  std::getline(table, line);
  while (std::getline(table, line)) {
    unsigned slot = 0, address = 0, port = 0, far = 0, far_port = 0, state = 0;
    if (std::sscanf(line.c_str(), " %u: %X:%X %X:%X %X", &slot, &address, &port, &far, &far_port, &state) != 6 || static_cast<int>(state) != wanted) continue;
    found.push_back(written(address, port));
    if (wanted == established) found.push_back(written(far, far_port));
  }
  return found;
}

// Where ranks listen: what is here, but for the store at the meeting point.
std::vector<std::string> ranks_listening() {
  std::vector<std::string> all = sockets_here(listening);
  std::erase_if(all, [](const std::string& one) { return one.ends_with(":29500"); });
  return all;
}

int count_of(const std::vector<std::string>& all, const std::string& begin) {
  return static_cast<int>(std::ranges::count_if(all, [&](const std::string& one) { return one.starts_with(begin); }));
}

// docker0 has the same address on every machine: what it leads to is oneself.
TEST_F(MachinesAddresses, listen_at_all_of_them_and_none_is_a_trap) {
  for (int machine : {0, 1}) add_interface(machine, "docker0", "172.17.0.1");
  run({.machine_of_rank = {0, 1, 1}}, [](int rank) {
    const std::vector<std::string> all = ranks_listening();
    for (const char* at : {"172.17.0.1:", "10.77.0."}) EXPECT_EQ(count_of(all, at), rank == 0 ? 1 : 2) << fmt::format("{}", fmt::join(all, " "));
    for (const char* any : {"0.0.0.0", "127."}) EXPECT_EQ(count_of(sockets_here(listening), any), 0);
    std::ifstream six("/proc/net/tcp6");
    for (std::string line; std::getline(six, line);) EXPECT_EQ(line.find(": 00000000000000000000000000000000:"), line.npos) << line;
  });
}

TEST_F(MachinesAddresses, that_lead_nowhere_are_passed_over) {
  for (int machine : {0, 1}) {
    add_interface(machine, "docker0", "172.17.0.1");
    machines_->run_in(machine, "ip route add 192.0.2.0/24 dev wire");  // nobody answers
  }
  // Refused at once, silent, without a route, oneself; then the right one.
  run({.environment = {{"UNISONO_ADVERTISE", "10.77.0.%m:9,192.0.2.1,198.51.100.1,172.17.0.1,10.77.0.%m"}}});
  EXPECT_LT(joined_within_s_, 3);
}

TEST_F(MachinesAddresses, are_tried_one_after_the_other) {
  add_second_interfaces();
  for (int machine : {0, 1}) {
    machines_->run_in(machine, "ip -6 addr flush dev wire");
    drop_what_comes_to(machine, "20000-20100", TwoMachines::address(machine));
  }
  run({.environment = {{"UNISONO_PORT_RANGE", "20000-20100"}, {"UNISONO_SOCKET_IFNAME", "wire,side"}}}, [](int) {
    const std::vector<std::string> all = sockets_here(established);
    EXPECT_GT(count_of(all, "10.78.0."), 0) << fmt::format("{}", fmt::join(all, " "));
  });
  EXPECT_LT(joined_within_s_, 3);
}

TEST_F(MachinesAddresses, are_chosen_by_interface) {
  add_second_interfaces();
  for (const char* pattern : {"side", "=side", "^wire", "si,^docker"}) {
    run({.environment = {{"UNISONO_SOCKET_IFNAME", pattern}}}, [](int rank) {
      const std::vector<std::string> all = ranks_listening();
      EXPECT_EQ(count_of(all, second_address(rank)), 1) << fmt::format("{}", fmt::join(all, " "));
      EXPECT_EQ(count_of(all, TwoMachines::address(rank) + ":"), 0) << fmt::format("{}", fmt::join(all, " "));
    });
  }
}

TEST_F(MachinesAddresses, are_listed_where_no_interface_is_left) {
  const Outcomes outcomes = join_in_vain({.environment = {{"UNISONO_SOCKET_IFNAME", "=eth7"}}});
  bool both = true;
  for (int rank : {0, 1}) {
    expect_parts(outcomes.of(rank), ErrorCode::init, {"UNISONO_SOCKET_IFNAME=\"=eth7\"", "wire 10.77.0.", "wire fd77::"});
    both &= outcomes.of(rank).took_s() < 5;
  }
  EXPECT_TRUE(both);
}

TEST_F(MachinesAddresses, are_told_as_the_user_says) {
  add_second_interfaces();
  run({.environment = {{"UNISONO_ADVERTISE", "10.78.0.%m"}}}, [](int rank) {
    EXPECT_GT(count_of(ranks_listening(), TwoMachines::address(rank) + ":"), 0) << "it listens where it would";
    const std::vector<std::string> all = sockets_here(established);
    EXPECT_GT(count_of(all, "10.78.0."), 0) << fmt::format("{}", fmt::join(all, " "));
  });
  for (const auto& [text, reason] : std::map<std::string, std::string>{{"one.example", "names are not looked up"}, {"0.0.0.0", "every address"}}) {
    const Outcomes outcomes = join_in_vain({.environment = {{"UNISONO_ADVERTISE", text}}});
    for (int rank : {0, 1}) expect_parts(outcomes.of(rank), ErrorCode::init, {"UNISONO_ADVERTISE=\"" + text, reason});
  }
}

TEST_F(MachinesAddresses, that_cannot_be_reached_are_an_error_in_seconds_that_says_what_was_tried) {
  for (int machine : {0, 1}) {
    drop_what_comes_to(machine, "20000-20100");
    add_interface(machine, "side", second_address(machine));  // and no route to it
  }
  const Outcomes outcomes = join_in_vain({.machine_of_rank = {0, 1, 1}, .environment = {{"UNISONO_PORT_RANGE", "20000-20100"}, {"UNISONO_JOIN_TIMEOUT", "60"}}});
  for (int rank : {0, 1, 2}) {
    expect_parts(outcomes.of(rank), ErrorCode::init, {"rank 0 on one could not reach rank ", "10.77.0.2:200", " from 10.77.0.1 (wire): no answer for 6 s", "10.78.0.2:200",
                                                      "Network is unreachable", "[fd77::2]:200", "interfaces there: wire 10.77.0.1", "side 10.78.0.1",
                                                      "on two could not reach rank 0", "UNISONO_SOCKET_IFNAME", "UNISONO_ADVERTISE"});
    EXPECT_LT(outcomes.of(rank).took_s(), 10) << outcomes.of(rank).text();
  }
}

// Whoever is behind a firewall connects; the others wait for it.
TEST_F(MachinesAddresses, need_be_reached_in_one_direction_only) {
  drop_what_comes_to(1, "20000-20100");
  for (const std::vector<int>& layout : {std::vector{0, 1}, {1, 0}, {0, 1, 0, 1}}) {
    const Job job{.machine_of_rank = layout, .environment = {{"UNISONO_PORT_RANGE", "20000-20100"}}, .master = TwoMachines::address(layout[0])};
    run(job);
    EXPECT_LT(joined_within_s_, 5) << "the side that cannot reach the other waits two seconds, and is told";
  }
}

TEST_F(MachinesAddresses, of_ipv6_are_enough) {
  for (int machine : {0, 1}) machines_->run_in(machine, "ip -4 addr flush dev wire");
  run({.machine_of_rank = {0, 1, 0, 1}, .master = TwoMachines::address6(0)}, [](int) { EXPECT_TRUE(sockets_here(listening).empty()); });
}

TEST_F(MachinesAddresses, have_ports_of_the_range_also_when_a_job_is_run_again) {
  const Job job{.machine_of_rank = {0, 1, 0, 1}, .environment = {{"UNISONO_PORT_RANGE", "20000-20001"}}};
  for (int round = 0; round < 2; ++round) {
    run(job, [](int rank) {
      const std::vector<std::string> all = sockets_here(listening);
      for (const char* port : {":20000", ":20001"}) EXPECT_EQ(count_of(all, TwoMachines::address(rank % 2) + port), 1) << fmt::format("{}", fmt::join(all, " "));
    });
  }
}

TEST_F(MachinesAddresses, without_a_free_port_are_an_error_that_names_range_and_holder) {
  const Outcomes outcomes = join_in_vain({.machine_of_rank = {0, 0, 0, 1}, .environment = {{"UNISONO_PORT_RANGE", "20000-20001"}}});
  for (int rank : {0, 1, 2})
    expect_parts(outcomes.of(rank), ErrorCode::resource, {"UNISONO_PORT_RANGE=20000-20001", "10.77.0.1", fmt::format("20000 is held by uid {}", geteuid())});
  EXPECT_NE(outcomes.of(3).code, ErrorCode::ok) << "of the reason, or that the store is gone, with rank 0's process";
}

TEST_F(MachinesAddresses, of_which_the_meeting_point_is_taken_are_an_error_that_names_the_holder) {
  const Job job{.environment = {{"UNISONO_JOIN_TIMEOUT", "3"}}};
  Outcomes outcomes(1);
  expect_all_succeeded(Children(1, [&](int rank) {
    enter(job, rank);
    const auto taken = open_listeners({Address::parse(job.master + ":29500").value()}, {}, 0);
    ASSERT_TRUE(taken.ok());
    outcomes.note(rank, [&] { distributed::init_process_group({}); });
  }).wait());
  expect_parts(outcomes.of(0), ErrorCode::init, {"10.77.0.1:29500", fmt::format("uid {} holds it", geteuid())});
}

TEST_F(MachinesAddresses, without_a_port_that_the_kernel_could_give_are_an_error_that_names_its_range) {
  expect_all_succeeded(Children(1, [&](int) {
    machines_->enter(0);
    std::ofstream("/proc/sys/net/ipv4/ip_local_port_range") << "40000 40001";
    const std::vector<Address> at = {*Address::parse_host(TwoMachines::address(0))};
    std::vector<std::vector<Listener>> all;
    for (int index = 0; index < 2; ++index) {
      auto listeners = open_listeners(at, {}, 0);
      ASSERT_TRUE(listeners.ok()) << listeners.status().text();
      all.push_back(std::move(*listeners));
    }
    const auto more = open_listeners(at, {}, 0);
    ASSERT_FALSE(more.ok());
    EXPECT_EQ(more.status().code(), ErrorCode::resource);
    for (const char* part : {"10.77.0.1", "40000-40001", "ip_local_port_range", "UNISONO_PORT_RANGE"})
      EXPECT_NE(more.status().message().find(part), std::string::npos) << more.status().text();
  }).wait());
}

// In a mount namespace with a resolv.conf that names a server which does not answer, or none that can be reached.
TEST_F(MachinesAddresses, that_are_names_nobody_knows_are_an_error_in_time) {
  char file[] = "/tmp/unisono_resolv_XXXXXX";
  const Descriptor made(mkstemp(file));
  std::ofstream(file) << "nameserver 192.0.2.1\noptions timeout:30\n";
  machines_->run_in(0, "ip route add 192.0.2.0/24 dev wire");
  const Job job{.environment = {{"UNISONO_JOIN_TIMEOUT", "2"}}, .master = "trainer.example"};
  Outcomes outcomes(2);
  Children(2, [&](int rank) {
    enter(job, rank);
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 || mount(file, "/etc/resolv.conf", nullptr, MS_BIND, nullptr) != 0)
      throw std::runtime_error("no mount namespace");
    outcomes.note(rank, [&] { distributed::init_process_group({}); });
  }).wait();
  unlink(file);
  for (int rank : {0, 1}) {
    expect_parts(outcomes.of(rank), ErrorCode::init, {"trainer.example"});
    EXPECT_LT(outcomes.of(rank).took_s(), 3) << outcomes.of(rank).text();
  }
}

}  // namespace
}  // namespace unisono::testing
