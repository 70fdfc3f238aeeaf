// The addresses of a host, given as such or by its name.
#pragma once

#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "transport/address.hpp"
#include "unisono/status.hpp"

namespace unisono {

// In the order in which to try them. The resolver has a thread of its own, which is left behind at the deadline or when interrupted.
// ArgumentError: no host, or one that means 0.0.0.0 or :: and does not say so. InitError: nobody of that name, as yet.
Result<std::vector<Address>> find_addresses(const std::string& host, int port, const Deadline& deadline);


// The same, until the name is known: it may come to be known late, as that of a pod that is being started. TimeoutError at the deadline; after
// some seconds the log has a line.
Result<std::vector<Address>> await_addresses(const std::string& host, int port, const Deadline& deadline, const Log& log);

}  // namespace unisono
