// See store_trust.hpp.
#include "rendezvous/store_trust.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>

#include "unisono/settings.hpp"

namespace unisono {
namespace {

using Secret = std::array<std::byte, 32>;

// Nothing of it is ever shown, neither here nor in the error.
Result<Secret> secret_in(std::string_view digits) {
  Secret secret;
  const Status wrong(ErrorCode::auth, "UNISONO_SECRET is not 64 hexadecimal digits; `unisono secret new` makes one that is");
  if (digits.size() != 2 * secret.size()) return wrong;
  for (size_t index = 0; index < secret.size(); ++index) {
    const std::string_view pair = digits.substr(2 * index, 2);
    uint8_t byte = 0;
    const auto [end, fault] = std::from_chars(pair.data(), pair.data() + pair.size(), byte, 16);
    if (fault != std::errc() || end != pair.data() + pair.size()) return wrong;
    secret[index] = static_cast<std::byte>(byte);
  }
  return secret;
}

}  // namespace

Result<std::shared_ptr<const Trust>> trust_for_store(std::string_view job, std::string_view address, bool is_loopback) {
  const Environment environment = process_environment();
  const auto given = environment.find("UNISONO_SECRET");
  if (given == environment.end() && !is_loopback)
    return Status(ErrorCode::auth, fmt::format("{} is not a loopback address, so that a secret is needed: make one with `unisono secret new`, "
                                               "or name a file that has it by UNISONO_SECRET_FILE", address));
  Secret secret = {};
  if (given != environment.end()) {
    auto read = secret_in(given->second);
    if (!read.ok()) return read.status();
    secret = *read;
  }
  return Trust::of(secret, job);
}

}  // namespace unisono
