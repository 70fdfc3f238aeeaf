// The rules of group/ballot.hpp, one by one; all of them together, under every failure: torture_ballots_test.
#include "group/ballot.hpp"

#include <gtest/gtest.h>

#include <optional>

#include "tests/support/hosts.hpp"

namespace unisono::testing {
namespace {

using Result = unisono::Outcome;

MemberSet set_of(int members, std::initializer_list<int> some) {
  MemberSet set(members);
  for (int member : some) set.add(member);
  return set;
}

// A group on hosts, each of which knows what it was told, and nothing else.
struct Group {
  explicit Group(const Hosts& hosts, int members) : hosts(hosts), members(members), records(static_cast<size_t>(hosts.count()), HostRecord(members)) {}

  BallotView view(int host) const { return {hosts, members, host, records, MemberSet(members), MemberSet(members)}; }
  void look(int host, const BallotView& view) { records[static_cast<size_t>(host)] = next_record(records[static_cast<size_t>(host)], view); }
  Ballots& of(int host) { return records[static_cast<size_t>(host)][Topic::agree]; }
  void propose(int host, bool flag, bool opens = false) {
    BallotView here = view(host);
    here.wishes[0] = {Result{flag, MemberSet(members)}, opens};
    look(host, here);
  }
  void look(int host) { look(host, view(host)); }

