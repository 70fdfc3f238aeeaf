// Who goes when too many strangers stand at a door.
#include "trust/strangers.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace unisono {
namespace {

constexpr int64_t second_ns = 1'000'000'000;

TEST(Strangers, that_have_not_named_the_job_go_before_those_that_have) {
  std::vector<Stranger> crowd(10, {"10.0.0.1", true, 0});
  crowd.push_back({"10.0.0.2", false, 5 * second_ns});
  EXPECT_EQ(one_to_send_away(crowd, 6 * second_ns), 10);
}

TEST(Strangers, of_the_network_that_most_come_from_go_first_and_of_these_the_oldest) {
  const std::vector<Stranger> crowd = {{"a", false, 0}, {"b", false, 1}, {"b", false, 2}, {"c", false, 3}, {"b", false, 4}};
  EXPECT_EQ(one_to_send_away(crowd, second_ns), 1);
}

TEST(Strangers, that_all_name_the_job_have_a_second_each) {
  const std::vector<Stranger> crowd = {{"a", true, 0}, {"b", true, 0}, {"b", true, second_ns / 2}};
  EXPECT_EQ(one_to_send_away(crowd, second_ns - 1), std::nullopt);
  EXPECT_EQ(one_to_send_away(crowd, second_ns), 1);
  EXPECT_EQ(one_to_send_away({}, second_ns), std::nullopt);
}

}  // namespace
}  // namespace unisono
