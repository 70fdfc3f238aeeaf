// The network interfaces of this machine, and which of their addresses a rank listens at and tells others of. Our own host name is never resolved.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "transport/address.hpp"
#include "unisono/status.hpp"

namespace unisono {

// One address of an interface; an interface with several stands here several times. A value.
struct Interface {
  std::string name;
  Address address;
  bool is_up = true;
};

std::vector<Interface> interfaces_here();
std::string text_of(std::span<const Interface> interfaces);  // "eth0 10.0.0.1, docker0 172.17.0.1"; without loopback
std::string interface_of(const Address& address);             // its name; "": no interface here has it

// UNISONO_SOCKET_IFNAME: "eth,ib" begins of names, "=eth0" a whole name, "^docker" none of these. A value.
class InterfacePattern {
 public:
  static Result<InterfacePattern> parse(const std::string& text);
  bool allows(std::string_view name) const;
  const std::string& text() const { return text_; }

 private:
  struct Word {
    std::string name;
    bool is_whole, is_excluded;
    bool matches(std::string_view other) const { return is_whole ? other == name : other.starts_with(name); }
  };
  std::string text_;
  std::vector<Word> words_;
};

// The addresses to listen at, without ports, at most most_addresses: first the one that the kernel uses towards the meeting point, then others of that
// interface, of that family, and the rest. Loopback only where there is nothing else, whatever the kernel uses: ranks of other machines are to find
// this one; link-local only where the kernel's is. InitError where the pattern leaves none, which lists what there is.
Result<std::vector<Address>> choose_addresses(std::span<const Interface> here, const InterfacePattern& pattern, const Address& of_kernel);

// UNISONO_ADVERTISE: addresses with or without ports. Those without have port 0. "": none.
Result<std::vector<Address>> parse_advertised(const std::string& text);

}  // namespace unisono
