// Who has come to the meeting place, as rank 0 or the machine's agent sees it, and what is said of one that does not stay. Used by host.cpp.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.hpp"
#include "rendezvous/join.hpp"
#include "rendezvous/join_messages.hpp"

namespace unisono {

struct Guest {
  Descriptor socket;
  PeerIdentity who;
  Deadline speaks_by = Deadline::in_seconds(5);
  std::optional<JoinMessage> hello;
  Descriptor arena, life;
  bool ready = false, listens = false;

  bool is_silent() const { return !hello; }
};

using Guests = std::vector<std::unique_ptr<Guest>>;
using Seats = std::vector<Guest*>;  // by rank; null for the one who keeps them and for those who have not come
using Gone = std::map<int, std::string>;  // by rank, the process that had its seat and has ended
void admit_guests(Door& door, Guests& guests);  // whoever is at the door
void dismiss_silent_guests(Guests& guests);     // those who have said nothing for long, or are too many, and those who are gone

// What became of the joining: to members with a little patience, since they may still have much to read; to everybody else in passing.
void tell_guests(const Guests& guests, const JoinMessage& outcome, const Deadline& deadline);

Status already_running(const JoinRequest& request, const Descriptor& holder);  // somebody else holds the meeting place
Status unable(const JoinMessage& message, const PeerIdentity& who);
Status cannot_join(const JoinRequest& request, const Status& why);  // what keeps this rank itself from joining, as the others are told
Status went_away(const Guest& guest);
Status means_the_same_world(const JoinMessage& hello, const PeerIdentity& who, const JoinRequest& request, const JoinMessage& mine);  // but for its seat
Missing who_is_missing(const Seats& seats, const Gone& gone);  // of rank 0's guests
Status not_all_came(const JoinRequest& request, const Missing& missing);
Result<std::optional<JoinMessage>> word_of(Guest& guest);  // what a member says; nothing of one that came too late for this world, and hears so
Status not_all_went_on(const JoinRequest& request, const std::vector<int>& unready);
Status not_all_ready(const JoinRequest& request, const Seats& seats);
Status store_has_not_answered(const JoinRequest& request);
Descriptor process_of(const Guest& guest);  // a pidfd; empty where its pid means nothing here

}  // namespace unisono
