// How the hosts of a group come to one decision, also while ranks die, hosts fall silent and the network is cut: numbered ballots, in the manner of Paxos.
// Pure: no clock, no socket, no memory of others. Who drives it: ballot_box.hpp.
//
// An acceptor is a host, not a rank. What a host has promised and accepted, and which of its members have ended, is one record in the shared memory of its members: it
// outlives each of them, and any of them may speak for the host. Records are replaced as a whole, and told as a whole; a newer one takes the place of an older one.
//
//   decided    how many numbers are; the host votes on the next one
//   promised   it accepts no ballot below this one
//   accepted   the ballot in which it last accepted a proposal
//   gone       which of its own members have left or died, as those who live on that host testify
//
// A host's weight is the number of its members that its record does not call gone. A decision needs hosts of more than half of all weights; of two halves the one with the
// lowest member that is not gone wins. Hosts that are merely silent keep their weight, so two sides of a cut network never decide differently.
//
// Why two decisions of one number never differ, though the weights change in between. Let ballot b be accepted by the hosts A, and the later ballot c be promised by the hosts C,
// with no host in both. If c's proposer knew of a death on a host of A that b's did not, then from a record that was made after that host had accepted b, and that shows it: c proposes what b did.
// If b's knew of a death on a host of C that c's did not, then from a record made after that host had promised c, and b is not decided by who knows that. So each counted the other
// side with at least the weight that the other gave to itself, and both cannot have been the larger half. Hence the two rules that Paxos does not have: a
// proposal is taken from any record that is known, and nothing is decided or proposed below a promise that is known, whether or not that host is needed for the majority.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/hosts.hpp"

namespace unisono {

// Some of the members of a group.
class MemberSet {
 public:
  MemberSet() = default;
  explicit MemberSet(int members) : words_(words_for(members)) {}
  static constexpr size_t words_for(int members) { return (static_cast<size_t>(members) + 63) / 64; }

  void add(int member) { words_[at(member)] |= bit(member); }
  void remove(int member) { words_[at(member)] &= ~bit(member); }
  bool contains(int member) const { return (words_[at(member)] & bit(member)) != 0; }
  void add(const MemberSet& others) {
    for (size_t word = 0; word < words_.size(); ++word) words_[word] |= others.words_[word];
  }
  std::span<uint64_t> words() { return words_; }
  std::span<const uint64_t> words() const { return words_; }
  bool operator==(const MemberSet&) const = default;

 private:
  static size_t at(int member) { return static_cast<size_t>(member) / 64; }
  static uint64_t bit(int member) { return uint64_t{1} << member % 64; }

  std::vector<uint64_t> words_;
};

// What is decided: whether all who voted said yes, and who they are.
struct Outcome {
  bool flag = false;
  MemberSet members;

  bool operator==(const Outcome&) const = default;
};

enum class Topic : uint8_t { agree, shrink };  // each is decided for itself, number by number
inline constexpr int topics = 2;
inline constexpr int kept_flags = 64;

// Of one topic, as one host has cast them.
struct Ballots {
  uint64_t decided = 0;   // the last number that is
  uint64_t flags = 0;     // of the last `kept_flags` decided; the lowest bit is the last
  MemberSet members;      // of the last decided
  uint64_t promised = 0;  // of number decided + 1, like all that follows
  uint64_t accepted = 0;  // 0: none
  Outcome proposal;       // that was accepted

  bool operator==(const Ballots&) const = default;
};

struct HostRecord {
  explicit HostRecord(int members = 0);

  uint64_t version = 0;  // how often it was replaced
  MemberSet gone;
  std::array<Ballots, topics> ballots;

  Ballots& operator[](Topic topic) { return ballots[static_cast<size_t>(topic)]; }
  const Ballots& operator[](Topic topic) const { return ballots[static_cast<size_t>(topic)]; }
  bool operator==(const HostRecord&) const = default;

  static constexpr size_t words_for(int members) { return 1 + MemberSet::words_for(members) + topics * (5 + 2 * MemberSet::words_for(members)); }
  std::vector<uint64_t> words() const;
  // Nothing where they cannot be the words of a record for so many members.
  static std::optional<HostRecord> from(std::span<const uint64_t> words, int members);
};

// What one process knows and wants while it looks after its host's record.
struct BallotView {
  const Hosts& hosts;                   // of the members, counted from 0
  int members;
  int host;                             // mine
  std::span<const HostRecord> records;  // of all hosts, as told; mine is not looked at
  MemberSet ended;                      // of the members on my host, as this process sees it
  MemberSet disregarded;                // counted as gone, though nobody of their host testifies it: see UNISONO_MINORITY
  struct Wish {
    std::optional<Outcome> proposal = {};  // for the next number, once it is known what that would be
    bool opens = false;                    // whether to begin a ballot for it: the others have had their time
  };
  std::array<Wish, topics> wishes = {};
};

// What a member has voted, as two words of `number << 1 | flag`, the place of each by its number. Two are enough: nobody votes on number n + 2 before it has learnt the outcome of
// n + 1, for which everybody who is left has voted and so has learnt of n. A vote that is ahead nevertheless counts as no: nobody can know what was written over.
enum class Vote { none, no, yes, later };
constexpr uint64_t vote_word(uint64_t number, bool flag) { return number << 1 | (flag ? 1 : 0); }
constexpr Vote vote_in(uint64_t word, uint64_t number) {
  if (word >> 1 != number) return word >> 1 > number ? Vote::later : Vote::none;
  return (word & 1) != 0 ? Vote::yes : Vote::no;
}

// What the votes on a number come to: nothing while some are missing who are not gone. What somebody voted before it went counts.
struct Tally {
  std::optional<Outcome> outcome;
  std::vector<int> missing;
};
template <typename VoteOf, typename IsGone>
Tally count_votes(int members, VoteOf vote_of, IsGone is_gone) {
  Tally tally;
  Outcome outcome{true, MemberSet(members)};
  for (int member = 0; member < members; ++member) {
    const bool gone = is_gone(member);  // asked first: what it voted before is seen then
    const Vote vote = vote_of(member);
    if (vote == Vote::none && !gone) tally.missing.push_back(member);
    if (vote == Vote::no || vote == Vote::later) outcome.flag = false;
    if (vote != Vote::none && !gone) outcome.members.add(member);
  }
  if (tally.missing.empty()) tally.outcome = outcome;
  return tally;
}

// Whether the hosts that speak have the majority of the members that are not gone.
bool is_majority(const BallotView& view, const std::vector<bool>& speaks, const MemberSet& gone);

// All members of which somebody on their host has said so, as far as is known here.
MemberSet known_gone(const BallotView& view, const HostRecord& mine);

// My host's record after all that the view makes possible; the same where that is nothing.
HostRecord next_record(const HostRecord& mine, const BallotView& view);

}  // namespace unisono
