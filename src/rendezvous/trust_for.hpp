// Whether two processes may speak through an address, and by which key; and what a place's name stands for.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "transport/address.hpp"
#include "trust/secret.hpp"
#include "trust/trust.hpp"

namespace unisono {

// By the job's secret. Null where there is none and the address is on the loopback interface, for which the user's own file is not asked; AuthError
// that names both remedies where it is not.
Result<std::shared_ptr<const Trust>> trust_for(std::string_view job, const Address& address);

// Where somebody on another machine takes part, whatever the addresses: never null. `why` begins the sentence that says what is missing. With
// UNISONO_INSECURE there need be no secret: then anybody is let in, which the log says. A secret that was handed out goes before the process's own.
Result<std::shared_ptr<const Trust>> trust_between_machines(std::string_view job, const std::string& why, const std::optional<Secret>& handed_out = {});

// "host:port", "[::1]:port" or "name:port", as somebody wrote it; the addresses in the order in which to try them, those that other machines
// can reach first.
struct MeetingPlace {
  std::string host;
  std::vector<Address> addresses;

  // A name that stands for the loopback interface on this machine, as many systems have it of their own names, and not on others.
  bool is_own_name() const;
};
struct PlaceText {
  std::string text;      // host:port
  std::string given_by;  // the variable or argument, for errors
};
Result<MeetingPlace> find_place(const PlaceText& given, const Deadline& deadline, const Log& log);

}  // namespace unisono
