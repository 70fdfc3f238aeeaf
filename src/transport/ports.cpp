// See ports.hpp. Used by listeners.cpp.
#include "transport/ports.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>

namespace unisono {
namespace {

bool read_port(std::string_view text, int& port) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc() && end == text.data() + text.size() && port >= 1 && port <= 65535;
}

// As the kernel's tables write an address: its words as hexadecimal numbers of this machine, then the port.
std::string in_table(const Address& address) {
  std::string text;
  uint32_t words[4] = {};
  const bool is_six = address.family() == AF_INET6;
  if (is_six) std::memcpy(words, &reinterpret_cast<const sockaddr_in6*>(address.get())->sin6_addr, sizeof(words));
  if (!is_six) words[0] = reinterpret_cast<const sockaddr_in*>(address.get())->sin_addr.s_addr;
  for (int word = 0; word < (is_six ? 4 : 1); ++word) text += fmt::format("{:08X}", words[word]);
  return fmt::format("{}:{:04X}", text, address.port());
}

}  // namespace

Result<PortRange> PortRange::parse(const std::string& text) {
  PortRange range;
  if (text.empty()) return range;
  const std::string_view all(text);
  const size_t dash = all.find('-');
  if (dash != all.npos && read_port(all.substr(0, dash), range.first) && read_port(all.substr(dash + 1), range.last) && range.first <= range.last) return range;
  return Status(ErrorCode::init, fmt::format("UNISONO_PORT_RANGE=\"{}\" is not a range of ports such as 20000-20063; correct or unset it", text));
}

std::string PortRange::text() const { return fmt::format("{}-{}", first, last); }

// An IPv4 address is also held by who listens at :: for both families, or at its mapped form: those stand in the table of IPv6.
std::optional<int> holder_in(std::string_view table, const Address& address) {
  const std::string wanted = in_table(address), port = wanted.substr(wanted.find(':'));
  const bool is_six = address.family() == AF_INET6;
  const std::vector<std::string> holding = {wanted, std::string(32, '0') + port, std::string(is_six ? 32 : 8, '0') + port,
                                            is_six ? wanted : "0000000000000000FFFF0000" + wanted};
  std::istringstream lines{std::string(table)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string slot, local, skipped;
    int uid = -1;
    words >> slot >> local >> skipped >> skipped >> skipped >> skipped >> skipped >> uid;
    if (words && std::ranges::find(holding, local) != holding.end()) return uid;
  }
  return std::nullopt;
}

std::string holder_of(const Address& address) {
  for (const char* name : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    if (address.family() == AF_INET6 && std::string_view(name).back() != '6') continue;
    std::ostringstream text;
    text << std::ifstream(name).rdbuf();
    if (const auto uid = holder_in(text.str(), address)) return fmt::format("uid {}", *uid);
  }
  return "an owner that /proc/net does not show";
}

}  // namespace unisono
