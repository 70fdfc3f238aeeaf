// The runner token: one holder at a time, nobody sleeps past its turn or past what it rests for.
#include "group/token.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/support/children.hpp"

namespace unisono {
namespace {

double seconds_since(int64_t start_ns) { return static_cast<double>(now_ns() - start_ns) * 1e-9; }

TEST(RunnerToken, has_one_holder) {
  RunnerToken token;
  EXPECT_TRUE(token.try_take());
  EXPECT_FALSE(token.try_take());
  token.give();
  EXPECT_TRUE(token.try_take());
  token.give();
}

TEST(RunnerToken, counts_those_who_want_it) {
  RunnerToken token;
  EXPECT_FALSE(token.wanted());
  token.want();
  token.want();
  token.unwant();
  EXPECT_TRUE(token.wanted());
  token.unwant();
  EXPECT_FALSE(token.wanted());
}

TEST(RunnerToken, rest_returns_at_once_when_it_is_free_or_the_condition_true) {
  RunnerToken token;
  const int64_t start_ns = now_ns();
  for (int round = 0; round < 20; ++round) token.rest([] { return false; });
  EXPECT_TRUE(token.try_take());
  for (int round = 0; round < 20; ++round) token.rest([] { return true; });
  EXPECT_LT(seconds_since(start_ns), 1.0);
  token.give();
}

TEST(RunnerToken, rest_ends_by_itself_and_no_later_than_asked) {
  RunnerToken token;
  ASSERT_TRUE(token.try_take());
  const int64_t start_ns = now_ns();
  for (int round = 0; round < 20; ++round) token.rest([] { return false; }, 1'000'000);
  EXPECT_LT(seconds_since(start_ns), 1.0) << "20 rests of a millisecond";
  token.rest([] { return false; });
  EXPECT_LT(seconds_since(start_ns), 2.0) << "and one of its own length";
}

// A plain number, so that ThreadSanitizer sees any two holders at once.
TEST(RunnerToken, what_one_holder_did_is_seen_by_the_next) {
  RunnerToken token;
  const int rounds = testing::small_run() ? 2000 : 20'000;
  int64_t number = 0;
  std::vector<std::thread> threads;
  const int64_t start_ns = now_ns();
  for (int index = 0; index < 4; ++index)
    threads.emplace_back([&] {
      for (int round = 0; round < rounds; ++round) {
        while (!token.try_take()) token.rest([] { return false; });
        ++number;
        token.give();
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(number, 4 * rounds);
  EXPECT_LT(seconds_since(start_ns), 20.0) << "a lost wake-up costs 0.1 s";
}

// The holder keeps the token and makes true what the other rests for, again and again.
TEST(RunnerToken, stirring_ends_every_rest_whose_condition_became_true) {
  RunnerToken token;
  const int rounds = testing::small_run() ? 2000 : 20'000;
  std::atomic<int> asked{0}, answered{0};
  ASSERT_TRUE(token.try_take());
  const int64_t start_ns = now_ns();
  std::thread waiter([&] {
    for (int round = 1; round <= rounds; ++round) {
      asked = round;
      while (answered.load() < round) token.rest([&] { return answered.load() >= round; });
    }
  });
  for (int round = 1; round <= rounds; ++round) {
    while (asked.load() < round) continue;
    answered = round;
    token.stir();
  }
  waiter.join();
  EXPECT_LT(seconds_since(start_ns), 20.0) << "a lost wake-up costs 0.1 s";
  token.give();
}

}  // namespace
}  // namespace unisono
