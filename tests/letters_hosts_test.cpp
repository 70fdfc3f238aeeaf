// What is said of a rank that neither sends nor receives: how far it has come and where it waits, whether it is on this host or on
// another, where it has to be asked.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/support/calls.hpp"
#include "tests/support/children.hpp"
#include "tests/support/outcomes.hpp"
#include "tests/support/test_world.hpp"

namespace unisono::testing {
namespace {

constexpr double deadline_s = 1, promised_s = deadline_s + 1;
constexpr size_t short_count = 5, long_count = 40'001;

WorldChoice on_hosts(const std::string& layout, int size) {
  WorldChoice choice{.size = size};
  choice.settings.pretend_hosts = layout;
  return choice;
}

// `peer` does something else while the last rank waits for it in vain; what each says. All have finished one call, and the last waits
// once the others have begun.
struct Story {
  WorldChoice choice;
  std::function<void(TestWorld&, const Outcomes&)> elsewhere;
  std::function<void()> in_vain;
};

std::string told_by_the_last(const Story& story) {
  const int last = story.choice.size - 1;
  Outcomes outcomes(story.choice.size);
  SharedArray<std::atomic<int>> begun(1);
  Children children(story.choice.size, [&](int rank) {
    as_rank(rank, story.choice, [&](TestWorld& world) {
      expect_works(world);
      begun[0] += 1;
      if (rank == last) { EXPECT_TRUE(await([&] { return begun[0] == story.choice.size; })); }
      if (rank == last) outcomes.note(rank, story.in_vain);
      else story.elsewhere(world, outcomes);
    });
  });
  for (const Ending& ending : children.wait()) EXPECT_TRUE(ending.succeeded()) << ending.output;
  EXPECT_EQ(outcomes.of(last).code, ErrorCode::timeout) << outcomes.of(last).text();
  EXPECT_LT(outcomes.of(last).took_s(), promised_s);
  return outcomes.of(last).text();
}

void expect_has(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(numbered(part)), std::string::npos) << text << "\nshould say " << numbered(part);
}

void receive_in_vain() {
  std::vector<int32_t> data(short_count);
  distributed::recv(view(data), 0, {.tag = 2, .timeout_s = deadline_s});
}

class LettersInVain : public ::testing::TestWithParam<bool> {  // whether between hosts
 protected:
  void SetUp() override {
    if (under_thread_sanitizer()) GTEST_SKIP() << "starts processes";
  }
  static WorldChoice two() { return on_hosts(GetParam() ? "1,1" : "", 2); }
  static WorldChoice three() { return on_hosts(GetParam() ? "2,1" : "", 3); }
};

TEST_P(LettersInVain, say_for_which_letter_the_other_waits) {
  const std::string text = told_by_the_last({two(),
                                             [](TestWorld&, const Outcomes&) {
                                               std::vector<int32_t> data(short_count);
                                               EXPECT_THROW(distributed::recv(view(data), 1, {.tag = 1}), TimeoutError);
                                             },
                                             receive_in_vain});
  expect_has(text, "recv int32[5] from rank 0, tag 2 gave up after");
  expect_has(text, "rank 0 has not sent it (last finished call #1); it waits in group \"unisono_world_group\": recv int32[5] from rank 1, tag 1");
}

// A call of a group that the one who asks is not in: of one of its own groups it would have been told.
TEST_P(LettersInVain, say_in_which_call_the_other_waits) {
  const std::string text = told_by_the_last({three(),
                                             [](TestWorld& world, const Outcomes& outcomes) {
                                               auto pair = world.world().create_group("pair", {0, 1});
                                               ASSERT_TRUE(pair.ok()) << pair.status().text();
                                               if (world.rank() == 1) { EXPECT_TRUE(await([&] { return outcomes.of(2).was_made(); })); }
                                               distributed::barrier({.group = GroupHandle(*pair)});
                                             },
                                             [] {
                                               std::vector<int32_t> data(long_count);
                                               distributed::isend(view(data), 0, {.timeout_s = deadline_s})->wait();
                                             }});
  expect_has(text, "rank 0 has not received it (last finished call #1); it waits in group \"pair\", call #1 barrier");
}

TEST_P(LettersInVain, say_that_the_other_does_not_wait) {
  auto is_busy = [](TestWorld&, const Outcomes& outcomes) { EXPECT_TRUE(await([&] { return outcomes.of(1).was_made(); })); };
  expect_has(told_by_the_last({two(), is_busy, receive_in_vain}), "rank 0 has not sent it (last finished call #1); it waits in no call");
}

// Too short to be asked before the deadline: then it is awaited a moment longer.
TEST_P(LettersInVain, of_short_deadlines_say_it_too) {
  const std::string text = told_by_the_last({two(),
                                             [](TestWorld&, const Outcomes&) {
                                               std::vector<int32_t> data(short_count);
                                               EXPECT_THROW(distributed::recv(view(data), 1, {.tag = 1}), TimeoutError);
                                             },
                                             [] {
                                               const int64_t started_ns = now_ns();
                                               EXPECT_TRUE(await([&] { return now_ns() - started_ns > 500'000'000; }));  // it says that it waits
                                               std::vector<int32_t> data(short_count);
                                               distributed::recv(view(data), 0, {.tag = 2, .timeout_s = 0.02});
                                             }});
  expect_has(text, "it waits in group \"unisono_world_group\": recv int32[5] from rank 1, tag 1");
}

TEST_P(LettersInVain, say_it_in_a_warning_before_the_deadline) {
  WorldChoice choice = two();
  choice.settings.warn_after_s = 0.5;
  SharedArray<std::atomic<int>> step(1);
  Children children(2, [&](int rank) {
    as_rank(rank, choice, [&](TestWorld& world) {
      expect_works(world);
      std::vector<int32_t> data(short_count, 3);
      if (rank == 1) distributed::recv(view(data), 0);
      if (rank == 1) return;
      EXPECT_TRUE(await([&] { return step[0] == 1; }));
      distributed::send(view(data), 1);
    });
  });
  children.await_output(1, numbered("recv int32[5] from rank 0, tag 0 has waited 0.5 s: rank 0 has not sent it (last finished call #1); it waits in no call"));
  step[0] = 1;
  expect_all_succeeded(children.wait());
}

INSTANTIATE_TEST_SUITE_P(OnOne, LettersInVain, ::testing::Values(false), [](const auto&) { return "host"; });
INSTANTIATE_TEST_SUITE_P(Between, LettersInVain, ::testing::Values(true), [](const auto&) { return "hosts"; });

// Of a rank that was stopped nothing is known but what it said before, and nobody waits long for more.
TEST(LettersBetweenHosts, say_that_the_other_does_not_answer) {
  if (under_thread_sanitizer()) GTEST_SKIP() << "stops processes";
  Outcomes outcomes(2);
  SharedArray<std::atomic<int>> step(1);
  const WorldChoice choice = on_hosts("1,1", 2);
  Children children(2, [&](int rank) {
    as_rank(rank, choice, [&](TestWorld& world) {
      expect_works(world);
      step[0] += 1;
      EXPECT_TRUE(await([&] { return step[0] == 3; }));
      if (rank == 1) outcomes.note(rank, receive_in_vain);
    });
  });
  EXPECT_TRUE(await([&] { return step[0] == 2; }));
  children.signal(0, SIGSTOP);
  children.await_stopped(0);
  step[0] = 3;
  EXPECT_TRUE(await([&] { return outcomes.of(1).was_made(); }));
  children.signal(0, SIGCONT);
  expect_all_succeeded(children.wait());
  EXPECT_EQ(outcomes.of(1).code, ErrorCode::timeout) << outcomes.of(1).text();
  EXPECT_LT(outcomes.of(1).took_s(), promised_s);
  expect_has(outcomes.of(1).text(), "rank 0 has not sent it; asked what it is doing, it does not answer");
}

}  // namespace
}  // namespace unisono::testing
