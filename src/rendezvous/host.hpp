// Rank 0's side of joining, or that of the machine's agent.
#pragma once

#include <span>

#include "rendezvous/join.hpp"
#include "rendezvous/join_messages.hpp"

namespace unisono {

// What to do next where nothing came of it, with a store: visit another, who is the agent already, or try again.
enum class HostTurn { done, visit, again };
Result<Joined> host_world(const JoinRequest& request, const JoinMessage& hello, std::span<const int> mine, HostTurn& turn);
bool host_declines(const JoinRequest& request, const Status& why);  // tells whoever comes within a second; false: another has the meeting place
Status interrupted_while_joining(const JoinRequest& request);
void rest(int attempt);  // before looking again for something that another process has to do first
Status admit(const JoinMessage& member, int arena, Joined& joined);  // its rank is within bounds

}  // namespace unisono