  Hosts hosts;
  int members;
  std::vector<HostRecord> records;
};

TEST(Majority, is_more_than_half_of_those_who_are_not_gone) {
  const Group group(in_a_row({2, 1, 2}), 5);
  const BallotView view = group.view(0);
  EXPECT_TRUE(is_majority(view, {true, true, false}, MemberSet(5)));
  EXPECT_FALSE(is_majority(view, {true, false, false}, MemberSet(5)));
  EXPECT_TRUE(is_majority(view, {true, false, false}, set_of(5, {3, 4}))) << "2 of 3";
}

TEST(Majority, of_two_halves_is_the_one_with_the_lowest_that_is_not_gone) {
  const Group group(in_a_row({2, 2}), 4);
  const BallotView view = group.view(0);
  EXPECT_TRUE(is_majority(view, {true, false}, MemberSet(4)));
  EXPECT_FALSE(is_majority(view, {false, true}, MemberSet(4)));
  const Group apart_group(apart(3), 3);
  EXPECT_TRUE(is_majority(apart_group.view(1), {false, true, false}, set_of(3, {0}))) << "1 of 2, and the lowest";
  EXPECT_FALSE(is_majority(apart_group.view(2), {false, false, true}, set_of(3, {0})));
}

TEST(Ballot, of_one_host_is_decided_at_once) {
  Group group(Hosts(), 3);
  group.propose(0, true);
  EXPECT_EQ(group.of(0).decided, 1u);
  EXPECT_EQ(group.of(0).flags, 1u);
  group.propose(0, false);
  EXPECT_EQ(group.of(0).decided, 2u);
  EXPECT_EQ(group.of(0).flags, 2u);
}

TEST(Ballot, of_the_first_host_needs_no_promises) {
  Group group(apart(3), 3);
  group.propose(0, true);
  EXPECT_EQ(group.of(0).accepted, 1u);
  EXPECT_EQ(group.of(0).decided, 0u);
  group.look(1);
  EXPECT_EQ(group.of(1).decided, 1u) << "two of three have accepted it";
  group.look(0);
  group.look(2);
  for (int host = 0; host < 3; ++host) EXPECT_EQ(group.of(host).decided, 1u);
}

TEST(Ballot, that_is_later_proposes_what_was_accepted_before) {
  Group group(apart(3), 3);
  group.propose(0, true);
  group.propose(2, false, true);  // begins one of its own; of the first it has heard
  group.look(1);
  group.propose(2, false);
  group.look(1);
  EXPECT_EQ(group.of(1).flags, 1u);
  group.look(2);
  EXPECT_EQ(group.of(2).decided, 1u);
  EXPECT_EQ(group.of(2).flags, 1u);
}

TEST(Ballot, is_not_accepted_below_a_promise) {
  Group group(apart(3), 3);
  group.propose(2, false, true);
  EXPECT_EQ(group.of(2).promised, 3u);
  group.look(1);
  EXPECT_EQ(group.of(1).promised, 3u);
  group.records[2] = group.records[1] = HostRecord(3);  // the first host hears of nothing
  group.propose(0, true);
  group.of(1).promised = 3;
  group.look(1);
  EXPECT_EQ(group.of(1).accepted, 0u);
  EXPECT_EQ(group.of(1).decided, 0u);
  EXPECT_EQ(group.of(1).promised, 3u);
}

// The testimony of a death shows what its host had accepted, so that who decides without it decides the same.
TEST(Ballot, that_counts_a_death_knows_what_the_dead_had_accepted) {
  Group group(in_a_row({1, 3, 2}), 6);
  group.of(1).promised = group.of(1).accepted = 2;
  group.of(1).proposal = {true, MemberSet(6)};
  group.records[1].gone = set_of(6, {1, 2});  // of three ranks one is left
  group.propose(2, false, true);
  EXPECT_EQ(group.of(2).decided, 1u) << "by three of the four who are left";
  EXPECT_EQ(group.of(2).flags, 1u) << "what host 1 had accepted may have been decided";
}

// Where deaths are known to some only, both ballots would otherwise count themselves as the larger part: host 0 knows of a death on host 3, host 2 of one on host 1.
TEST(Ballot, is_not_decided_below_a_promise_that_is_known) {
  Group group(in_a_row({2, 2, 2, 3}), 9);
  std::vector<std::vector<HostRecord>> known(4, group.records);
  auto tell = [&](size_t from, size_t to) { known[to][from] = group.records[from]; };
  auto look = [&](int host, std::optional<bool> proposal = {}, bool opens = false, int dies = -1) {
    BallotView view{group.hosts, 9, host, known[static_cast<size_t>(host)], MemberSet(9), MemberSet(9)};
    if (dies >= 0) view.ended.add(dies);
    if (proposal) view.wishes[0] = {Result{*proposal, MemberSet(9)}, opens};
    group.look(host, view);
  };
  look(0, true);
  tell(0, 1);
  look(1);  // hosts 0 and 1 have accepted the first ballot
  look(2, false, true);
  tell(2, 3);
  look(3);
  tell(3, 2);  // hosts 2 and 3 have promised a later one
  look(3, {}, false, 8);
  tell(1, 0);
  tell(3, 0);
  look(0);
  EXPECT_EQ(group.of(0).decided, 0u) << "4 of 8, and the lowest: but host 3 has promised a later ballot";
  look(2, false);
  tell(2, 3);
  look(3);
  tell(3, 2);
  look(1, {}, false, 2);
  tell(1, 2);
  look(2);
  EXPECT_EQ(group.of(2).decided, 1u);
  EXPECT_EQ(group.of(2).flags, 0u);
}

TEST(Record, comes_back_from_its_words_and_from_no_others) {
  for (int members : {1, 63, 64, 65, 200}) {
    HostRecord record(members);
    record.version = 7;
    record.gone.add(members - 1);
    record[Topic::shrink] = {4, 9, MemberSet(members), 12, 11, {true, MemberSet(members)}};
    record[Topic::shrink].proposal.members.add(members / 2);
    std::vector<uint64_t> words = record.words();
    EXPECT_EQ(words.size(), HostRecord::words_for(members));
    EXPECT_EQ(HostRecord::from(words, members), record);
    EXPECT_EQ(HostRecord::from(std::span(words).first(words.size() - 1), members), std::nullopt);
    record[Topic::shrink].accepted = 13;
    EXPECT_EQ(HostRecord::from(record.words(), members), std::nullopt) << "accepted above its promise";
    words[0] = UINT64_MAX;
    EXPECT_EQ(HostRecord::from(words, members), std::nullopt);
  }
  std::vector<uint64_t> words = HostRecord(3).words();
  words[1] = 8;
  EXPECT_EQ(HostRecord::from(words, 3), std::nullopt) << "member 3 of 3";
}

TEST(Votes, that_are_missing_are_waited_for_unless_who_should_give_them_is_gone) {
  auto votes = [](int member) { return member == 0 ? Vote::yes : member == 1 ? Vote::none : Vote::later; };
  EXPECT_EQ(count_votes(3, votes, [](int) { return false; }).missing, std::vector<int>{1});
  const Tally tally = count_votes(3, votes, [](int member) { return member == 1; });
  EXPECT_EQ(tally.outcome, (Result{false, set_of(3, {0, 2})}));
  EXPECT_EQ(vote_in(vote_word(5, true), 5), Vote::yes);
  EXPECT_EQ(vote_in(vote_word(7, true), 5), Vote::later);
  EXPECT_EQ(vote_in(vote_word(3, true), 5), Vote::none);
}

}  // namespace
}  // namespace unisono::testing
