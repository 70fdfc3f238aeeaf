// See invitation.hpp.
#include "rendezvous/invitation.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/legible.hpp"
#include "rendezvous/roster.hpp"

namespace unisono {
namespace {

constexpr std::string_view invites = "unisono/1 meet ", refuses = "unisono/1 refuse ", no_credential = "-";
constexpr size_t most_credential_bytes = 2048;

bool is_of_a_credential(char letter) { return letter > ' ' && letter < 0x7f; }

}  // namespace

std::string Invitation::text() const {
  if (!refusal.ok()) return fmt::format("{}{}", refuses, text_of_reason(refusal));
  return fmt::format("{}{} {}", invites, credential.empty() ? no_credential : credential, text_of(at));
}

Result<Invitation> Invitation::parse(std::string_view text) {
  Invitation invitation;
  if (text.starts_with(refuses)) {
    invitation.refusal = reason_to_give_up(text.substr(refuses.size()));
    return invitation;
  }
  const Status illegible(ErrorCode::init, fmt::format("rank 0 says where to meet in words that this version does not know (\"{}\"); do all ranks use one version of Unisono?", legible(text, 64)));
  if (!text.starts_with(invites)) return illegible;
  text.remove_prefix(invites.size());
  const std::string_view credential = text.substr(0, text.find(' '));
  if (credential.empty() || credential.size() > most_credential_bytes || credential.size() == text.size() || !std::ranges::all_of(credential, is_of_a_credential)) return illegible;
  const auto at = addresses_in(text.substr(credential.size() + 1));
  if (!at || at->empty()) return illegible;
  invitation.at = *at;
  if (credential != no_credential) invitation.credential = credential;
  return invitation;
}

}  // namespace unisono
