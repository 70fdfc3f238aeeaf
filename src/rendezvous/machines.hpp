// What the agent of one machine knows of the others: their ranks, and where those listen. By the rounds of the roster (roster.hpp); whom the agent
// hears meanwhile is host.cpp's.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/join.hpp"
#include "rendezvous/join_messages.hpp"
#include "rendezvous/reach.hpp"
#include "rendezvous/roster.hpp"

namespace unisono {

class Machines {
 public:
  // `process_here`: of a rank that came to this agent; empty: it is elsewhere.
  Machines(const JoinRequest& request, std::function<std::string(int rank)> process_here);

  void claim(const JoinMessage& hello) { roster_->claim(hello.rank, seat_of(hello).text()); }  // for a rank of this machine
  void enter_address(const JoinMessage& hello) { roster_->enter("addresses", hello.rank, seat_of(hello).text()); }
  Status begin_to_reach(Sockets& sockets);  // the agents of the others
  Reach& reach() { return *reach_; }
  void enter_reach() { roster_->enter("reach", number_of(request_.rank), reach_->text()); }
  Status read_reach();  // of the round that was awaited
  void enter_ready() { roster_->enter("ready", number_of(request_.rank), "yes"); }
  Status read_seats();      // of the round that was awaited
  Status read_addresses();  // likewise; they are of the same processes
  Status check_dispute();   // whether an agent elsewhere has claimed a rank that is here
  Status complete_without_us() const;  // the world was made with another process in the place of a rank here
  Status store_is_old() const;                  // it is still that of the world before, or of an attempt that failed
  Status late(const std::string& round) const;  // the deadline has passed while that round was awaited

  Roster& roster() { return *roster_; }
  std::shared_ptr<Roster> shared_roster() { return roster_; }
  const std::string& digest() const { return digest_; }  // of all seats; on all machines the same
  void all_are_here();                                   // no other machine need be asked
  int count() const { return static_cast<int>(numbers_.size()); }
  int number_of(int rank) const { return number_of_rank_[static_cast<size_t>(rank)]; }
  Hosts hosts() const { return Hosts(number_of_rank_); }
  bool is_elsewhere(int rank) const { return elsewhere_[static_cast<size_t>(rank)].has_value(); }
  int elsewhere() const { return static_cast<int>(std::ranges::count_if(elsewhere_, [](const auto& seat) { return seat.has_value(); })); }
  Result<JoinMessage> member(int rank, const JoinMessage& like) const;  // one that is elsewhere, as guests are told

 private:
  Seat seat_of(const JoinMessage& hello) const { return {hello.size, hello.rank, hello.pid, hello.probe, mine_, name_, request_.rank, hello.encrypt != 0, hello.sockets_per_peer, hello.fabric, hello.addresses}; }
  Status check_seat(int rank, const Seat& seat) const;
  Status two_claim(int rank, const std::string& here, const Seat& there) const;
  std::string us() const;
  Result<std::vector<Address>> addresses_of(int rank) const;  // of one that is elsewhere

  const JoinRequest& request_;
  const std::function<std::string(int rank)> process_here_;
  const std::string name_ = name_of_this_machine();
  uint64_t mine_ = 0;  // the number that this agent drew
  std::string digest_;
  std::map<uint64_t, int> numbers_;
  std::vector<int> number_of_rank_;
  std::vector<std::optional<Seat>> elsewhere_;
  std::unique_ptr<Reach> reach_;
  std::shared_ptr<Roster> roster_;
};

}  // namespace unisono
