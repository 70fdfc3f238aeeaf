// What members of a group say to each other, without the group: which of several faults is the first.
#include "group/members.hpp"

#include <gtest/gtest.h>

#include "tests/support/machine.hpp"

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

}  // namespace
}  // namespace unisono::testing
