// What the agent of one machine knows of the others: their ranks, and where those listen. By the rounds of the roster (roster.hpp); whom the agent
// hears meanwhile is host.cpp's.
#pragma once

#include <functional>
#include <map>
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
  explicit Machines(const JoinRequest& request);

  void enter(const std::string& round, const JoinMessage& hello);  // a rank of this machine
  Status begin_to_reach(Sockets& sockets);  // the agents of the others
  Reach& reach() { return *reach_; }
  void enter_reach() { roster_.enter("reach", number_of(request_.rank), reach_->text()); }
  Status read_reach();  // of the round that was awaited
  void enter_ready() { roster_.enter("ready", number_of(request_.rank), "yes"); }
  // Of the round that was awaited. `process_here`: of a rank that came to this agent; empty: it is elsewhere.
  Status read_seats(const std::function<std::string(int rank)>& process_here);

  Roster& roster() { return roster_; }
  int count() const { return static_cast<int>(numbers_.size()); }
  int number_of(int rank) const { return number_of_rank_[static_cast<size_t>(rank)]; }
  Hosts hosts() const { return Hosts(number_of_rank_); }
  bool is_elsewhere(int rank) const { return elsewhere_[static_cast<size_t>(rank)].has_value(); }
  Result<JoinMessage> member(int rank, const JoinMessage& like) const;  // one that is elsewhere, as guests are told

 private:
  Result<std::vector<Address>> addresses_of(int rank) const;  // of one that is elsewhere

  const JoinRequest& request_;
  uint64_t mine_ = 0;  // the number that this agent drew
  std::map<uint64_t, int> numbers_;
  std::vector<int> number_of_rank_;
  std::vector<std::optional<Seat>> elsewhere_;
  std::unique_ptr<Reach> reach_;
  Roster roster_;
};

}  // namespace unisono
