// See store_trust.hpp.
#include "rendezvous/store_trust.hpp"

#include <fmt/format.h>

#include "rendezvous/trust_for.hpp"
#include "trust/secret.hpp"

namespace unisono {

Result<std::shared_ptr<const Trust>> trust_for_store(std::string_view job, std::string_view address, bool is_loopback) {
  if (!is_loopback) return trust_between_machines(job, fmt::format("{} is not a loopback address", address));
  auto secret = find_secret();
  if (!secret.ok()) return secret.status();
  return *secret ? Trust::of((*secret)->bytes(), job) : Trust::of_this_user(job);
}

}  // namespace unisono
