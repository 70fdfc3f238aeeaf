// See store_trust.hpp.
#include "rendezvous/store_trust.hpp"

#include <fmt/format.h>

#include "trust/secret.hpp"

namespace unisono {

Result<std::shared_ptr<const Trust>> trust_for_store(std::string_view job, std::string_view address, bool is_loopback) {
  auto secret = find_secret();
  if (!secret.ok()) return secret.status();
  if (*secret) return Trust::of((*secret)->bytes(), job);
  if (is_loopback) return Trust::of_this_user(job);
  return Status(ErrorCode::auth, fmt::format("{} is not a loopback address, so that a secret is needed: make one with `unisono secret new`, "
                                             "or name a file that has it by UNISONO_SECRET_FILE", address));
}

}  // namespace unisono
