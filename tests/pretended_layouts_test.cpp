// What ranks say of UNISONO_PRETEND_HOSTS: layouts that differ, that are the same in other words, that do not add up.
#include <gtest/gtest.h>

#include "tests/support/children.hpp"
#include "tests/support/outcomes.hpp"
#include "tests/support/test_world.hpp"

namespace unisono::testing {
namespace {

Settings with_layout(const std::string& layout) {
  Settings settings = Worlds::test_settings();
  settings.pretend_hosts = layout;
  return settings;
}

// What two ranks get when they join with a layout each.
Outcomes join_with(const std::string& one, const std::string& other) {
  Outcomes outcomes(2);
  const std::string job = unique_job();
  Children children(2, [&](int rank) {
    const Settings settings = with_layout(rank == 0 ? one : other);
    outcomes.note(rank, [&] { throw_if_error(join_as(rank, 2, job, settings).status()); });
  });
  children.wait();
  return outcomes;
}

TEST(Layouts, that_differ_between_ranks_are_told_with_both) {
  const Outcomes outcomes = join_with("1,1", "0/0");
  for (int rank : {0, 1}) {
    EXPECT_EQ(outcomes.of(rank).code, ErrorCode::init);
    EXPECT_NE(outcomes.of(rank).text().find("UNISONO_PRETEND_HOSTS is \"0/0\" on rank 1"), std::string::npos) << outcomes.of(rank).text();
    EXPECT_NE(outcomes.of(rank).text().find("and \"1,1\" on rank 0"), std::string::npos) << outcomes.of(rank).text();
  }
}

TEST(Layouts, that_are_the_same_in_other_words_do_not_differ) {
  const Outcomes outcomes = join_with("2x1", "0/1");
  for (int rank : {0, 1}) EXPECT_EQ(outcomes.of(rank).code, ErrorCode::ok) << outcomes.of(rank).text();
}

TEST(Layouts, that_do_not_add_up_are_refused_before_anybody_is_met) {
  auto world = join_as(0, 1, unique_job(), with_layout("2,2"));
  ASSERT_FALSE(world.ok());
  EXPECT_EQ(world.status().code(), ErrorCode::init);
  EXPECT_EQ(world.status().message(), "UNISONO_PRETEND_HOSTS: \"2,2\" makes 4 ranks, and there is 1");
}

}  // namespace
}  // namespace unisono::testing
