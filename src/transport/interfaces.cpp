// See interfaces.hpp. Used by group/world.cpp, and for the words of errors.
#include "transport/interfaces.hpp"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <memory>

namespace unisono {
namespace {

std::vector<std::string_view> listed_in(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    words.push_back(text.substr(0, text.find(',')));
    text.remove_prefix(std::min(words.back().size() + 1, text.size()));
  }
  return words;
}

// How far down the list an address belongs.
int place_in_line(const Interface& interface, const std::string& name_of_kernels, const Address& of_kernel) {
  if (interface.address.is_same_host(of_kernel)) return 0;
  if (interface.name == name_of_kernels) return 1;
  return interface.address.family() == of_kernel.family() ? 2 : 3;
}

Status bad_advertise(const std::string& text, std::string_view word, const char* why) {
  return {ErrorCode::init, fmt::format("UNISONO_ADVERTISE=\"{}\": \"{}\" {}; write addresses as others reach them, such as 203.0.113.7 or [2001:db8::7]:20000, "
                                       "separated by commas", text, word, why)};
}

}  // namespace

std::vector<Interface> interfaces_here() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owned(list, freeifaddrs);
  std::vector<Interface> found;
  for (const ifaddrs* entry = list; entry; entry = entry->ifa_next) {
    const int family = entry->ifa_addr ? entry->ifa_addr->sa_family : AF_UNSPEC;
    if (family != AF_INET && family != AF_INET6) continue;
    const socklen_t bytes = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    found.push_back({entry->ifa_name, Address(entry->ifa_addr, bytes), (entry->ifa_flags & IFF_UP) != 0});
  }
  return found;
}

std::string text_of(std::span<const Interface> interfaces) {
  std::string text;
  for (const Interface& one : interfaces) {
    if (one.address.is_loopback() || one.address.is_link_local()) continue;
    text += fmt::format("{}{} {}{}", text.empty() ? "" : ", ", one.name, one.address.host(), one.is_up ? "" : " (down)");
  }
  return text.empty() ? "none" : text;
}

std::string interface_of(const Address& address) {
  for (const Interface& one : interfaces_here())
    if (one.address.is_same_host(address)) return one.name;
  return "";
}

// NCCL excludes everything in a list that begins with ^, so a list like that is refused instead of being taken for its opposite.
Result<InterfacePattern> InterfacePattern::parse(const std::string& text) {
  InterfacePattern pattern;
  pattern.text_ = text;
  for (std::string_view word : listed_in(text)) {
    const bool is_excluded = word.starts_with('^');
    if (is_excluded) word.remove_prefix(1);
    const bool is_whole = word.starts_with('=');
    if (is_whole) word.remove_prefix(1);
    if (word.empty() || word.find_first_of("^= ") != word.npos)
      return Status(ErrorCode::init, fmt::format("UNISONO_SOCKET_IFNAME=\"{}\" is not a list of interfaces such as eth,ib (names begin so), =eth0 (whole name) or "
                                                 "^docker,^veth (all but these); correct or unset it", text));
    if (!pattern.words_.empty() && pattern.words_.front().is_excluded && !is_excluded)
      return Status(ErrorCode::init, fmt::format("UNISONO_SOCKET_IFNAME=\"{}\" can be read in two ways: write ^ before each name that is excluded, and what is "
                                                 "wanted before what is not, as in ^docker,^{} or {},^docker", text, word, word));
    pattern.words_.push_back({std::string(word), is_whole, is_excluded});
  }
  return pattern;
}

bool InterfacePattern::allows(std::string_view name) const {
  bool wanted = true;
  for (const Word& word : words_) {
    if (word.is_excluded && word.matches(name)) return false;
    if (!word.is_excluded) wanted = false;
  }
  return wanted || std::ranges::any_of(words_, [&](const Word& word) { return !word.is_excluded && word.matches(name); });
}

Result<std::vector<Address>> choose_addresses(std::span<const Interface> here, const InterfacePattern& pattern, const Address& of_kernel) {
  std::string name_of_kernels;
  std::vector<Interface> usable;
  for (const Interface& one : here) {
    if (one.address.is_same_host(of_kernel)) name_of_kernels = one.name;
    if (!one.is_up || one.address.is_loopback() || !pattern.allows(one.name)) continue;
    if (one.address.is_link_local() && !of_kernel.is_link_local()) continue;
    usable.push_back(one);
  }
  if (usable.empty() && pattern.text().empty()) return std::vector{Address::loopback(0)};  // there is nothing else
  if (usable.empty())
    return Status(ErrorCode::init, fmt::format("UNISONO_SOCKET_IFNAME=\"{}\" leaves no address to listen at; there are: {}", pattern.text(), text_of(here)));
  std::ranges::stable_sort(usable, {}, [&](const Interface& one) { return place_in_line(one, name_of_kernels, of_kernel); });
  std::vector<Address> addresses;
  for (const Interface& one : usable)
    if (addresses.size() < most_addresses) addresses.push_back(one.address.with_port(0));
  return addresses;
}

Result<std::vector<Address>> parse_advertised(const std::string& text) {
  std::vector<Address> addresses;
  for (const std::string_view word : listed_in(text)) {
    const bool is_bare = !word.ends_with(']') || !word.starts_with('[');
    std::optional<Address> address = Address::parse_host(is_bare ? word : word.substr(1, word.size() - 2));
    if (!address) address = Address::parse(word);
    if (!address) return bad_advertise(text, word, "is not an address; names are not looked up");
    if (address->is_any()) return bad_advertise(text, word, "is every address and none");
    if (addresses.size() == most_addresses) return bad_advertise(text, word, "is one address too many; at most 8 can be told");
    addresses.push_back(*address);
  }
  return addresses;
}

}  // namespace unisono
