// The table of checks, and those about what runs here. The others: limit_checks.cpp, network_checks.cpp.
#include "doctor/machine_checks.hpp"

#include <fmt/format.h>

#include <cstdio>

namespace unisono::doctor {
namespace {

Row check_version(const MachineFacts& facts) { return {{}, Verdict::ok, "unisono " + facts.version, {}, facts.version}; }

Row check_kernel(const MachineFacts& facts) {
  constexpr int oldest_major = 5, oldest_minor = 10;
  int major = 0, minor = 0;
  if (std::sscanf(facts.kernel.c_str(), "%d.%d", &major, &minor) != 2) return {{}, Verdict::note, fmt::format("unknown: the kernel calls itself \"{}\"", facts.kernel)};
  const bool is_old = major < oldest_major || (major == oldest_major && minor < oldest_minor);
  if (!is_old) return {{}, Verdict::ok, "Linux " + facts.kernel};
  return {{}, Verdict::problem, "Linux " + facts.kernel, "Unisono needs Linux 5.10 or newer: update the kernel"};
}

// Results have the same bits on every instruction set, so hosts may differ; the slower one sets the pace.
Row check_instruction_set(const MachineFacts& facts) {
  const bool is_plain = facts.target == "EMU128" || facts.target == "SCALAR";
  if (!is_plain) return {{}, Verdict::ok, fmt::format("the kernels use {}", facts.target), {}, facts.target};
  return {{}, Verdict::warning, fmt::format("the kernels use {}: no vector instructions that they know", facts.target),
          "if this is a virtual machine, give it the host's CPU model (qemu: -cpu host)", facts.target};
}

Row check_settings(const MachineFacts& facts) {
  if (!facts.settings_status.ok()) return {{}, Verdict::problem, facts.settings_status.message(), "unisono settings lists what can be set"};
  std::string changed, compared;
  for (const SettingText& setting : describe(facts.settings)) {
    const bool is_of_the_job = setting.variable == "UNISONO_JOB", is_of_one_host = setting.variable == "UNISONO_ADVERTISE";
    if (setting.value == setting.default_value || is_of_the_job) continue;
    const std::string text = fmt::format("{}={}", setting.variable, setting.value);
    changed += (changed.empty() ? "" : " ") + text;
    if (!is_of_one_host) compared += (compared.empty() ? "" : " ") + text;
  }
  return {{}, Verdict::ok, changed.empty() ? "all as by default" : changed, {}, compared.empty() ? "all as by default" : compared};
}

Row check_engines(const MachineFacts& facts) {
  std::string found, absent, unknown;
  for (const Engine& engine : facts.engines) {
    std::string& list = !engine.is_known ? unknown : engine.is_found ? found : absent;
    const bool is_placed = engine.is_found && engine.detail.find('/') != std::string::npos;
    list += (list.empty() ? "" : ", ") + (is_placed ? engine.detail : engine.library) + (engine.is_known ? "" : ": " + engine.detail);
  }
  return {{}, unknown.empty() ? Verdict::ok : Verdict::note,
          fmt::format("found: {}; not found: {}{}. PMIx is used under launchers that speak it, MUNGE there to hand out a secret where there is none, UCX where the row `fabric` says so: memory on one machine and TCP between machines are built in", found.empty() ? "none" : found,
                      absent.empty() ? "none" : absent, unknown.empty() ? "" : "; unknown: " + unknown)};
}

std::string text_of(const std::vector<RdmaPort>& ports) {
  std::string text;
  for (const RdmaPort& port : ports) text += fmt::format("{}{} port {}: {}, {}, {}", text.empty() ? "" : "; ", port.device, port.number, port.state, port.rate, port.layer);
  return text.empty() ? "no device for RDMA is here" : text;
}

std::string text_of(const Fact<UcxFindings>& ucx) {
  if (!ucx) return fmt::format("UCX cannot be used ({})", ucx.why);
  std::string devices;
  for (const std::string& device : ucx->devices) devices += (devices.empty() ? "" : ", ") + device;
  return fmt::format("UCX {} may use {}", ucx->version, devices.empty() ? "nothing" : devices);
}

Row check_fabric(const MachineFacts& facts) {
  const Settings& settings = facts.settings;
  const bool is_trusted = settings.fabric == "trusted", is_asked_for = settings.transport == "ucx";
  const std::string found = fmt::format("{}; {}", text_of(facts.rdma), text_of(facts.ucx));
  if (!is_asked_for && (facts.rdma.empty() || settings.transport == "tcp")) return {{}, Verdict::ok, found + "; TCP is used between machines"};
  if (!is_trusted) {
    const std::string advice = "if nobody but you reaches that network: export UNISONO_FABRIC=trusted";
    return {{}, is_asked_for ? Verdict::problem : Verdict::note, found + "; UNISONO_FABRIC is untrusted, and UCX encrypts nothing", advice};
  }
  if (!facts.ucx) return {{}, Verdict::warning, found + "; TCP is used between machines", "sudo apt install libucx0, or pip install libucx-cu12 and name its lib/libucp.so.0 by UNISONO_UCX_LIBRARY"};
  if (!facts.ucx->leads_elsewhere())
    return {{}, Verdict::warning, found + ", and none of it leads to another machine: TCP is used", "see with ibv_devinfo (Debian: ibverbs-utils) whether the device's driver is loaded and its port is up"};
  return {{}, Verdict::ok, found + ", and is used between machines"};
}

constexpr MachineCheck table[] = {
    {"version", check_version},                  // of the library
    {"kernel", check_kernel},
    {"instruction_set", check_instruction_set},
    {"settings", check_settings},
    {"launcher", check_launcher},
    {"secret", check_secret},
    {"descriptors", check_descriptors},
    {"memory", check_memory},
    {"shared_memory", check_shared_memory},
    {"address_space", check_address_space},
    {"locked_memory", check_locked_memory},
    {"processes", check_processes},
    {"cores", check_cores},
    {"peer_reads", check_peer_reads},
    {"system_calls", check_system_calls},
    {"interrupts", check_interrupts},
    {"meeting_point", check_meeting_point},
    {"interfaces", check_interfaces},
    {"mtu", check_mtu},
    {"tcp_memory", check_tcp_memory},
    {"backlog", check_backlog},
    {"ports", check_ports},
    {"engines", check_engines},
    {"fabric", check_fabric},
};

}  // namespace

std::span<const MachineCheck> machine_checks() { return table; }

std::vector<Row> check_machine(const MachineFacts& facts) {
  std::vector<Row> rows;
  for (const MachineCheck& check : table) {
    rows.push_back(check.judge(facts));
    rows.back().name = check.name;
  }
  return rows;
}

}  // namespace unisono::doctor
