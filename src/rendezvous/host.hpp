// Rank 0's side of joining.
#pragma once

#include <span>

#include "rendezvous/join.hpp"
#include "rendezvous/join_messages.hpp"

namespace unisono {

Result<Joined> host_world(const JoinRequest& request, const JoinMessage& hello, std::span<const int> mine);
void host_declines(const JoinRequest& request, const Status& why);  // tells whoever comes within a second
Status interrupted_while_joining(const JoinRequest& request);
void rest(int attempt);  // before looking again for something that another process has to do first
Status admit(const JoinMessage& member, int arena, Joined& joined);  // its rank is within bounds

}  // namespace unisono
