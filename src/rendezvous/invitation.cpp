// See invitation.hpp.
#include "rendezvous/invitation.hpp"

#include <fmt/format.h>

#include "base/legible.hpp"
#include "rendezvous/roster.hpp"

namespace unisono {
namespace {

constexpr std::string_view invites = "unisono/1 meet ", refuses = "unisono/1 refuse ";

}  // namespace

std::string Invitation::text() const {
  if (!refusal.ok()) return fmt::format("{}{}", refuses, text_of_reason(refusal));
  return fmt::format("{}{}", invites, text_of(at));
}

Result<Invitation> Invitation::parse(std::string_view text) {
  Invitation invitation;
  if (text.starts_with(refuses)) {
    invitation.refusal = reason_to_give_up(text.substr(refuses.size()));
    return invitation;
  }
  const Status illegible(ErrorCode::init, fmt::format("rank 0 says where to meet in words that this version does not know (\"{}\"); do all ranks use one version of Unisono?", legible(text, 64)));
  if (!text.starts_with(invites)) return illegible;
  const auto at = addresses_in(text.substr(invites.size()));
  if (!at || at->empty()) return illegible;
  invitation.at = *at;
  return invitation;
}

}  // namespace unisono
