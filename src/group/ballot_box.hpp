// Ballots of one group at work: this host's record in the shared memory of its members, the other hosts' as they have told it, and the votes of all. The rules are in
// ballot.hpp; this is who reads, writes and tells.
//
// Any member may speak for its host: who waits for a decision does, and the control thread of every member when something is told. Each looks at the record, works out what follows from
// what it knows, and swaps that in; who was faster wins, and the other looks again. Whoever changed the record tells all members on other hosts.
//
// Thread-safe. Order: votes are single words; a member stores its own before it looks at the others', sequentially consistent, so that the last of a host to vote knows it. The record: transport/shared_record.hpp.
#pragma once

#include <mutex>
#include <optional>
#include <vector>

#include "group/ballot.hpp"
#include "group/teller.hpp"
#include "transport/shared_record.hpp"

namespace unisono {

// What a member that waits for a decision wants to know, and what it knows itself.
struct BallotQuestion {
  Topic topic = Topic::agree;
  uint64_t number = 0;
  MemberSet excluded = MemberSet();  // whose votes are not waited for
  bool counts_minority = false;      // hosts that are silent lose their weight
};

struct BallotAnswer {
  enum class State {
    open,      // nothing is decided yet
    decided,
    too_late,  // a later number is decided, and this one forgotten
    minority,  // nor will it be: too few can be reached
  };
  State state = State::open;
  Outcome outcome = {};        // decided; of earlier numbers the flag alone
  std::vector<int> missing = {};  // open: who has not voted
  MemberSet counted = MemberSet();  // minority: all members that count
};

class BallotBox {
 public:
  BallotBox(Lanes& lanes, const Hosts& hosts, Teller* teller);  // null: all members are on this host
  void met(uint64_t group) { group_ = group; }

  void vote(const BallotQuestion& question, bool flag, const MemberSet& gone);
  BallotAnswer ask(const BallotQuestion& question, const MemberSet& gone);
  // A few members of every other host are told all, and asked for the same. Who waits does it now and then: somebody may have died before it told what it had changed.
  void remind(const MemberSet& gone);

  void told(int member, const Notice& notice, const MemberSet& gone);  // by a member on another host
  void testify(const MemberSet& gone);  // those of this host among them have ended; told in any case
  void leave(const MemberSet& gone);    // the same, this member included, and nothing more is written from here on
  void close();                         // nothing more is written from here on; takes no memory

 private:
  HostRecord mine(SharedRecord::Seen& seen) const;
  bool update(const BallotQuestion* question, const MemberSet& gone, BallotAnswer* answer);
  BallotView view(const HostRecord& mine, const BallotQuestion* question, const MemberSet& gone, Tally& tally);
  BallotAnswer answer_from(const HostRecord& mine, const BallotView& view, const BallotQuestion& question, const MemberSet& gone) const;
  Vote vote_of(int member, Topic topic, uint64_t number) const;
  bool has_had_patience(const Ballots& mine) const;
  Notice notice(bool asks) const;
  void tell_all(const MemberSet& gone);
  std::vector<int> members_on(int host) const;

  Lanes& lanes_;
  SharedRecord record_;
  Hosts hosts_;
  int host_;
  Teller* teller_;
  uint64_t group_ = 0;  // its key

  mutable std::mutex mutex_;          // guards all that follows, and this member's places of the record
  std::vector<HostRecord> records_;   // of the other hosts, as told
  int64_t changed_ns_ = 0;            // when any record last did, as seen here
  uint64_t seen_mark_ = 0;
  size_t reminders_ = 0;
  bool closed_ = false;
};

// A notice of ballots: a record, and the votes of every member on its host.
inline constexpr size_t vote_words = 2 * topics;
inline constexpr size_t least_ballots_bytes = (HostRecord::words_for(1) + vote_words) * sizeof(uint64_t);
inline constexpr size_t most_ballots_bytes = (HostRecord::words_for(most_ranks) + vote_words * most_ranks) * sizeof(uint64_t);

}  // namespace unisono
