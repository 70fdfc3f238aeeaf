// The sockets at which one process hears others: one for each of its addresses, never one for all. All have the same port where it can be had.
#pragma once

#include <vector>

#include "base/descriptor.hpp"
#include "transport/address.hpp"
#include "transport/ports.hpp"
#include "unisono/status.hpp"

namespace unisono {

struct Listener {
  Descriptor socket;
  Address address;  // with its port
};

// `first_look`: where in the range to begin, so that ranks of one machine seldom try the same port. An address that cannot be bound is left
// out while there are others. ResourceError that names the range and the holder, where no port is free.
Result<std::vector<Listener>> open_listeners(const std::vector<Address>& addresses, const PortRange& ports, int first_look);

}  // namespace unisono
