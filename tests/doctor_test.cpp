// What `unisono doctor` makes of facts: good ones, bad ones, and such as cannot be read. See doctor_command_test.cpp for the command itself.
#include "doctor/machine_checks.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <set>

#include "base/clock.hpp"
#include "base/sizes.hpp"
#include "doctor/json.hpp"
#include "doctor/pair.hpp"
#include "doctor/report.hpp"
#include "doctor/tcp_sockets.hpp"
#include "tests/support/file_tree.hpp"

namespace unisono::doctor {
namespace {

using testing::FileTree;

// A machine with nothing to complain about: a job of four ranks on two such machines.
MachineFacts good_machine() {
  MachineFacts facts;
  facts.host = "one";
  facts.version = "0.1.0";
  facts.kernel = "6.1.0-18-amd64";
  facts.target = "AVX3";
  facts.launch = {.launcher = "env://", .rank = 0, .size = 4, .local_rank = 0, .local_size = 2, .job = "env:// 10.0.0.1:29500", .all_local = false,
                  .meeting_point = "10.0.0.1:29500", .meeting_variable = "MASTER_ADDR"};
  facts.ranks = 4;
  facts.ranks_here = 2;
  facts.files = Limit{1 << 20, 1 << 20};
  facts.processes = facts.address_space = facts.locked = Limit{};
  facts.ranks_that_fit_here = facts.ranks_that_fit_elsewhere = 10'000;
  facts.memory = {64_GiB, "MemAvailable"};
  facts.pids_left = unlimited;
  facts.cores = 8;
  facts.ptrace_scope = 0;
  facts.sibling_read_error = 0;
  facts.seccomp = 0;
  facts.secret = {.source = "/home/ada/.config/unisono/secret", .mode = "0600"};
  facts.interfaces = {{"eth0", {"10.0.0.1"}, true, 1500, 10'000}, {"docker0", {"172.17.0.1"}, true, 1500, 0}};
  facts.meeting = {.text = "10.0.0.1:29500", .variable = "MASTER_ADDR", .addresses = {"10.0.0.1"}, .is_here = true};
  facts.choice = {.addresses = {"10.0.0.1", "172.17.0.1"}, .interface = "eth0", .towards = "the route to 10.0.0.1"};
  facts.tcp_memory = TcpMemory{{4096, 131072, 6291456}, {4096, 16384, 4194304}};
  facts.most_receive_bytes = 212992;
  facts.backlog = 4096;
  facts.ports = std::array<int64_t, 2>{32768, 60999};
  facts.engines = {{"libucp.so.0", "UCX", false, "not there"}, {"libmunge.so.2", "MUNGE", true, "/usr/lib/libmunge.so.2"}};
  facts.ucx = Fact<UcxFindings>::unknown("not there");
  return facts;
}

const std::vector<RdmaPort> mellanox = {{"mlx5_0", "1", "ACTIVE", "100 Gb/sec (4X EDR)", "InfiniBand"}};

Row row_of(const MachineFacts& facts, std::string_view name) {
  for (const Row& row : check_machine(facts))
    if (row.name == name) return row;
  ADD_FAILURE() << "there is no check " << name;
  return {};
}

TEST(Doctor, finds_nothing_wrong_with_a_good_machine) {
  const std::vector<Row> rows = check_machine(good_machine());
  EXPECT_EQ(rows.size(), machine_checks().size());
  std::set<std::string> names;
  for (const Row& row : rows) {
    EXPECT_EQ(row.verdict, Verdict::ok) << row.name << ": " << row.found;
    EXPECT_FALSE(row.found.empty()) << row.name;
    EXPECT_EQ(row.advice, "") << row.name;
    EXPECT_TRUE(names.insert(row.name).second) << row.name << " is there twice";
  }
}

// One thing is changed on a good machine: that row, and no other, says so and what to do.
struct Ill {
  const char* name;
  Verdict verdict;
  std::function<void(MachineFacts&)> make_ill;
  std::vector<std::string> found, advice;
};

const std::vector<Ill>& ills() {
  static const std::vector<Ill> table = {
      {"kernel", Verdict::problem, [](auto& facts) { facts.kernel = "5.4.0"; }, {"5.4.0"}, {"5.10"}},
      {"instruction_set", Verdict::warning, [](auto& facts) { facts.target = "EMU128"; }, {"EMU128"}, {"-cpu host"}},
      {"settings", Verdict::problem, [](auto& facts) { facts.settings_status = {ErrorCode::init, "UNISONO_TIMEOUT=\"soon\" is not"}; }, {"soon"}, {"unisono settings"}},
      {"launcher", Verdict::problem, [](auto& facts) { facts.launch_status = {ErrorCode::init, "RANK=7"}; }, {"RANK=7"}, {"unset"}},
      {"launcher", Verdict::warning, [](auto& facts) { facts.launch.meeting_point_is_taken = true; }, {"listens at 10.0.0.1:29500 itself"}, {"UNISONO_STORE=HOST:PORT"}},
      {"secret", Verdict::problem, [](auto& facts) { facts.secret = {.own_path = "/home/ada/.config/unisono/secret"}; }, {"none"}, {"unisono secret new", "/home/ada"}},
      {"secret", Verdict::problem, [](auto& facts) { facts.secret = {.status = {ErrorCode::auth, "its mode is 0644; run: chmod 600 x"}}; }, {"chmod 600"}, {"unisono secret check"}},
      {"secret", Verdict::note, [](auto& facts) { facts.secret = {}; facts.launch.has_pmix = true; }, {"munge keeps from others"}, {"unisono secret new --file"}},
      {"secret", Verdict::note, [](auto& facts) { facts.secret = {}; facts.settings.insecure = true; }, {"UNISONO_INSECURE"}, {"unisono secret new --file"}},
      {"descriptors", Verdict::warning, [](auto& facts) { facts.files = Limit{256, 4096}; facts.ranks_that_fit_elsewhere = 30; }, {"limit 256", "30 on others"}, {"ulimit -n 4096"}},
      {"descriptors", Verdict::problem, [](auto& facts) { facts.files = Limit{64, 64}; facts.ranks_that_fit_elsewhere = 2; }, {"limit 64"}, {"nofile 4096", "limits.conf"}},
      {"memory", Verdict::problem, [](auto& facts) { facts.memory = {20_MiB, "/sys/fs/cgroup/job/memory.max"}; }, {"20 MiB", "memory.max"}, {"--mem"}},
      {"memory", Verdict::warning, [](auto& facts) { facts.memory = {100_MiB, "MemAvailable"}; }, {"100 MiB"}, {"fewer ranks"}},
      {"memory", Verdict::note, [](auto& facts) { facts.memory = {}; }, {"unknown", "/proc/meminfo"}, {}},
      {"shared_memory", Verdict::problem, [](auto& facts) { facts.arena = {ErrorCode::memory, "no memfd"}; }, {"no memfd"}, {"UNISONO_ARENA", "ulimit -v"}},
      {"address_space", Verdict::problem, [](auto& facts) { facts.address_space = Limit{2_GiB, 2_GiB}; }, {"2 GiB", "1 ranks"}, {"ulimit -v unlimited"}},
      {"address_space", Verdict::warning, [](auto& facts) { facts.address_space = Limit{9_GiB, 9_GiB}; }, {"8 ranks"}, {"UNISONO_ARENA"}},
      {"locked_memory", Verdict::note, [](auto& facts) { facts.locked = Limit{8_MiB, 8_MiB}; }, {"8 MiB"}, {"memlock unlimited"}},
      {"processes", Verdict::problem, [](auto& facts) { facts.pids_left = 3; facts.pids_limited_by = "/sys/fs/cgroup/pids.max"; }, {"3 more tasks", "pids.max"}, {"TasksMax="}},
      {"processes", Verdict::warning, [](auto& facts) { facts.processes = Limit{64, 128}; }, {"ulimit -u 64"}, {"nproc 4096"}},
      {"cores", Verdict::warning, [](auto& facts) { facts.quota = 1; }, {"1 usable", "1 by the cgroup's quota", "2 ranks"}, {"--cpus"}},
      {"cores", Verdict::warning, [](auto& facts) { facts.cores = 1; }, {"1 in the affinity mask"}, {"taskset"}},
      {"peer_reads", Verdict::warning, [](auto& facts) { facts.sibling_read_error = EPERM; facts.ptrace_scope = 1; }, {"ptrace_scope is 1"}, {"sysctl -w kernel.yama.ptrace_scope=0"}},
      {"peer_reads", Verdict::warning, [](auto& facts) { facts.sibling_read_error = EPERM; facts.ptrace_scope = 3; }, {"ptrace_scope is 3"}, {"reboot"}},
      {"peer_reads", Verdict::warning, [](auto& facts) { facts.sibling_read_error = ENOSYS; }, {"Function not implemented"}, {"seccomp"}},
      {"peer_reads", Verdict::note, [](auto& facts) { facts.sibling_read_error = Fact<int>::unknown("no process"); }, {"unknown: no process"}, {}},
      {"system_calls", Verdict::problem, [](auto& facts) { facts.seccomp = 2; facts.refused = {{"pidfd_open", EPERM}}; }, {"filter is on", "pidfd_open: Operation not permitted"}, {"allow pidfd_open"}},
      {"system_calls", Verdict::warning, [](auto& facts) { facts.refused = {{"membarrier", ENOSYS}}; }, {"membarrier"}, {"allow membarrier"}},
      {"engines", Verdict::note, [](auto& facts) { facts.engines[0].is_known = false; facts.engines[0].detail = "no process"; }, {"unknown: libucp.so.0: no process", "not found: none"}, {}},
      {"fabric", Verdict::note, [](auto& facts) { facts.rdma = mellanox; }, {"mlx5_0 port 1: ACTIVE, 100 Gb/sec (4X EDR), InfiniBand", "UCX encrypts nothing"}, {"UNISONO_FABRIC=trusted"}},
      {"fabric", Verdict::problem, [](auto& facts) { facts.settings.transport = "ucx"; }, {"UNISONO_FABRIC is untrusted"}, {"UNISONO_FABRIC=trusted"}},
      {"fabric", Verdict::warning, [](auto& facts) { facts.rdma = mellanox; facts.settings.fabric = "trusted"; }, {"UCX cannot be used (not there)", "TCP is used"}, {"libucx0", "libucx-cu12", "UNISONO_UCX_LIBRARY"}},
      {"fabric", Verdict::warning, [](auto& facts) { facts.settings.fabric = "trusted"; facts.settings.transport = "ucx"; facts.ucx = UcxFindings{"1.13.1", {"self/memory0", "posix/memory"}}; },
       {"no device for RDMA", "UCX 1.13.1 may use self/memory0, posix/memory", "none of it leads to another machine"}, {"ibv_devinfo"}},
      {"interrupts", Verdict::note, [](auto& facts) { facts.interrupt_is_ignored = true; }, {"ignored"}, {"SIGTERM"}},
      {"meeting_point", Verdict::problem, [](auto& facts) { facts.meeting.lookup = {ErrorCode::init, "nobody is called nowhere"}; }, {"nobody"}, {"export MASTER_ADDR="}},
      {"meeting_point", Verdict::warning, [](auto& facts) { facts.meeting.is_loopback = true; }, {"nobody else's way"}, {"export MASTER_ADDR"}},
      {"meeting_point", Verdict::problem, [](auto& facts) { facts.meeting.is_here = false; }, {"no interface of this machine has it"}, {"start rank 0 on", "172.17.0.1"}},
      {"interfaces", Verdict::problem, [](auto& facts) { facts.choice = {.status = {ErrorCode::init, "leaves no address"}}; }, {"leaves no address", "eth0 10.0.0.1"}, {"UNISONO_SOCKET_IFNAME"}},
      {"interfaces", Verdict::problem, [](auto& facts) { facts.interfaces.clear(); }, {"only loopback"}, {"ip link set"}},
      {"mtu", Verdict::note, [](auto& facts) { facts.interfaces[0].mtu = 1280; }, {"eth0 1280"}, {"ip link set dev eth0 mtu 1500"}},
      {"tcp_memory", Verdict::warning, [](auto& facts) { facts.tcp_memory = TcpMemory{{4096, 16384, 16384}, {4096, 16384, 4194304}}; }, {"tcp_rmem 4096 16384 16384"},
       {"sysctl -w net.ipv4.tcp_rmem=\"4096 131072 16777216\""}},
      {"tcp_memory", Verdict::note, [](auto& facts) { facts.tcp_memory = Fact<TcpMemory>::unknown("/proc/sys: gone"); }, {"unknown: /proc/sys: gone"}, {}},
      {"backlog", Verdict::warning, [](auto& facts) { facts.backlog = 16; }, {"16"}, {"sysctl -w net.core.somaxconn=4096"}},
      {"ports", Verdict::warning, [](auto& facts) { facts.ports = std::array<int64_t, 2>{40000, 40100}; }, {"(101)"}, {"ip_local_port_range"}},
      {"ports", Verdict::problem, [](auto& facts) { facts.settings.port_range = "20000-20000"; }, {"too few for the 2 ranks"}, {"UNISONO_PORT_RANGE=20000-20063"}},
      {"ports", Verdict::note, [](auto& facts) { facts.settings.port_range = "40000-40010"; }, {"may take first"}, {"outside 32768-60999"}},
  };
  return table;
}

TEST(Doctor, says_what_is_wrong_and_what_to_type) {
  for (const Ill& ill : ills()) {
    MachineFacts facts = good_machine();
    ill.make_ill(facts);
    const Row row = row_of(facts, ill.name);
    EXPECT_EQ(row.verdict, ill.verdict) << ill.name << ": " << row.found;
    for (const std::string& part : ill.found) EXPECT_NE(row.found.find(part), row.found.npos) << part << " is not in: " << row.found;
    for (const std::string& part : ill.advice) EXPECT_NE(row.advice.find(part), row.advice.npos) << part << " is not in: " << row.advice;
    EXPECT_EQ(row.advice.empty(), ill.advice.empty()) << row.advice;
  }
}

TEST(Doctor, tells_of_one_ill_once) {
  for (const Ill& ill : ills()) {
    if (std::string_view(ill.name) == "settings") continue;
    MachineFacts facts = good_machine();
    ill.make_ill(facts);
    for (const Row& row : check_machine(facts))
      EXPECT_TRUE(row.name == ill.name || row.verdict == Verdict::ok) << "with a bad " << ill.name << " also " << row.name << ": " << row.found;
  }
}

// Alone, nothing is needed that only jobs of several machines need.
TEST(Doctor, asks_no_secret_and_no_network_of_a_machine_alone) {
  MachineFacts facts = good_machine();
  facts.launch = {};
  facts.ranks = 1;
  facts.ranks_here = 1;
  facts.secret = {};
  facts.meeting = {};
  facts.interfaces.clear();
  facts.choice = {};
  EXPECT_EQ(worst_of(check_machine(facts)), Verdict::note);
  EXPECT_NE(row_of(facts, "launcher").found.find("a world of 1"), std::string::npos);
}

TEST(Doctor, says_which_fabric_is_used) {
  MachineFacts facts = good_machine();
  EXPECT_NE(row_of(facts, "fabric").found.find("TCP is used between machines"), std::string::npos);
  facts.rdma = mellanox;
  facts.settings.fabric = "trusted";
  facts.ucx = UcxFindings{"1.18.0", {"rc_mlx5/mlx5_0:1", "posix/memory"}};
  const Row row = row_of(facts, "fabric");
  EXPECT_EQ(row.verdict, Verdict::ok);
  EXPECT_NE(row.found.find("UCX 1.18.0 may use rc_mlx5/mlx5_0:1, posix/memory, and is used between machines"), std::string::npos) << row.found;
}

TEST(Doctor, reads_the_devices_for_rdma) {
  const std::string port = "sys/class/infiniband/mlx5_0/ports/1/";
  const FileTree tree({{port + "state", "4: ACTIVE\n"}, {port + "rate", "100 Gb/sec (4X EDR)\n"}, {port + "link_layer", "InfiniBand\n"}});
  const auto ports = rdma_ports(tree.root());
  ASSERT_EQ(ports.size(), 1u);
  EXPECT_EQ(ports[0].device + ports[0].number + ports[0].state + ports[0].rate + ports[0].layer, "mlx5_01ACTIVE100 Gb/sec (4X EDR)InfiniBand");
  EXPECT_TRUE(rdma_ports(tree.root() + "nowhere/").empty());
}

TEST(Doctor, shows_where_the_engines_are_and_what_they_are_used_for) {
  const Row row = row_of(good_machine(), "engines");
  for (const char* part : {"found: /usr/lib/libmunge.so.2", "not found: libucp.so.0", "UCX where the row `fabric` says so"}) EXPECT_NE(row.found.find(part), row.found.npos) << row.found;
}

TEST(Doctor, reads_the_pids_that_are_left_from_the_tightest_group) {
  const FileTree two({{"proc/self/cgroup", "0::/user/job\n"}, {"sys/fs/cgroup/user/job/pids.max", "max\n"}, {"sys/fs/cgroup/user/job/pids.current", "7\n"},
                      {"sys/fs/cgroup/user/pids.max", "100\n"}, {"sys/fs/cgroup/user/pids.current", "60\n"}});
  std::string by;
  const Fact<int64_t> left = pids_left(two.root(), by);
  ASSERT_TRUE(left) << left.why;
  EXPECT_EQ(*left, 40);
  EXPECT_EQ(by, two.root() + "sys/fs/cgroup/user/pids.max");
  const FileTree one({{"proc/self/cgroup", "8:pids:/job\n0::/\n"}, {"sys/fs/cgroup/pids/job/pids.max", "20\n"}, {"sys/fs/cgroup/pids/job/pids.current", "25\n"}});
  EXPECT_EQ(*pids_left(one.root(), by), 0);
  const FileTree inner({{"proc/self/cgroup", "0::/job\n"}, {"sys/fs/cgroup/job/pids.max", "30\n"}, {"sys/fs/cgroup/job/pids.current", "20\n"},
                        {"sys/fs/cgroup/pids.max", "100\n"}, {"sys/fs/cgroup/pids.current", "60\n"}});
  EXPECT_EQ(*pids_left(inner.root(), by), 10);
  const FileTree none(std::map<std::string, std::string>{{"proc/self/cgroup", "0::/\n"}});
  EXPECT_EQ(*pids_left(none.root(), by), unlimited);
  EXPECT_FALSE(pids_left(none.root() + "nowhere/", by));
}

// A machine without /proc: no row is missing, none says more than is known, and each says why.
TEST(Doctor, says_unknown_where_files_are_missing) {
  const FileTree empty(std::map<std::string, std::string>{});
  const MachineFacts facts = read_machine_facts({}, empty.root());
  const std::vector<Row> rows = check_machine(facts);
  EXPECT_EQ(rows.size(), machine_checks().size());
  for (const char* name : {"memory", "tcp_memory", "backlog", "ports"}) {
    const Row row = row_of(facts, name);
    EXPECT_EQ(row.verdict, Verdict::note) << name;
    EXPECT_TRUE(row.found.starts_with("unknown: ")) << row.found;
  }
  EXPECT_NE(row_of(facts, "processes").found.find("unknown"), std::string::npos);
}

TEST(Doctor, probes_end_in_time_and_tell_how) {
  EXPECT_EQ(*in_child([] { return std::string("hello"); }, 10), "hello");
  const int64_t begin = now_ns();
  const auto hung = in_child([]() -> std::string {
    while (true) pause();
  }, 0.05);
  EXPECT_EQ(hung.status().code(), ErrorCode::timeout);
  EXPECT_LT(now_ns() - begin, 2'000'000'000);
  const auto killed = in_child([]() -> std::string {
    raise(SIGKILL);
    return "";
  }, 10);
  EXPECT_NE(killed.status().message().find("signal 9"), std::string::npos) << killed.status().message();
}

TEST(DoctorRows, come_back_as_they_were_sent) {
  const std::vector<Row> rows = {{"memory", Verdict::warning, "little", "more", "4"}, {"x", Verdict::ok, "", "", ""}};
  EXPECT_EQ(decode(encode(rows)), rows);
  EXPECT_EQ(decode(""), std::vector<Row>());
  EXPECT_EQ(decode(encode({{{"a", Verdict::ok, "tab\there\nline", {}, {}}}}))->front().found, "tab here line");
  for (const char* noise : {"name\tok\tfound\tadvice", "name\tok\tfound\tadvice\n", "name\tgood\tfound\tadvice\t\n", "a\tok\tb\tc\td\te\n"}) EXPECT_FALSE(decode(noise)) << noise;
}

TEST(DoctorJson, escapes_and_nests) {
  JsonWriter json;
  json.open_object();
  json.put("quote \"", "back\\slash \"and\" \n a line");
  json.open_list("list");
  json.add(1);
  json.add(-2);
  json.close_list();
  json.open_list("empty");
  json.close_list();
  json.put("number", 1.5);
  json.put("none", std::numeric_limits<double>::infinity());
  json.put("flag", true);
  json.close_object();
  EXPECT_EQ(json.text(), "{\n  \"quote \\\"\": \"back\\\\slash \\\"and\\\"   a line\",\n  \"list\": [\n    1,\n    -2\n  ],\n  \"empty\": [],\n  \"number\": 1.500,\n  \"none\": null,\n  \"flag\": true\n}");
}

}  // namespace
}  // namespace unisono::doctor
