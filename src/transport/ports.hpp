// Which ports a process may listen at, and who holds one that is taken.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "transport/address.hpp"
#include "unisono/status.hpp"

namespace unisono {

// A value. All zero: any port that the kernel gives.
struct PortRange {
  int first = 0, last = 0;

  static Result<PortRange> parse(const std::string& text);  // UNISONO_PORT_RANGE; "": any
  bool is_any() const { return first == 0; }
  int count() const { return last - first + 1; }
  int at(int index) const { return first + index % count(); }
  std::string text() const;
};

// In a table as /proc/net/tcp and tcp6 have it: the user of the socket that is bound to this port at this address, or at every address.
std::optional<int> holder_in(std::string_view table, const Address& address);
std::string holder_of(const Address& address);  // "uid 1000", or that it cannot be read

}  // namespace unisono
