// The network as this machine has it: interfaces, where ranks would meet, which addresses they would use, what the kernel allows. See facts.hpp.
#include <fmt/format.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cstring>

#include "base/descriptor.hpp"
#include "doctor/facts.hpp"
#include "rendezvous/launch_values.hpp"
#include "rendezvous/lookup.hpp"
#include "transport/interfaces.hpp"

namespace unisono::doctor {
namespace {

constexpr double lookup_s = 3;
constexpr int any_port = 9;

// Asked of the kernel by name, since /sys may be mounted for another network namespace.
bool ask_interface(const std::string& interface, unsigned long request, ifreq& about) {
  const Descriptor probe(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!probe || interface.size() >= sizeof(about.ifr_name)) return false;
  interface.copy(about.ifr_name, sizeof(about.ifr_name) - 1);
  return ioctl(probe.number(), request, &about) == 0;
}

std::vector<InterfaceFacts> read_interfaces(const std::vector<Interface>& all) {
  std::vector<InterfaceFacts> facts;
  for (const Interface& one : all) {
    if (one.address.is_loopback() || one.address.is_link_local()) continue;
    auto place = std::ranges::find(facts, one.name, &InterfaceFacts::name);
    if (place == facts.end()) place = facts.insert(facts.end(), {one.name, {}, one.is_up, mtu_of(one.name), speed_mbit_of(one.name)});
    place->addresses.push_back(one.address.host());
  }
  return facts;
}

// In the order in which joining takes them.
MeetingFacts name_meeting_point(const MachineFacts& facts, const Environment& environment) {
  MeetingFacts meeting;
  const std::string_view master = text_of(environment, "MASTER_ADDR"), port = text_of(environment, "MASTER_PORT");
  if (!facts.settings.store.empty()) {
    meeting = {facts.settings.store, "UNISONO_STORE"};
  } else if (!facts.launch.meeting_point.empty()) {
    meeting = {facts.launch.meeting_point, facts.launch.meeting_variable};
  } else if (!master.empty()) {
    meeting = {address(master, static_cast<int>(integer(port).value_or(any_port))), "MASTER_ADDR"};
  }
  return meeting;
}

std::vector<Address> look_up(MeetingFacts& meeting, const std::vector<Interface>& here) {
  std::string host = meeting.text.substr(0, meeting.text.rfind(':'));
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  auto found = find_addresses(host, any_port, Deadline::in_seconds(lookup_s));
  meeting.lookup = found.status();
  if (!found.ok()) return {};
  for (const Address& one : *found) {
    meeting.addresses.push_back(one.host());
    meeting.is_here |= std::ranges::any_of(here, [&](const Interface& own) { return own.address.is_same_host(one); });
  }
  meeting.is_loopback = std::ranges::all_of(*found, &Address::is_loopback);
  meeting.is_here |= meeting.is_loopback;
  return std::move(*found);
}

// As World::listen() chooses; without a meeting point by the default route, as it is for ranks that meet by somebody's store. The addresses are those that RFC 5737
// and RFC 3849 keep for documents, so they lie where the default route leads; nothing is sent.
Address of_route(const std::vector<Address>& meeting, ChoiceFacts& choice) {
  std::vector<Address> targets = meeting;
  if (meeting.empty())
    for (const char* there : {"192.0.2.1:9", "[2001:db8::1]:9"}) targets.push_back(*Address::parse(there));
  for (const Address& there : targets) {
    const Address own = Address::of_route_to(there);
    if (!own) continue;
    choice.towards = meeting.empty() ? "the default route" : fmt::format("the route to {}", there.host());
    return own;
  }
  if (!meeting.empty()) choice.status = {ErrorCode::init, fmt::format("no route leads to {}: {}", meeting.front().host(), std::strerror(errno))};
  return {};
}

ChoiceFacts choose(const std::vector<Interface>& here, const Settings& settings, const std::vector<Address>& meeting) {
  ChoiceFacts choice;
  const Address of_kernel = of_route(meeting, choice);
  if (!choice.status.ok()) return choice;
  auto pattern = InterfacePattern::parse(settings.socket_ifname);
  auto advertised = parse_advertised(settings.advertise);
  choice.status = !pattern.ok() ? pattern.status() : advertised.status();
  if (!choice.status.ok()) return choice;
  auto addresses = of_kernel.is_loopback() ? Result(std::vector<Address>{of_kernel}) : choose_addresses(here, *pattern, of_kernel);
  choice.status = addresses.status();
  if (!addresses.ok()) return choice;
  for (const Address& one : *addresses) choice.addresses.push_back(one.host());
  for (const Interface& one : here)
    if (choice.interface.empty() && one.address.is_same_host(addresses->front())) choice.interface = one.name;
  if (!settings.advertise.empty()) choice.addresses.clear();
  for (const Address& one : *advertised) choice.addresses.push_back(one.port() ? one.text() : one.host());
  return choice;
}

template <size_t count>
Fact<std::array<int64_t, count>> read_numbers(const std::string& path) {
  const auto numbers = numbers_in(path, count);
  if (!numbers) return Fact<std::array<int64_t, count>>::unknown(numbers.why);
  std::array<int64_t, count> copied = {};
  std::copy_n(numbers->begin(), count, copied.begin());
  return copied;
}

Fact<int64_t> read_number(const std::string& path) {
  const auto numbers = read_numbers<1>(path);
  return numbers ? Fact<int64_t>(numbers->front()) : Fact<int64_t>::unknown(numbers.why);
}

}  // namespace

int mtu_of(const std::string& interface) {
  ifreq about = {};
  return ask_interface(interface, SIOCGIFMTU, about) ? about.ifr_mtu : 0;
}

int64_t speed_mbit_of(const std::string& interface) {
  ethtool_cmd command = {};
  command.cmd = ETHTOOL_GSET;
  ifreq about = {};
  about.ifr_data = reinterpret_cast<char*>(&command);
  if (!ask_interface(interface, SIOCETHTOOL, about)) return 0;
  const uint32_t speed = ethtool_cmd_speed(&command);
  return speed == 0 || speed == static_cast<uint32_t>(SPEED_UNKNOWN) || speed == UINT16_MAX ? 0 : speed;
}

void read_network_facts(MachineFacts& facts, const Environment& environment, const std::string& root) {
  const std::vector<Interface> here = interfaces_here();
  facts.interfaces = read_interfaces(here);
  facts.meeting = name_meeting_point(facts, environment);
  std::vector<Address> meeting;
  if (!facts.meeting.text.empty()) meeting = look_up(facts.meeting, here);
  facts.choice = choose(here, facts.settings, facts.meeting.is_loopback ? std::vector<Address>() : meeting);
  const std::string network = root + "proc/sys/net/";
  const auto receive = read_numbers<3>(network + "ipv4/tcp_rmem"), send = read_numbers<3>(network + "ipv4/tcp_wmem");
  facts.tcp_memory = !receive ? Fact<TcpMemory>::unknown(receive.why) : !send ? Fact<TcpMemory>::unknown(send.why) : Fact<TcpMemory>({*receive, *send});
  facts.most_receive_bytes = read_number(network + "core/rmem_max");
  facts.backlog = read_number(network + "core/somaxconn");
  facts.ports = read_numbers<2>(network + "ipv4/ip_local_port_range");
}

}  // namespace unisono::doctor
