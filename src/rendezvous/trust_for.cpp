// See trust_for.hpp.
#include "rendezvous/trust_for.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "rendezvous/launch_values.hpp"
#include "rendezvous/lookup.hpp"
#include "trust/secret.hpp"
#include "trust/secret_file.hpp"
#include "unisono/settings.hpp"

namespace unisono {

namespace {

void say_insecure(std::string_view job) {
  Log("warning", -1).warning(fmt::format("UNISONO_INSECURE is on and there is no secret: whoever reaches this machine can take part in job \"{}\", and read and "
                                         "change what it computes", job));
}

}  // namespace

Result<std::shared_ptr<const Trust>> trust_between_machines(std::string_view job, const std::string& why, const std::optional<Secret>& handed_out) {
  auto secret = handed_out ? Result(handed_out) : find_secret();
  if (!secret.ok()) return secret.status();
  if (*secret) return Trust::of((*secret)->bytes(), job);
  auto settings = settings_from(process_environment());
  if (settings.ok() && settings->insecure) {
    say_insecure(job);
    return Trust::of_anybody(job);
  }
  return Status(ErrorCode::auth, fmt::format("{}, and there is no secret by which this job's ranks know each other; make one with `unisono secret new` and have it in "
                                             "the home directory of every machine, or name a file that holds it by UNISONO_SECRET_FILE", why));
}

Result<std::shared_ptr<const Trust>> trust_for(std::string_view job, const Address& address) {
  if (!address.is_loopback()) return trust_between_machines(job, fmt::format("{} can be reached from other machines", address.host()));
  const bool is_named = process_environment().contains(std::string(secret_file_variable));
  auto secret = is_named ? find_secret() : secret_to_hand_on();
  if (!secret.ok()) return secret.status();
  return *secret ? Trust::of((*secret)->bytes(), job) : std::shared_ptr<const Trust>();
}

bool MeetingPlace::is_own_name() const {
  return !unisono::is_loopback(host) && std::ranges::all_of(addresses, [](const Address& one) { return one.is_loopback(); });
}

Result<MeetingPlace> find_place(const PlaceText& given, const Deadline& deadline, const Log& log) {
  const auto& [text, given_by] = given;
  const size_t colon = text.rfind(':');
  int port = 0;
  const char* end = text.data() + text.size();
  const bool has_port = colon != text.npos && std::from_chars(text.data() + colon + 1, end, port).ptr == end && port > 0 && port <= 65535;
  MeetingPlace place{text.substr(0, std::min(colon, text.size())), {}};
  if (place.host.starts_with('[') && place.host.ends_with(']')) place.host = place.host.substr(1, place.host.size() - 2);
  if (!has_port || place.host.empty())
    return Status(ErrorCode::argument, fmt::format("{}: \"{}\" is not a place where ranks could meet; write host:port, as in 10.0.0.1:29500", given_by, text));
  auto found = await_addresses(place.host, port, deadline, log);
  if (found.status().code() == ErrorCode::timeout)
    return Status(ErrorCode::init, fmt::format("{}: {} while joining at \"{}\"; does the name server answer? An address instead of the name needs none", given_by,
                                               found.status().message(), text));
  if (!found.ok()) return Status(found.status().code(), fmt::format("{}: {}", given_by, found.status().message()));
  place.addresses = std::move(*found);
  std::ranges::stable_partition(place.addresses, [](const Address& one) { return !one.is_loopback(); });
  return place;
}

}  // namespace unisono
