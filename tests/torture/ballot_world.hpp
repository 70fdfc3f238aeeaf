// A group of made-up processes on made-up hosts that agree and shrink by the rules of group/ballot.hpp, over a network that loses, delays and repeats messages and is cut;
// processes are killed, stop for a while and are taken for dead. All of it follows from a seed.
//
// What is looked for: one outcome for every number, one world that comes of shrinking, and, where nothing is cut, that everybody who lives comes to an end.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "group/ballot.hpp"
#include "tests/torture/dice.hpp"

namespace unisono::testing {

// What a careless implementation would do; the checker has to notice.
enum class Flaw {
  none,
  memory_dies,         // a host forgets its ballots when one of its processes dies
  bare_testimony,      // who hears of a death does not hear of the ballots of that host
  silence_is_death,    // silent hosts lose their weight
  lost_updates,        // two processes of a host write over each other's record
  ignores_accepted,    // a new ballot proposes what it likes
};

class BallotWorld {
 public:
  BallotWorld(uint64_t seed, Flaw flaw);
  void run();
  const std::string& found() const { return found_; }  // what is wrong; "": nothing
  int64_t decided() const { return static_cast<int64_t>(outcomes_.size()); }
  bool has_world() const { return !world_.empty(); }
  bool was_cut() const { return ever_cut_; }

 private:
  enum class State { voting, done, revoked, failed };
  using Words = std::array<std::array<uint64_t, 2>, topics>;
  struct Process {
    int host = 0;
    bool alive = true, stopped = false;
    State state = State::voting;
    Topic topic = Topic::agree;
    std::array<uint64_t, topics> number = {};
    bool made = false;         // of the group that shrinking made last
    std::vector<int> members;  // of that
    int agrees_left = 0;
    std::vector<HostRecord> known;
    std::vector<Words> votes;  // of members on other hosts, as told
    MemberSet gone;            // as it believes
    std::vector<bool> given_up;  // hosts
    HostRecord torn;           // what it read before it writes, with the flaw lost_updates
    bool has_read = false;
  };
  struct Message {
    int from, to;
    HostRecord record;
    std::vector<std::pair<int, Words>> votes;
  };

  Process& process(int member) { return processes_[static_cast<size_t>(member)]; }
  HostRecord& record(int host) { return records_[static_cast<size_t>(host)]; }
  bool is_cut(int from, int to) const { return cut_[static_cast<size_t>(from * hosts_.count() + to)]; }
  void act();
  void deliver();
  void send(int from, int to);
  void tell_all(int from);
  void look(int member);
  void vote(int member, bool flag);
  BallotView view_of(int member, Tally& tally, bool opens);
  bool in_minority(int member, const BallotView& view) const;
  void plant(HostRecord& next, const HostRecord& before, const BallotView& view) const;
  void learn(int member);
  void next_call(int member);
  void learnt(int member, bool flag, const MemberSet* members);
  void kill(int member);
  void break_something();
  void notice_ends(int member);
  void check(Topic topic, uint64_t number, bool flag, const MemberSet* members);
  void wrong(std::string what);

  Dice dice_;
  Flaw flaw_;
  int members_;
  Hosts hosts_;
  bool may_cut_;
  bool hasty_;     // ballots are begun without patience
  bool contrary_;  // every process would propose something else, as those whose views differ do
  bool ever_cut_ = false, is_calm_ = false;
  std::vector<Process> processes_;
  std::vector<HostRecord> records_;
  std::vector<Words> votes_;  // as they stand in the members' own memory
  std::vector<bool> cut_;
  std::vector<Message> wire_;
  std::map<std::pair<int, uint64_t>, unisono::Outcome> outcomes_;
  std::map<std::pair<int, uint64_t>, bool> flags_;
  std::vector<int> world_;
  std::string found_;
};

}  // namespace unisono::testing
