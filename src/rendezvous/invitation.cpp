// See invitation.hpp.
#include "rendezvous/invitation.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/legible.hpp"
#include "rendezvous/roster.hpp"

namespace unisono {
namespace {

constexpr std::string_view invites = "unisono/1 meet ", refuses = "unisono/1 refuse ", by_munge = " munge ";
constexpr size_t most_credential_bytes = 2048;

bool is_of_a_credential(char letter) { return letter > ' ' && letter < 0x7f; }

}  // namespace

std::string Invitation::text() const {
  if (!refusal.ok()) return fmt::format("{}{}", refuses, text_of_reason(refusal));
  return fmt::format("{}{}{}{}", invites, text_of(at), credential.empty() ? "" : by_munge, credential);
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
  if (const size_t end = text.find(by_munge); end != text.npos) {
    invitation.credential = text.substr(end + by_munge.size());
    const bool is_legible = !invitation.credential.empty() && invitation.credential.size() <= most_credential_bytes && std::ranges::all_of(invitation.credential, is_of_a_credential);
    if (!is_legible) return illegible;
    text = text.substr(0, end);
  }
  const auto at = addresses_in(text);
  if (!at || at->empty()) return illegible;
  invitation.at = *at;
  return invitation;
}

}  // namespace unisono
