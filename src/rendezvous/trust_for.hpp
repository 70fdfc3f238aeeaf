// Whether two processes may speak through an address, and by which key; and what a place's name stands for.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "transport/address.hpp"
#include "trust/trust.hpp"

namespace unisono {

// By the job's secret. Null where there is none and the address is on the loopback interface, for which the user's own file is not asked; AuthError
// that names both remedies where it is not.
Result<std::shared_ptr<const Trust>> trust_for(std::string_view job, const Address& address);

// "host:port", "[::1]:port" or "name:port", as somebody wrote it; the addresses in the order in which to try them.
struct MeetingPlace {
  std::string host;
  std::vector<Address> addresses;
};
Result<MeetingPlace> find_place(const std::string& text, const Deadline& deadline);

}  // namespace unisono
