// What a member that is gone still owes to a call, and how ranks are listed in messages.
#include "group/owed.hpp"

#include <gtest/gtest.h>

#include "base/ranks_text.hpp"

namespace unisono::testing {
namespace {

TEST(Owed, is_nothing_by_one_that_has_finished) {
  EXPECT_EQ(owed_by({.is_here = true, .knows_how_far = true, .has_finished = true}), Owed::nothing);
  EXPECT_EQ(owed_by({.knows_how_far = true, .has_finished = true, .is_awaited = true}), Owed::nothing) << "it is on its way";
  EXPECT_EQ(owed_by({.knows_how_far = true, .has_finished = true, .is_silent = true}), Owed::nothing) << "all of it has come";
}

TEST(Owed, is_what_was_on_its_way_when_a_machine_fell_silent) {
  EXPECT_EQ(owed_by({.knows_how_far = true, .has_finished = true, .is_silent = true, .is_awaited = true}), Owed::what_it_sent);
}

TEST(Owed, is_its_part_by_one_that_has_not_finished) {
  EXPECT_EQ(owed_by({.is_here = true, .knows_how_far = true}), Owed::its_part);
  EXPECT_EQ(owed_by({.knows_how_far = true}), Owed::its_part);
}

TEST(Owed, waits_for_better_news_where_nobody_says_how_far_it_came) {
  EXPECT_EQ(owed_by({.is_awaited = true}), Owed::nothing);
  EXPECT_EQ(owed_by({.has_no_more = true}), Owed::its_part);
  EXPECT_EQ(owed_by({.is_silent = true}), Owed::its_part);
  EXPECT_EQ(owed_by({.has_been_waited_for = true}), Owed::its_part);
}

TEST(RanksText, is_short_where_ranks_follow_each_other) {
  EXPECT_EQ(ranks_text({3}), "rank 3");
  EXPECT_EQ(ranks_text({3, 2}), "ranks 2, 3");
  EXPECT_EQ(ranks_text({0, 1, 2}), "ranks 0-2");
  EXPECT_EQ(ranks_text({9, 0, 4, 5, 6, 7, 11, 12}), "ranks 0, 4-7, 9, 11, 12");
}

}  // namespace
}  // namespace unisono::testing
