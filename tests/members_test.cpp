// What members of a group say to each other, without the group: which of several faults is the first, and who tells it to whom on other hosts.
#include "group/members.hpp"

#include <gtest/gtest.h>

#include <utility>

#include "base/clock.hpp"
#include "tests/support/machine.hpp"
#include "tests/support/simulated_hosts.hpp"

namespace unisono::testing {
namespace {

struct MembersOf {
  explicit MembersOf(Machine& machine) {
    for (size_t rank = 0; rank < machine.arenas.size(); ++rank) {
      all.push_back(std::make_unique<Members>(machine.layout, static_cast<int>(rank), machine.neighbours(), Hosts(), nullptr));
      all.back()->met(machine.offsets, 4711, 1);
    }
  }
  Members& operator[](size_t rank) { return *all[rank]; }
  std::vector<std::unique_ptr<Members>> all;
};

Status fault_of(int rank) { return {ErrorCode::peer_lost, "seen by rank " + std::to_string(rank), rank}; }

// A fault is told to one member after the other. Here the first has told nobody but the second when the third sees one of its own: that the
// second is gone, for instance, because of the first.
TEST(Members, name_the_same_fault_also_while_it_is_being_told) {
  Machine machine(3);
  MembersOf members(machine);
  EXPECT_TRUE(members[0].revoke(fault_of(0)));
  auto& third = *reinterpret_cast<LaneControl*>(machine.arenas[2]->mapping()->data() + machine.offsets[2]);
  third.abort.store(0);  // as it is until the first has come to it
  ASSERT_TRUE(members[1].is_broken());
  ASSERT_FALSE(members[2].is_broken());
  EXPECT_TRUE(members[2].revoke(fault_of(2)));
  for (size_t rank : {0u, 1u, 2u}) EXPECT_EQ(members[rank].fault().text(), fault_of(0).text()) << "rank " << rank;
}

TEST(Members, are_told_of_a_fault_once) {
  Machine machine(2);
  MembersOf members(machine);
  EXPECT_TRUE(members[1].revoke(fault_of(1)));
  EXPECT_TRUE(members[0].revoke(fault_of(0)));
  for (size_t rank : {0u, 1u}) EXPECT_EQ(members[rank].fault().text(), fault_of(1).text()) << "rank " << rank;
}

using Kind = NoticeHead::Kind;

// Members on hosts; what one tells is kept until the test delivers it.
struct OnHosts {
  struct Wires final : Teller {
    void tell(int rank, const Notice& notice) override { told.push_back({rank, notice}); }
    std::vector<std::pair<int, Notice>> told;
  };

  explicit OnHosts(const std::vector<int>& host_of_rank) : hosts(host_of_rank), wires(host_of_rank.size()) {
    for (int rank = 0; rank < hosts.ranks(); ++rank) {
      hosts.head(rank).beat_ns = now_ns();
      all.push_back(std::make_unique<Members>(hosts.layout(), rank, hosts.neighbours_of(rank), hosts.hosts(), &wires[static_cast<size_t>(rank)]));
      all.back()->met(hosts.places(), 4711, 1);
    }
  }
  Members& operator[](size_t rank) { return *all[rank]; }
  // What it has told since the last time, of these kinds, as "to whom: what"; the rest is forgotten.
  std::vector<std::string> told_by(size_t rank) {
    std::vector<std::string> texts;
    for (const auto& [to, notice] : std::exchange(wires[rank].told, {})) {
      if (notice.head.kind == Kind::fault) texts.push_back(std::to_string(to) + ": " + std::string(notice.text()));
      if (notice.head.kind == Kind::announced) texts.push_back(std::to_string(to) + ": announced");
      if (notice.head.kind == Kind::ended) texts.push_back(std::to_string(to) + ": ended");
      if (notice.head.kind == Kind::left) texts.push_back(std::to_string(to) + ": left");
    }
    return texts;
  }
  // The first notice of that kind which one has told the other.
  Notice notice_of(Kind kind, size_t from, int to) {
    for (const auto& [whom, notice] : wires[from].told)
      if (whom == to && notice.head.kind == kind) return notice;
    ADD_FAILURE() << "rank " << from << " has told rank " << to << " nothing of that kind";
    return {};
  }

