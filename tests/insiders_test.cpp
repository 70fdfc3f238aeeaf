// A rank that tells the others what no rank of ours tells: its connection ends, everybody who needs it hears why, and the rest goes on.
#include <gtest/gtest.h>

#include "base/clock.hpp"
#include "tests/support/test_world.hpp"

namespace unisono::testing {
namespace {

Worlds three_hosts() {
  return ranks(3).with(Kind::threads).with([](Settings& settings) {
    settings.pretend_hosts = "1,1,1";
    settings.timeout_s = 20;
  });
}

// Rank 1 tells rank 0; all of them then sum, and the two others in a group of their own.
void expect_cut_off(const Notice& notice, const std::string& words) {
  for_each_world(three_hosts(), [&](TestWorld& world) {
    if (world.rank() == 1) world.world().remotes()->tell(0, notice);
    const int64_t started_ns = now_ns();
    std::vector<float> data(3, 1);
    try {
      for (;;) distributed::all_reduce(view(data), {.group = world.group()});  // until it is heard
    } catch (const PeerLostError& error) {
      const bool knows = world.rank() == 1 || std::string(error.what()).find(words) != std::string::npos;
      EXPECT_TRUE(knows) << world.rank() << ": " << error.what();
    }
    EXPECT_LT(now_ns() - started_ns, 3'000'000'000);
    if (world.rank() == 1) return;
    auto rest = world.world().create_group("the rest", {0, 2});
    ASSERT_TRUE(rest.ok()) << rest.status().text();
    std::vector<float> again(3, 1);
    distributed::all_reduce(view(again), {.group = GroupHandle(*rest)});
    EXPECT_EQ(again, std::vector<float>(3, 2));
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
