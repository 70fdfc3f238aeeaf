// How ranks would meet, and by what. See machine_checks.hpp.
#include <fmt/format.h>

#include <algorithm>

#include "base/sizes.hpp"
#include "doctor/machine_checks.hpp"
#include "transport/ports.hpp"

namespace unisono::doctor {
namespace {

const InterfaceFacts* chosen_interface(const MachineFacts& facts) {
  const auto found = std::ranges::find(facts.interfaces, facts.choice.interface, &InterfaceFacts::name);
  return found == facts.interfaces.end() ? nullptr : &*found;
}

std::string text_of(const InterfaceFacts& interface) { return fmt::format("{} {}{}", interface.name, fmt::join(interface.addresses, " "), interface.is_up ? "" : " (down)"); }

}  // namespace

std::string tcp_memory_line(std::string_view name, const std::array<int64_t, 3>& now, int64_t most) {
  return fmt::format("sysctl -w net.ipv4.{}=\"{} {} {}\"", name, now[0], std::min(std::max<int64_t>(now[1], 128_KiB), most), most);
}

Row check_launcher(const MachineFacts& facts) {
  if (!facts.launch_status.ok()) return {{}, Verdict::problem, facts.launch_status.message(), "correct these variables, or unset them; unisono run -n 4 -- ./program sets them"};
  const LaunchInfo& launch = facts.launch;
  if (launch.launcher == "none") return {{}, Verdict::ok, "none found: a program started like this is a world of 1"};
  if (!launch.is_rank) return {{}, Verdict::ok, "msrun's scheduler, which is no rank"};
  Row row{{}, Verdict::ok, fmt::format("{}: rank {} of {}{}", launch.launcher, launch.rank, launch.size,
                                       launch.local_size > 0 ? fmt::format(", {} on this machine", launch.local_size) : "")};
  const bool has_no_place = spans_machines(facts) && facts.settings.store.empty() && (launch.meeting_point.empty() || launch.meeting_point_is_taken);
  if (has_no_place && launch.has_pmix && launch.meeting_point.empty()) row.found += "; it passes on where the machines meet (PMIx)";
  if (!has_no_place || launch.has_pmix) return row;
  row.verdict = Verdict::warning;
  row.found += launch.meeting_point.empty() ? "; it names no place where the machines could meet" : "; it listens at " + launch.meeting_point + " itself";
  const std::string_view by_pmix = call_with_pmix(launch);
  row.advice = (by_pmix.empty() ? "" : fmt::format("{} ./program, or ", by_pmix)) + "export UNISONO_STORE=HOST:PORT on all ranks, a free port of rank 0's machine (torch.distributed brings a store of its own)";
  return row;
}

Row check_secret(const MachineFacts& facts) {
  const SecretFacts& secret = facts.secret;
  if (!secret.status.ok()) return {{}, Verdict::problem, secret.status.message(), "unisono secret check tries it again"};
  if (!secret.source.empty()) return {{}, Verdict::ok, fmt::format("{}{}, can be read", secret.source, secret.mode.empty() ? "" : ", mode " + secret.mode), {}, "yes"};
  const std::string where = secret.own_path.empty() ? "unisono secret new --file PATH, then export UNISONO_SECRET_FILE=PATH"
                                                    : fmt::format("unisono secret new, then copy {} to the other machines", secret.own_path);
  const auto is_munge = [](const Engine& engine) { return engine.library == "libmunge.so.2" && engine.is_found; };
  if (facts.launch.has_pmix && std::ranges::any_of(facts.engines, is_munge))
    return {{}, Verdict::note, "none; the launcher passes on one that rank 0 makes and munge keeps from others (libmunge.so.2 is here), unless UNISONO_STORE is set", where, "no"};
  if (facts.settings.insecure) return {{}, Verdict::note, "none, and UNISONO_INSECURE is on: whoever reaches a rank is let in", where, "no"};
  if (spans_machines(facts)) return {{}, Verdict::problem, "none, and ranks of this job may be on several machines, which refuse each other without one", where, "no"};
  return {{}, Verdict::note, "none; ranks of one machine need none, those of several do", where, "no"};
}

Row check_meeting_point(const MachineFacts& facts) {
  const MeetingFacts& meeting = facts.meeting;
  if (meeting.text.empty()) return {{}, Verdict::ok, "none is named"};
  const std::string named = fmt::format("{} ({})", meeting.text, meeting.variable);
  if (!meeting.lookup.ok())
    return {{}, Verdict::problem, fmt::format("{}: {}", named, meeting.lookup.message()), fmt::format("name rank 0's machine by an address: export {}=10.0.0.1 or what it has",
                                                                                                       meeting.variable)};
  Row row{{}, Verdict::ok, fmt::format("{} is {}", named, fmt::join(meeting.addresses, ", "))};
  if (!spans_machines(facts)) return row;
  if (meeting.is_loopback) {
    row.verdict = Verdict::warning;
    row.found += ", which is this machine and nobody else's way to it";
    row.advice = fmt::format("export {} as an address of rank 0's machine that the others reach", meeting.variable);
  } else if (facts.launch.rank == 0 && !meeting.is_here) {
    row.verdict = Verdict::problem;
    row.found += ", and rank 0 is to listen there, but no interface of this machine has it";
    row.advice = fmt::format("start rank 0 on the machine that {} names, or set it to one of: {}", meeting.variable, fmt::join(facts.choice.addresses, ", "));
  }
  return row;
}

Row check_interfaces(const MachineFacts& facts) {
  const ChoiceFacts& choice = facts.choice;
  std::string all;
  for (const InterfaceFacts& one : facts.interfaces) all += (all.empty() ? "" : ", ") + text_of(one);
  if (!choice.status.ok())
    return {{}, spans_machines(facts) || !facts.settings.socket_ifname.empty() || !facts.settings.advertise.empty() ? Verdict::problem : Verdict::note,
            fmt::format("{}; there are: {}", choice.status.message(), all.empty() ? "none" : all), "look at ip route and ip link (ip link set dev NAME up); correct or unset UNISONO_SOCKET_IFNAME and UNISONO_ADVERTISE"};
  if (facts.interfaces.empty())
    return {{}, spans_machines(facts) ? Verdict::problem : Verdict::note, "only loopback: no other machine reaches this one", spans_machines(facts) ? "bring an interface up: ip link set dev NAME up" : ""};
  std::string why = choice.towards.empty() ? "no route is preferred, so it is the first that is up" : "by " + choice.towards;
  if (!facts.settings.socket_ifname.empty()) why += fmt::format(", among those that UNISONO_SOCKET_IFNAME={} allows", facts.settings.socket_ifname);
  const std::string told = facts.settings.advertise.empty() ? fmt::format("{}", fmt::join(choice.addresses, ", "))
                                                            : fmt::format("{} (UNISONO_ADVERTISE)", fmt::join(choice.addresses, ", "));
  return {{}, Verdict::ok, fmt::format("{} is chosen {}; ranks are told {}. All: {}", choice.interface.empty() ? "none" : choice.interface, why, told, all)};
}

Row check_mtu(const MachineFacts& facts) {
  constexpr int of_ethernet = 1500;
  std::string all;
  for (const InterfaceFacts& one : facts.interfaces)
    all += fmt::format("{}{} {}", all.empty() ? "" : ", ", one.name, one.mtu > 0 ? std::to_string(one.mtu) : "unknown");
  const InterfaceFacts* chosen = chosen_interface(facts);
  Row row{{}, Verdict::ok, all.empty() ? "only loopback" : all, {}, chosen ? std::to_string(chosen->mtu) : ""};
  if (!chosen || chosen->mtu == 0 || chosen->mtu >= of_ethernet) return row;
  row.verdict = Verdict::note;
  row.found += fmt::format("; {} is less than Ethernet's {}, as in tunnels and overlays, and costs bandwidth", chosen->mtu, of_ethernet);
  row.advice = fmt::format("if the wire allows it, on all machines: ip link set dev {} mtu {}", chosen->name, of_ethernet);
  return row;
}

// Sockets grow as they are used up to these limits; net.core.rmem_max does not bound that.
Row check_tcp_memory(const MachineFacts& facts) {
  if (!facts.tcp_memory) return unknown(facts.tcp_memory);
  constexpr int64_t little = 1_MiB;
  const TcpMemory& memory = *facts.tcp_memory;
  const std::string receive = fmt::format("{}", fmt::join(memory.receive, " ")), send = fmt::format("{}", fmt::join(memory.send, " "));
  Row row{{}, Verdict::ok, fmt::format("tcp_rmem {}, tcp_wmem {}{}", receive, send, facts.most_receive_bytes ? fmt::format(", rmem_max {}", *facts.most_receive_bytes) : ""),
          {}, fmt::format("tcp_rmem {}, tcp_wmem {}", receive, send)};
  std::vector<std::string> lines;
  if (memory.receive[2] < little) lines.push_back(tcp_memory_line("tcp_rmem", memory.receive, good_tcp_memory_bytes));
  if (memory.send[2] < little) lines.push_back(tcp_memory_line("tcp_wmem", memory.send, good_tcp_memory_bytes));
  if (lines.empty()) return row;
  row.verdict = Verdict::warning;
  row.found += "; the most is too little for a fast network or a long way";
  row.advice = fmt::format("as root: {}", fmt::join(lines, "; "));
  return row;
}

Row check_backlog(const MachineFacts& facts) {
  if (!facts.backlog) return unknown(facts.backlog);
  constexpr int64_t little = 128;
  Row row{{}, Verdict::ok, fmt::format("net.core.somaxconn {}", *facts.backlog), {}, std::to_string(*facts.backlog)};
  if (*facts.backlog >= little) return row;
  row.verdict = Verdict::warning;
  row.found += ": when many ranks connect at once, some are dropped and try again a second later";
  row.advice = "as root: sysctl -w net.core.somaxconn=4096";
  return row;
}

Row check_ports(const MachineFacts& facts) {
  if (!facts.ports) return unknown(facts.ports);
  constexpr int64_t little = 1024;
  const auto [first, last] = *facts.ports;
  const int64_t count = last - first + 1;
  Row row{{}, Verdict::ok, fmt::format("connections begin at ports {}-{} ({})", first, last, count)};
  if (count < little) {
    row.verdict = Verdict::warning;
    row.advice = "as root: sysctl -w net.ipv4.ip_local_port_range=\"32768 60999\"";
  }
  const auto range = PortRange::parse(facts.settings.port_range);
  if (!range.ok()) return {{}, Verdict::problem, range.status().message(), "correct or unset UNISONO_PORT_RANGE"};
  if (range.value().is_any()) return row;
  const bool overlaps = range.value().first <= last && range.value().last >= first;
  row.found += fmt::format("; ranks listen at {} (UNISONO_PORT_RANGE)", range.value().text());
  if (range.value().count() < facts.ranks_here) {
    row.verdict = Verdict::problem;
    row.found += fmt::format(", too few for the {} ranks here", facts.ranks_here);
    row.advice = "a range with a port for each rank of this machine: export UNISONO_PORT_RANGE=20000-20063";
  } else if (overlaps) {
    row.verdict = std::max(row.verdict, Verdict::note);
    row.found += ", which connections that go out may take first";
    row.advice = fmt::format("a range outside {}-{}: export UNISONO_PORT_RANGE=20000-20063", first, last);
  }
  return row;
}

}  // namespace unisono::doctor