  SimulatedHosts hosts;
  std::vector<Wires> wires;
  std::vector<std::unique_ptr<Members>> all;
};

using Texts = std::vector<std::string>;

TEST(MembersOnHosts, tell_a_fault_once_for_each_host) {
  OnHosts members({0, 0, 1, 1});
  EXPECT_TRUE(members[1].revoke(fault_of(1)));
  EXPECT_EQ(members.told_by(1), (Texts{"2: seen by rank 1", "3: seen by rank 1"}));
  members.hosts.lane(0).abort = 0;  // the word was not there yet when rank 0 saw a fault of its own
  EXPECT_TRUE(members[0].revoke(fault_of(0)));
  EXPECT_EQ(members.told_by(0), Texts()) << "its mate has told all";
  EXPECT_EQ(members[0].fault().text(), fault_of(1).text());
}

TEST(MembersOnHosts, who_hears_of_a_fault_does_not_tell_it_on_but_when_asked) {
  OnHosts members({0, 1, 2});
  members[0].revoke(fault_of(0));
  members[1].told_fault(members.notice_of(Kind::fault, 0, 1));
  EXPECT_EQ(members.told_by(1), Texts());
  members[2].ask_occupation(1);
  members[1].told_call(2, members.notice_of(Kind::announced, 2, 1));
  const Notice answer = members.notice_of(Kind::fault, 1, 2);
  EXPECT_EQ(members.told_by(1), Texts{"2: seen by rank 0"});
  members[2].told_fault(answer);
  EXPECT_EQ(members[2].fault().text(), fault_of(0).text());
}

TEST(MembersOnHosts, who_is_asked_in_a_group_that_is_not_broken_says_what_it_does) {
  OnHosts members({0, 1});
  members[1].ask_occupations();
  members[0].told_call(1, members.notice_of(Kind::announced, 1, 0));
  EXPECT_EQ(members.told_by(0), Texts{"1: announced"});
}

// Whoever ended may have done so because of the fault, and who hears of it is to name that.
TEST(MembersOnHosts, tell_the_fault_before_a_death_and_before_they_leave) {
  OnHosts members({0, 0, 1});
  members[2].revoke(fault_of(2));
  members[0].told_fault(members.notice_of(Kind::fault, 2, 0));
  members.hosts.lane(1).abort = 0;  // rank 0 died before it had told its mate
  members[1].mark_died(0);
  EXPECT_EQ(members.told_by(1), (Texts{"2: seen by rank 2", "2: ended"}));
  EXPECT_TRUE(members[1].is_broken()) << "it has looked at what its host had decided";
  members[1].say_leaving();
  members[1].say_left();
  EXPECT_EQ(members.told_by(1), (Texts{"2: seen by rank 2", "2: left"}));
}

TEST(MembersOnHosts, who_waits_learns_what_its_host_has_decided) {
  OnHosts members({0, 0});
  EXPECT_FALSE(members[1].learn_fault());
  members[0].revoke(fault_of(0));
  members.hosts.lane(1).abort = 0;
  EXPECT_FALSE(members[1].is_broken());
  EXPECT_TRUE(members[1].learn_fault());
  EXPECT_EQ(members[1].fault().text(), fault_of(0).text());
}

// The one whose fault it was died before it had told anybody; whoever leaves has not waited, and so not looked.
TEST(MembersOnHosts, who_leaves_tells_what_its_host_has_decided) {
  OnHosts members({0, 0, 1});
  members[0].revoke(fault_of(0));
  members.hosts.lane(1).abort = 0;
  EXPECT_TRUE(members[1].say_leaving());
  members[1].say_left();
  EXPECT_EQ(members.told_by(1), (Texts{"2: seen by rank 0", "2: left"}));
}

// Lanes may be another group's once all have left.
TEST(MembersOnHosts, who_is_leaving_breaks_nothing_and_is_asked_in_vain) {
  OnHosts members({0, 0, 1});
  EXPECT_TRUE(members[0].say_leaving());
  EXPECT_FALSE(members[0].say_leaving());
  EXPECT_FALSE(members[0].revoke(fault_of(0)));
  EXPECT_FALSE(members[1].is_broken());
  members[1].revoke(fault_of(1));
  members[2].ask_occupation(0);
  members[0].told_call(2, members.notice_of(Kind::announced, 2, 0));
  EXPECT_EQ(members.told_by(0), Texts{"2: announced"}) << "it tells the fault itself, when it has left";
}

}  // namespace
}  // namespace unisono::testing
