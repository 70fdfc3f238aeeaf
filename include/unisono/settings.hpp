// Everything a user can set without changing a program: one struct, filled in one place, printed by
// `unisono settings`. The table in src/base/settings.cpp has a row a field: variable, default, sentence. The variables
// of the job secret have rows as well, without a field: a secret is neither kept nor shown here.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/status.hpp"

#pragma GCC visibility push(default)
namespace unisono {

// A snapshot of the process's environment, so that whatever depends on it can be tested with a recorded one.
using Environment = std::map<std::string, std::string, std::less<>>;

struct Settings {
  double timeout_s = 1800;         // deadline of a call
  double join_timeout_s = 300;     // deadline of joining
  double warn_after_s = 10;        // when a waiting call says whom it waits for
  std::string plan;                // overrides of the planner's rules: "all_reduce:0-64K=ring"
  int64_t tile_bytes = 0;          // bytes of one slot in a tile; 0 lets the planner choose
  bool reproducible = false;       // sums depend on the inputs and the number of ranks alone
  int64_t spin_us = 50;            // how long a waiter polls before it sleeps, when every rank has a core
  int64_t cores = 0;               // usable cores; 0 asks the affinity mask and the cgroup's quota
  int64_t arena_bytes = 1 << 30;   // address space of one rank's arena; memory is taken only as it is used
  double idle_s = 30;              // after how long without calls a group gives the memory of its tiles back
  std::string peer_reads = "auto"; // reading a peer's private memory (process_vm_readv): auto, on or off
  std::string log = "warning";     // error, warning, info or debug
  int64_t first_call = 1;          // number of a group's first call; the same on all ranks
  std::string store;               // host:port where rank 0 serves the store by which machines meet; otherwise the launcher says
  std::string socket_ifname;       // interfaces to listen at: "eth,^docker"; otherwise all that are up
  std::string advertise;           // addresses that others are told instead of those: "203.0.113.7:20000"
  std::string port_range;          // ports to listen at: "20000-20063"; otherwise any
  bool minority = false;           // the smaller side of a network that was cut in two may agree and shrink, too
  bool insecure = false;           // between machines: without a secret, anybody is let in
  bool encrypt = false;            // between hosts: all bytes stay in TLS, not only what opens a connection
  int64_t sockets_per_peer = 1;    // connections to each rank on another host, for each group and use
  std::string transport = "auto";  // between hosts: auto, tcp or ucx
  std::string fabric = "untrusted";  // trusted: nobody else is on the network that UCX drives, so that what it sends needs no protection
  std::string ucx_library;         // libucp.so.0, where the system does not find it
  bool ucx_tcp = false;            // tests: UCX's own TCP transport, whose listener lets in anybody
  std::string pretend_hosts;       // a layout such as "2,2": ranks of one machine that treat each other as if it were so
  std::string test_streams = "rings";  // tests only: what channels between ranks move bytes with
  std::string fault;               // test builds only: "point:hit[:rank]" kills this process there
  std::string job;                 // the job's name, where no launcher gives one
};

constexpr int most_sockets_per_peer = 16;

struct SettingText {
  std::string variable, value, default_value, sentence;
};

// The only function that reads the environment. UNISONO_SECRET and UNISONO_SECRET_FD are left out.
Environment process_environment();
Result<Settings> settings_from(const Environment& environment);  // InitError naming variable and value
std::vector<SettingText> describe(const Settings& settings);

}  // namespace unisono
#pragma GCC visibility pop
