// A rank that tells the others what no rank of ours tells: its connection ends, everybody who needs it hears why, and the rest goes on.
#include <gtest/gtest.h>

#include "base/clock.hpp"
#include "tests/support/children.hpp"
#include "tests/support/test_world.hpp"

namespace unisono::testing {
namespace {

Worlds three_hosts() {
  return ranks(3).with(Kind::threads).with([](Settings& settings) {
    settings.pretend_hosts = "1,1,1";
    settings.timeout_s = 20;
  });
}

// Rank 1 tells rank 0, which then has nothing to do with it any more; the two others go on.
void expect_cut_off(const Notice& notice, const std::string& words) {
  for_each_world(three_hosts(), [&](TestWorld& world) {
    World& mine = world.world();
    distributed::barrier({.group = world.group()});  // everybody has made the group of all
    const int64_t started_ns = now_ns();
    if (world.rank() == 1) mine.remotes()->tell(0, notice);
    if (world.rank() == 0) {
      EXPECT_TRUE(await([&] { return !mine.how_lost(1).empty(); }));
      EXPECT_NE(mine.how_lost(1).find(words), std::string::npos) << mine.how_lost(1);
    }
    if (world.rank() != 2) {
      auto together = mine.create_group("of both", {0, 1});
      ASSERT_FALSE(together.ok());
      EXPECT_EQ(together.status().code(), ErrorCode::peer_lost) << together.status().text();
      EXPECT_LT(now_ns() - started_ns, 4'000'000'000);
    }
    if (world.rank() == 1) return;
    auto rest = mine.create_group("of the others", {0, 2});
    ASSERT_TRUE(rest.ok()) << rest.status().text();
    std::vector<float> data(3, 1);
    distributed::all_reduce(view(data), {.group = GroupHandle(*rest)});
    EXPECT_EQ(data, std::vector<float>(3, 2));
  });
}

TEST(Insiders, that_tell_of_a_kind_that_there_is_not_are_cut_off) {
  Notice notice;
  notice.head.kind = static_cast<NoticeHead::Kind>(77);
  expect_cut_off(notice, "it sent what no rank of ours sends (a notice of kind 77");
}

TEST(Insiders, that_tell_too_much_are_cut_off) {
  Notice notice;
  notice.head = {.kind = NoticeHead::Kind::fault, .code = 1};
  notice.body.resize(1 << 20);
  expect_cut_off(notice, "a notice \"fault\" of 1048576 bytes");
}

TEST(Insiders, that_tell_of_ranks_that_there_are_not_are_cut_off) {
  Notice notice;
  notice.head = {.kind = NoticeHead::Kind::lost, .rank = 3};
  expect_cut_off(notice, "of rank 3 in a world of 3");
}

}  // namespace
}  // namespace unisono::testing
