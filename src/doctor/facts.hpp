// What there is to know about one machine, as numbers and texts; read in facts.cpp and network_facts.cpp, judged in machine_checks.cpp. Values: tests write them
// by hand.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "doctor/probes.hpp"
#include "rendezvous/launchers.hpp"
#include "transport/headroom.hpp"
#include "transport/ucx_library.hpp"
#include "unisono/settings.hpp"
#include "unisono/status.hpp"

namespace unisono::doctor {

// Something that was read, or why it is not known.
template <typename T>
struct Fact {
  std::optional<T> value = {};
  std::string why = {};

  Fact() : why("it was not looked at") {}
  Fact(T known) : value(std::move(known)) {}
  static Fact unknown(std::string why) {
    Fact fact;
    fact.why = std::move(why);
    return fact;
  }
  explicit operator bool() const { return value.has_value(); }
  const T& operator*() const { return *value; }
  const T* operator->() const { return &*value; }
};

inline constexpr int64_t unlimited = INT64_MAX;

// A limit of getrlimit(); unlimited where there is none.
struct Limit {
  int64_t soft = unlimited, hard = unlimited;
};

struct InterfaceFacts {
  std::string name;
  std::vector<std::string> addresses;  // without loopback and link-local ones
  bool is_up = true;
  int mtu = 0;                // 0: unknown
  int64_t speed_mbit = 0;     // as its driver says; 0: it does not
};

// Where ranks of several machines are to meet, as the variables say.
struct MeetingFacts {
  std::string text;      // host:port; empty: none is named
  std::string variable;  // that names it
  Status lookup = {};    // why the host is not known
  std::vector<std::string> addresses = {};
  bool is_loopback = false;  // it leads to this machine alone
  bool is_here = false;      // one of this machine's interfaces has one of the addresses
};

// What a rank of this machine would listen at and tell others of.
struct ChoiceFacts {
  Status status = {};                   // why there is nothing
  std::vector<std::string> addresses = {};  // the first is tried first
  std::string interface = {};           // of the first
  std::string towards = {};             // what it was chosen by: "the route to 10.0.0.1", "the default route"
};

struct TcpMemory {
  std::array<int64_t, 3> receive = {}, send = {};  // least, default, most
};

struct SecretFacts {
  Status status = {};       // why one that is there cannot be used
  std::string source = {};  // empty: there is none
  std::string mode = {};    // of a file: "0600"
  std::string own_path = {};  // where the user's own would be; empty: no home
};

struct MachineFacts {
  std::string host, version, kernel, target;  // name, of the library, release, instruction set
  Status settings_status = {};
  Settings settings = {};
  Status launch_status = {};
  LaunchInfo launch = {};
  int ranks = 1, ranks_here = 0;  // of the job as far as it is known; 0: not
  Fact<Limit> files, processes, address_space, locked;
  int64_t open_files = 0;
  int ranks_that_fit_here = 0, ranks_that_fit_elsewhere = 0;  // by descriptors
  Headroom memory = {};
  Status arena = {};             // why no arena can be made
  Fact<int64_t> pids_left;       // of the tightest pids cgroup; unlimited
  std::string pids_limited_by = {};
  int cores = 1, quota = 0;      // in the affinity mask; what the cgroups allow, 0: no limit
  bool is_root = false;
  Fact<int> ptrace_scope;        // Yama's
  Fact<int> sibling_read_error;  // 0: neighbours read each other's memory
  Fact<int> seccomp;             // 0 none, 1 strict, 2 filter
  std::vector<Refusal> refused = {};
  bool interrupt_is_ignored = false;
  SecretFacts secret = {};
  std::vector<InterfaceFacts> interfaces = {};
  MeetingFacts meeting = {};
  ChoiceFacts choice = {};
  Fact<TcpMemory> tcp_memory;
  Fact<int64_t> most_receive_bytes, backlog;  // net.core.rmem_max, net.core.somaxconn
  Fact<std::array<int64_t, 2>> ports;         // net.ipv4.ip_local_port_range
  std::vector<Engine> engines = {};
  std::vector<RdmaPort> rdma = {};
  Fact<UcxFindings> ucx;
};

// Everything; takes milliseconds, and at most a few seconds where a name is not known. In a process with one thread: see probes.hpp. `root` is "/" but in tests.
MachineFacts read_machine_facts(const Environment& environment, const std::string& root = "/");

// Parts of it, each by its own. network_facts.cpp
void read_network_facts(MachineFacts& facts, const Environment& environment, const std::string& root);
int mtu_of(const std::string& interface);             // 0: unknown
int64_t speed_mbit_of(const std::string& interface);  // likewise

// The whole numbers in a file of /proc or /sys, at least so many.
Fact<std::vector<int64_t>> numbers_in(const std::string& path, size_t at_least);
// The least of what the pids cgroups above this process still allow, and the file that says so.
Fact<int64_t> pids_left(const std::string& root, std::string& limited_by);

}  // namespace unisono::doctor
