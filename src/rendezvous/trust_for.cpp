// See trust_for.hpp.
#include "rendezvous/trust_for.hpp"

#include <fmt/format.h>

#include <charconv>

#include "rendezvous/store_address.hpp"
#include "trust/secret.hpp"
#include "trust/secret_file.hpp"
#include "unisono/settings.hpp"

namespace unisono {

Result<std::shared_ptr<const Trust>> trust_for(std::string_view job, const Address& address) {
  const bool is_named = process_environment().contains(std::string(secret_file_variable));
  auto secret = address.is_loopback() && !is_named ? secret_to_hand_on() : find_secret();
  if (!secret.ok()) return secret.status();
  if (*secret) return Trust::of((*secret)->bytes(), job);
  if (address.is_loopback()) return std::shared_ptr<const Trust>();
  return Status(ErrorCode::auth, fmt::format("{} can be reached from other machines, and there is no secret by which this job's ranks know each other; make "
                                             "one with `unisono secret new` and have it in the home directory of every machine, or name a file that "
                                             "holds it by UNISONO_SECRET_FILE", address.host()));
}

Result<MeetingPlace> find_place(const std::string& text, const Deadline& deadline) {
  const size_t colon = text.rfind(':');
  int port = 0;
  const char* end = text.data() + text.size();
  const bool has_port = colon != text.npos && std::from_chars(text.data() + colon + 1, end, port).ptr == end && port > 0 && port <= 65535;
  MeetingPlace place{text.substr(0, std::min(colon, text.size())), {}};
  if (place.host.starts_with('[') && place.host.ends_with(']')) place.host = place.host.substr(1, place.host.size() - 2);
  if (!has_port || place.host.empty())
    return Status(ErrorCode::argument, fmt::format("\"{}\" is not a place where ranks could meet; write host:port, as in 10.0.0.1:29500", text));
  auto found = find_addresses(place.host, port, deadline);
  if (found.status().code() == ErrorCode::timeout)
    return Status(ErrorCode::init, fmt::format("{} while joining at \"{}\"; does the name server answer? An address instead of the name needs none", found.status().message(), text));
  if (!found.ok()) return found.status();
  for (const StoreAddress& one : *found) place.addresses.emplace_back(one.get(), one.bytes);
  return place;
}

}  // namespace unisono
