// The rules of group/making.hpp, one by one, on boards that nobody else writes to; all of them together, under every failure: torture_making_test.
#include "group/making.hpp"

#include <gtest/gtest.h>

namespace unisono::testing {
namespace {

// What rank 0 knows of three ranks on three hosts.
struct Boards {
  Boards() {
    for (int rank = 0; rank < 3; ++rank) {
      Neighbour board;
      board.rank = rank;
      board.mirror = Mapping::of_nobody(sizeof(ArenaHead));
      all.push_back(std::move(board));
    }
  }
  GroupParts parts(int rank, const std::vector<int>& ranks) const {
    GroupParts parts;
    parts.name = "a";
    parts.ranks = ranks;
    parts.me = static_cast<int>(std::ranges::find(ranks, rank) - ranks.begin());
    for (int member : ranks) parts.members.push_back(all[static_cast<size_t>(member)]);
    parts.places.resize(ranks.size());
    return parts;
  }
  GroupParts enter(Making& by, int rank, const std::vector<int>& ranks) {
    GroupParts entered = parts(rank, ranks);
    by.take_time(entered);
    show(rank, Making::enter(all[static_cast<size_t>(rank)].head(), entered, {.lane = 1}), ranks);
    return entered;
  }
  void give_up(int rank, const GroupParts& parts, const Status& why) { show(rank, &Making::give_up(all[static_cast<size_t>(rank)].head(), parts, why), parts.ranks); }
  void show(int rank, const BoardEntry* entry, const std::vector<int>& ranks) {
    if (rank != 0) mine.hear(all[static_cast<size_t>(rank)], Making::told(all[static_cast<size_t>(rank)].head(), *entry), ranks);
  }
  Search search(GroupParts& parts) const {
    return {parts, [](int) { return std::string(); }, [](size_t) { return false; }};
  }

  Making mine;
  std::vector<Neighbour> all;
};

TEST(Making, is_over_when_all_have_come) {
  Boards boards;
  GroupParts mine = boards.enter(boards.mine, 0, {0, 1, 2});
  Search search = boards.search(mine);
  EXPECT_FALSE(Making::find(search));
  Making one, two;
  boards.enter(two, 2, {0, 1, 2});
  EXPECT_FALSE(Making::find(search));
  EXPECT_TRUE(boards.mine.examine(search).ok());
  boards.enter(one, 1, {0, 1, 2});
  EXPECT_TRUE(Making::find(search));
}

TEST(Making, is_a_mismatch_with_one_that_counts_on_this_rank_for_another_group) {
  Boards boards;
  GroupParts mine = boards.enter(boards.mine, 0, {0, 2, 1});
  Making one;
  boards.enter(one, 1, {1, 0});
  Search search = boards.search(mine);
  EXPECT_FALSE(Making::find(search));
  const Status status = boards.mine.examine(search);
  EXPECT_EQ(status.code(), ErrorCode::mismatch) << status.text();
  EXPECT_EQ(status.peer(), 1);
}

// Rank 1 has found all of them, has left the group and makes the next of that name; that rank 2 has come is still on its way to rank 0.
TEST(Making, is_no_mismatch_with_one_that_has_made_the_group_and_gone_on_to_another_of_its_name) {
  Boards boards;
  GroupParts mine = boards.enter(boards.mine, 0, {0, 2, 1});
  Making one, two;
  boards.enter(one, 1, {0, 2, 1});
  boards.enter(one, 1, {1, 0});
  Search search = boards.search(mine);
  EXPECT_FALSE(Making::find(search));
  const Status status = boards.mine.examine(search);
  EXPECT_TRUE(status.ok()) << status.text();
  boards.enter(two, 2, {0, 2, 1});
  EXPECT_TRUE(Making::find(search));
}

TEST(Making, goes_on_to_the_time_of_who_has_tried_in_vain) {
  Boards boards;
  Making one;
  GroupParts theirs = boards.enter(one, 1, {0, 1});
  boards.give_up(1, theirs, {ErrorCode::timeout, "", 0});
  boards.enter(one, 1, {0, 1});
  GroupParts mine = boards.enter(boards.mine, 0, {0, 1});
  EXPECT_EQ(mine.time, 2);
  Search search = boards.search(mine);
  EXPECT_TRUE(Making::find(search));
}

TEST(Making, is_given_up_with_who_gave_up) {
  Boards boards;
  GroupParts mine = boards.enter(boards.mine, 0, {0, 1, 2});
  Making one;
  GroupParts theirs = boards.enter(one, 1, {0, 1, 2});
  boards.give_up(1, theirs, {ErrorCode::timeout, "", 2});
  Search search = boards.search(mine);
  EXPECT_FALSE(Making::find(search));
  const Status status = boards.mine.examine(search);
  EXPECT_EQ(status.code(), ErrorCode::timeout);
  EXPECT_EQ(status.peer(), 2) << status.text();
}

}  // namespace
}  // namespace unisono::testing
