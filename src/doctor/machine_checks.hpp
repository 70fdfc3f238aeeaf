// The checks of one machine: each a pure function from facts to a row. The table is in machine_checks.cpp.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "doctor/facts.hpp"
#include "doctor/row.hpp"

namespace unisono::doctor {

struct MachineCheck {
  std::string_view name;
  Row (*judge)(const MachineFacts& facts);  // all but the name
};

std::span<const MachineCheck> machine_checks();
std::vector<Row> check_machine(const MachineFacts& facts);  // in the order of the table

// In limit_checks.cpp: what the kernel and the administrator set on one machine.
Row check_descriptors(const MachineFacts& facts);
Row check_memory(const MachineFacts& facts);
Row check_shared_memory(const MachineFacts& facts);
Row check_address_space(const MachineFacts& facts);
Row check_locked_memory(const MachineFacts& facts);
Row check_processes(const MachineFacts& facts);
Row check_cores(const MachineFacts& facts);
Row check_peer_reads(const MachineFacts& facts);
Row check_system_calls(const MachineFacts& facts);
Row check_interrupts(const MachineFacts& facts);

// In network_checks.cpp: how ranks would meet, and by what.
Row check_launcher(const MachineFacts& facts);
Row check_secret(const MachineFacts& facts);
Row check_meeting_point(const MachineFacts& facts);
Row check_interfaces(const MachineFacts& facts);
Row check_mtu(const MachineFacts& facts);
Row check_tcp_memory(const MachineFacts& facts);
Row check_backlog(const MachineFacts& facts);
Row check_ports(const MachineFacts& facts);

// The line that lets sockets grow to so many bytes, all three numbers of it.
std::string tcp_memory_line(std::string_view name, const std::array<int64_t, 3>& now, int64_t most);
inline constexpr int64_t good_tcp_memory_bytes = 16 << 20;  // what the lines suggest at least

// Ranks of several machines take part, or may.
inline bool spans_machines(const MachineFacts& facts) { return facts.ranks > 1 && !facts.launch.all_local; }

template <typename T>
Row unknown(const Fact<T>& fact) {
  return {{}, Verdict::note, "unknown: " + fact.why};
}

}  // namespace unisono::doctor
