// Waiting: it ends when it should, and no wake-up is lost between processes that share a core.
#include "transport/waiting.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <thread>

#include "tests/support/calls.hpp"
#include "tests/support/children.hpp"
#include "transport/lanes.hpp"

namespace unisono::testing {
namespace {

double seconds_since(int64_t start_ns) { return static_cast<double>(now_ns() - start_ns) * 1e-9; }

Status never() { return Status::success(); }

TEST(Waiting, ends_at_once_when_there_is_nothing_to_wait_for) {
  auto head = std::make_unique<ArenaHead>();
  WaitPolicy policy;
  int turns = 0;
  EXPECT_TRUE(wait_until_done(*head, policy, [&] { return ++turns, Turn::done; }, never).ok());
  EXPECT_EQ(turns, 1);
}

TEST(Waiting, goes_on_as_long_as_there_is_progress_and_looks_for_trouble_rarely) {
  auto head = std::make_unique<ArenaHead>();
  WaitPolicy policy;
  int turns = 0, looks = 0;
  auto turn = [&] { return ++turns < 10'000 ? Turn::progressed : Turn::done; };
  auto examine = [&] { return ++looks, Status::success(); };
  EXPECT_TRUE(wait_until_done(*head, policy, turn, examine).ok());
  EXPECT_GT(looks, 0) << "progress that leads nowhere would never end";
  EXPECT_LT(looks, 20);
}

TEST(Waiting, gives_up_with_what_the_examination_found) {
  for (bool crowded : {false, true}) {
    auto head = std::make_unique<ArenaHead>();
    WaitPolicy policy;
    policy.crowded = crowded;
    int looks = 0;
    auto examine = [&] { return ++looks < 5 ? Status::success() : Status(ErrorCode::timeout, "enough"); };
    Status status = wait_until_done(*head, policy, [] { return Turn::blocked; }, examine);
    EXPECT_EQ(status.message(), "enough");
    EXPECT_EQ(looks, 5);
    EXPECT_EQ(head->sleepers.load(), 0u);
  }
}

TEST(Waiting, looks_again_soon_after_a_deadline) {
  for (bool crowded : {false, true}) {
    auto head = std::make_unique<ArenaHead>();
    WaitPolicy policy;
    policy.crowded = crowded;
    const int64_t start_ns = now_ns();
    const Deadline deadline = Deadline::in_seconds(0.02);
    auto examine = [&] { return deadline.passed() ? Status(ErrorCode::timeout, "late") : Status::success(); };
    EXPECT_EQ(wait_until_done(*head, policy, [] { return Turn::blocked; }, examine, deadline).message(), "late");
    EXPECT_GE(seconds_since(start_ns), 0.02);
    EXPECT_LT(seconds_since(start_ns), 1.0);
  }
}

// One publishes, and rings if it sees a sleeper; the other waits, and sleeps if it has seen nothing.
TEST(Waiting, whoever_is_about_to_sleep_is_seen_or_sees) {
  const int rounds = small_run() ? 2000 : 20'000;
  for (bool crowded : {false, true}) {
    auto head = std::make_unique<ArenaHead>();
    WaitPolicy policy;
    policy.crowded = crowded;
    policy.spin_ns = policy.patience_ns = 0;
    std::atomic<int> asked{0}, answered{0};
    const int64_t start_ns = now_ns();
    std::thread publisher([&] {
      for (int round = 1; round <= rounds; ++round) {
        while (asked.load() < round) continue;
        answered.store(round, std::memory_order_release);
        std::atomic_thread_fence(std::memory_order_seq_cst);
        if (head->sleepers.load(std::memory_order_relaxed) != 0) ring_bell(*head);
      }
    });
    for (int round = 1; round <= rounds; ++round) {
      asked = round;
      auto turn = [&] { return answered.load(std::memory_order_acquire) >= round ? Turn::done : Turn::blocked; };
      ASSERT_TRUE(wait_until_done(*head, policy, turn, never).ok());
    }
    publisher.join();
    EXPECT_EQ(head->sleepers.load(), 0u);
    EXPECT_LT(seconds_since(start_ns), 20.0) << "a lost wake-up costs 0.1 s";
  }
}

TEST(Waiting, learns_to_poll_longer_when_it_was_needed_again_soon) {
  WaitPolicy policy;
  policy.spin_ns = policy.patience_ns = 50'000;
  policy.learn(60'000);
  EXPECT_GT(policy.patience_ns, 50'000);
  for (int round = 0; round < 20; ++round) policy.learn(60'000);
  EXPECT_LE(policy.patience_ns, 2'000'000);
  policy.learn(1'000'000'000);
  EXPECT_EQ(policy.patience_ns, 50'000);
}

TEST(Yielding, rests_after_the_core_came_back_late_and_each_time_for_longer) {
  constexpr int64_t quick_ns = 5000, slow_ns = 3'000'000;
  Yielding yielding;
  int64_t now = 1'000'000'000, last_rest = 0;
  EXPECT_TRUE(yielding.pays(now));
  yielding.learn(now, now + quick_ns);
  EXPECT_TRUE(yielding.pays(now + quick_ns));
  for (int round = 0; round < 12; ++round) {
    yielding.learn(now, now + slow_ns);
    now += slow_ns;
    int64_t rest = 0;
    while (!yielding.pays(now + rest) && rest <= 2'000'000'000) rest += 1'000'000;
    EXPECT_GE(rest, std::max<int64_t>(last_rest, 1'000'000));
    EXPECT_LE(rest, 250'000'000);
    last_rest = rest;
    now += rest;
  }
  EXPECT_EQ(last_rest, 250'000'000);
  for (int round = 0; round < 1000; ++round) yielding.learn(now, now + quick_ns);  // the stranger has gone
  yielding.learn(now, now + slow_ns);
  EXPECT_TRUE(yielding.pays(now + slow_ns + 20'000'000));
}

// Ping-pong on every path by which ranks wake each other: the release word, slots, flags and links.
void ping_pong(const std::string& plan, int size, int rounds, Kind kind) {
  SCOPED_TRACE(fmt::format("{} ranks as {}, plan \"{}\"", size, kind == Kind::threads ? "threads" : "processes", plan));
  Worlds worlds = ranks(size).with(kind).with([&](Settings& settings) {
    settings.cores = 1;
    settings.plan = plan;
  });
  const int64_t start_ns = now_ns();
  for_each_world(worlds, [&](TestWorld& world) {
    std::vector<int32_t> data = {1};
    for (int round = 0; round < rounds; ++round) {
      data[0] = round + world.rank();
      distributed::all_reduce(view(data), {.group = world.group()});
      ASSERT_EQ(data[0], round * size + size * (size - 1) / 2);
    }
  });
  EXPECT_LT(seconds_since(start_ns), 20.0) << "a lost wake-up costs 0.1 s";
}

TEST(Waiting, no_wake_up_is_lost_between_crowded_ranks) {
  const int rounds = small_run() ? 1000 : 20'000;
  for (Kind kind : {Kind::processes, Kind::threads}) {
    if (kind == Kind::processes && under_thread_sanitizer()) continue;
    ping_pong("", 2, rounds, kind);
    ping_pong("", 5, rounds / 10, kind);
    for (const char* plan : {"all_reduce=slot", "all_reduce=one_shot", "all_reduce=ring"}) ping_pong(plan, 2, rounds / 4, kind);
  }
}

}  // namespace
}  // namespace unisono::testing
