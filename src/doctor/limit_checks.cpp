// What the kernel and the administrator set on one machine. See machine_checks.hpp.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/sizes.hpp"
#include "doctor/machine_checks.hpp"

namespace unisono::doctor {
namespace {

constexpr int threads_of_a_rank = 3;  // the program's, and two of the library's

std::string number(int64_t value) { return value == unlimited ? "unlimited" : std::to_string(value); }
std::string size(int64_t bytes) { return bytes == unlimited ? "unlimited" : readable_size(bytes); }

// How to raise a limit: what a user may do by itself, or what only an administrator may.
std::string raise(const char* option, const char* item, int64_t wanted, const Limit& limit) {
  if (limit.hard >= wanted) return fmt::format("ulimit -{} {}", option, wanted);
  return fmt::format("as root: echo '* hard {} {}' >> /etc/security/limits.conf (under systemd: Limit{}=), log in again, then ulimit -{} {}", item, wanted,
                     std::string_view(item) == "nofile" ? "NOFILE" : "NPROC", option, wanted);
}

}  // namespace

Row check_descriptors(const MachineFacts& facts) {
  if (!facts.files) return unknown(facts.files);
  constexpr int comfortable = 64;
  constexpr int64_t enough = 4096;
  const int least = std::min(facts.ranks_that_fit_here, facts.ranks_that_fit_elsewhere);
  Row row{{}, Verdict::ok, fmt::format("limit {} (hard {}), {} open; room for {} ranks on this machine, or {} on others", number(facts.files->soft),
                                       number(facts.files->hard), facts.open_files, facts.ranks_that_fit_here, facts.ranks_that_fit_elsewhere),
          {}, number(facts.files->soft)};
  const bool fits = spans_machines(facts) ? facts.ranks - 1 <= facts.ranks_that_fit_elsewhere : facts.ranks <= facts.ranks_that_fit_here;
  if (least < comfortable) row.verdict = Verdict::warning;
  if (!fits || facts.ranks_that_fit_here < 2) row.verdict = Verdict::problem;
  if (row.verdict == Verdict::ok) return row;
  row.advice = raise("n", "nofile", std::max<int64_t>(enough, 16 * int64_t{facts.ranks}), *facts.files);
  return row;
}

Row check_memory(const MachineFacts& facts) {
  constexpr int64_t least_of_a_rank = 16_MiB, little_for_a_rank = 64_MiB;
  if (facts.memory.limited_by.empty()) return {{}, Verdict::note, "unknown: neither /proc/meminfo nor a memory cgroup says how much is left"};
  const int64_t ranks = std::max(facts.ranks_here, 2);
  const bool by_cgroup = facts.memory.limited_by != "MemAvailable";
  Row row{{}, Verdict::ok, fmt::format("{} may still be taken (limited by {})", readable_size(facts.memory.bytes), facts.memory.limited_by)};
  if (facts.memory.bytes < ranks * little_for_a_rank) row.verdict = Verdict::warning;
  if (facts.memory.bytes < ranks * least_of_a_rank) row.verdict = Verdict::problem;
  if (row.verdict == Verdict::ok) return row;
  row.advice = by_cgroup ? fmt::format("raise the limit of the cgroup (Slurm: --mem, docker: --memory, systemd: MemoryMax=), at least {} for {} ranks", readable_size(ranks * little_for_a_rank), ranks)
                         : fmt::format("end other programs, or use fewer ranks: {} ranks want at least {}", ranks, readable_size(ranks * little_for_a_rank));
  return row;
}

Row check_shared_memory(const MachineFacts& facts) {
  const std::string arena = readable_size(facts.settings.arena_bytes);
  if (facts.arena.ok()) return {{}, Verdict::ok, fmt::format("a sealed memfd of {} was made and mapped; memory is taken as it is used, and /dev/shm is not", arena)};
  return {{}, Verdict::problem, fmt::format("no shared memory could be made: {}", facts.arena.message()),
          fmt::format("UNISONO_ARENA=128M takes less address space than {}; ulimit -v unlimited lifts the limit of it; a container has to allow memfd_create", arena)};
}

Row check_address_space(const MachineFacts& facts) {
  if (!facts.address_space) return unknown(facts.address_space);
  const int64_t limit = facts.address_space->soft, arena = std::max<int64_t>(facts.settings.arena_bytes, 1);
  if (limit == unlimited) return {{}, Verdict::ok, "unlimited", {}, "unlimited"};
  const int64_t kept_for_the_program = 1_GiB;
  const int64_t ranks = std::max<int64_t>(limit - kept_for_the_program, 0) / arena;
  Row row{{}, Verdict::ok, fmt::format("limit {}: room for the arenas of {} ranks, {} each", size(limit), ranks, readable_size(arena)), {}, size(limit)};
  if (ranks < 16) row.verdict = Verdict::warning;
  if (ranks < std::max(facts.ranks_here, 1)) row.verdict = Verdict::problem;
  if (row.verdict != Verdict::ok) row.advice = "ulimit -v unlimited, or smaller arenas: UNISONO_ARENA=128M";
  return row;
}

// A card that moves memory by itself needs it to stay where it is: see docs/fabrics.md.
Row check_locked_memory(const MachineFacts& facts) {
  if (!facts.locked) return unknown(facts.locked);
  if (facts.locked->soft == unlimited) return {{}, Verdict::ok, "unlimited", {}, "unlimited"};
  return {{}, Verdict::note, fmt::format("limit {} (hard {}). Unisono itself locks no memory; UCX does where it drives InfiniBand or RoCE", size(facts.locked->soft), size(facts.locked->hard)),
          facts.locked->hard == unlimited ? "ulimit -l unlimited" : "as root: echo '* - memlock unlimited' >> /etc/security/limits.conf, then log in again", size(facts.locked->soft)};
}

Row check_processes(const MachineFacts& facts) {
  if (!facts.pids_left && !facts.processes) return unknown(facts.pids_left);
  const int64_t by_cgroup = facts.pids_left ? *facts.pids_left : unlimited;
  const int64_t by_user = facts.processes && !facts.is_root ? facts.processes->soft : unlimited;  // counts for everybody but root
  const int64_t wanted = int64_t{threads_of_a_rank} * std::max(facts.ranks_here, 1);
  std::string found = fmt::format("ulimit -u {}{}; ", facts.processes ? number(facts.processes->soft) : "unknown", facts.is_root ? " (not for root)" : "");
  found += by_cgroup == unlimited ? (facts.pids_left ? "no pids cgroup limits" : "pids cgroup unknown: " + facts.pids_left.why)
                                  : fmt::format("{} more tasks allowed by {}", by_cgroup, facts.pids_limited_by);
  Row row{{}, Verdict::ok, found + fmt::format("; a rank has {} threads", threads_of_a_rank)};
  const int64_t left = std::min(by_cgroup, by_user);
  if (left < 16 * wanted && left < 256) row.verdict = Verdict::warning;
  if (left < wanted) row.verdict = Verdict::problem;
  if (row.verdict == Verdict::ok) return row;
  row.advice = by_cgroup <= by_user ? "raise the limit of the cgroup (docker: --pids-limit, systemd: TasksMax=)" : raise("u", "nproc", 4096, *facts.processes);
  return row;
}

Row check_cores(const MachineFacts& facts) {
  const int usable = facts.quota > 0 ? std::min(facts.quota, facts.cores) : facts.cores;
  Row row{{}, Verdict::ok, fmt::format("{} usable: {} in the affinity mask, {}", usable, facts.cores,
                                       facts.quota > 0 ? fmt::format("{} by the cgroup's quota", facts.quota) : "no cgroup quota")};
  if (facts.ranks_here <= usable) return row;
  row.verdict = Verdict::warning;
  row.found += fmt::format("; {} ranks run here, so they take turns and waiting costs microseconds more", facts.ranks_here);
  row.advice = facts.quota > 0 && facts.quota < facts.cores ? "fewer ranks, or a larger CPU quota (docker: --cpus, Slurm: --cpus-per-task)"
                                                            : "fewer ranks on this machine, or more cores for the job (taskset, Slurm: --cpus-per-task, mpirun: --bind-to none)";
  return row;
}

Row check_peer_reads(const MachineFacts& facts) {
  if (facts.settings.peer_reads == "off") return {{}, Verdict::note, "off by UNISONO_PEER_READS; ranks copy through shared memory", {}, "off"};
  if (!facts.sibling_read_error) return unknown(facts.sibling_read_error);
  const int error = *facts.sibling_read_error;
  if (error == 0) return {{}, Verdict::ok, "two processes of this user read each other's memory (process_vm_readv)", {}, "yes"};
  const bool by_yama = error == EPERM && facts.ptrace_scope && *facts.ptrace_scope > 0;
  Row row{{}, Verdict::warning, fmt::format("process_vm_readv between two processes of this user: {}{}; large tensors are copied once more", std::strerror(error),
                                            by_yama ? fmt::format(" (Yama's ptrace_scope is {})", *facts.ptrace_scope) : ""),
          "allow process_vm_readv in the container's seccomp profile (docker: --cap-add SYS_PTRACE, or --security-opt seccomp=PROFILE)", "no"};
  if (by_yama && *facts.ptrace_scope < 3) row.advice = "as root: sysctl -w kernel.yama.ptrace_scope=0";
  if (by_yama && *facts.ptrace_scope >= 3) row.advice = "ptrace_scope 3 lasts until the machine is started again: set kernel.yama.ptrace_scope=0 in /etc/sysctl.d and reboot";
  return row;
}

Row check_system_calls(const MachineFacts& facts) {
  const std::string filter = !facts.seccomp ? "whether a seccomp filter is on is unknown: " + facts.seccomp.why
                             : *facts.seccomp == 0 ? "no seccomp filter" : "a seccomp filter is on";
  if (facts.refused.empty()) return {{}, Verdict::ok, filter + "; memfd_create, pidfd_open and membarrier work"};
  std::string refused, names;
  Verdict verdict = Verdict::warning;
  for (const Refusal& one : facts.refused) {
    refused += fmt::format("{}{}: {}", refused.empty() ? "" : "; ", one.call, std::strerror(one.error));
    names += (names.empty() ? "" : ", ") + one.call;
    if (one.call != "membarrier") verdict = Verdict::problem;  // there is another way to do what it does
  }
  return {{}, verdict, fmt::format("{}; refused: {}", filter, refused), fmt::format("allow {} in the seccomp profile of the container or sandbox", names)};
}

Row check_interrupts(const MachineFacts& facts) {
  if (!facts.interrupt_is_ignored) return {{}, Verdict::ok, "Ctrl-C (SIGINT) is not ignored"};
  return {{}, Verdict::note, "Ctrl-C (SIGINT) is ignored, as shells do for what they start in the background",
          "to end ranks use SIGTERM (kill PID), or start the job in the foreground"};
}

}  // namespace unisono::doctor
