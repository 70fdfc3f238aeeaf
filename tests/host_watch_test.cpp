// Whom a host watches, and how long another has been quiet for one who may have been away itself. The connections: machines_silence_test.cpp.
#include "group/host_watch.hpp"

#include <gtest/gtest.h>

namespace unisono {
namespace {

constexpr int64_t second = 1'000'000'000;

std::vector<int> watched_by(int mine, int count, const std::vector<int>& gone) {
  return hosts_to_watch(mine, count, [&](int host) { return std::ranges::find(gone, host) == gone.end(); });
}

TEST(HostWatch, looks_at_the_next_two_that_are_there) {
  EXPECT_EQ(watched_by(0, 5, {}), (std::vector{1, 2}));
  EXPECT_EQ(watched_by(4, 5, {}), (std::vector{0, 1}));
  EXPECT_EQ(watched_by(0, 5, {1, 3}), (std::vector{2, 4}));
  EXPECT_EQ(watched_by(0, 2, {}), (std::vector{1}));
  EXPECT_EQ(watched_by(1, 3, {0, 2}), (std::vector<int>{}));
}

// However many are gone: whoever is there is watched by somebody who is.
TEST(HostWatch, leaves_nobody_unwatched) {
  for (int count = 2; count <= 6; ++count)
    for (int gone = 0; gone < 1 << count; ++gone) {
      auto is_there = [&](int host) { return (gone >> host & 1) == 0; };
      std::vector<int> watchers(static_cast<size_t>(count));
      int there = 0;
      for (int host = 0; host < count; ++host) {
        if (!is_there(host)) continue;
        ++there;
        for (int other : hosts_to_watch(host, count, is_there)) ++watchers[static_cast<size_t>(other)];
      }
      for (int host = 0; host < count; ++host)
        EXPECT_EQ(watchers[static_cast<size_t>(host)], is_there(host) ? std::min(there - 1, 2) : 0) << count << " " << gone;
    }
}

TEST(Quiet, counts_from_what_was_heard_last) {
  Quiet quiet;
  for (int64_t now = 100; now <= 105; ++now) quiet.look(now * second);
  EXPECT_EQ(quiet.of(104 * second, 105 * second), second);
  EXPECT_EQ(quiet.of(90 * second, 105 * second), 5 * second) << "before it looked it could not hear";
}

TEST(Quiet, begins_anew_for_who_was_away) {
  Quiet quiet;
  for (int64_t now : {100, 101, 130}) quiet.look(now * second);
  EXPECT_EQ(quiet.of(101 * second, 130 * second), 0);
  quiet.look(131 * second);
  EXPECT_EQ(quiet.of(101 * second, 131 * second), second);
}

}  // namespace
}  // namespace unisono
