// What every store does, on each kind of store. Faults of the file: file_store_test.cpp; of the network: tcp_store_test.cpp; joining:
// join_store_test.cpp.
#include "unisono/store.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <limits>
#include <thread>

#include "tests/support/children.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/file_tree.hpp"

namespace unisono::testing {
namespace {

using distributed::FileStore;
using distributed::HashStore;
using distributed::PrefixStore;
using distributed::Store;
using distributed::TCPStore;

struct StoreKind {
  const char* name;
  std::shared_ptr<Store> (*make)(const FileTree&);
};

std::shared_ptr<Store> over_file(const FileTree& tree) { return std::make_shared<FileStore>(tree.root() + "store", 1); }

std::shared_ptr<Store> over_tcp(const FileTree&) { return std::make_shared<TCPStore>("127.0.0.1", 0, distributed::TCPStoreOptions{.is_master = true}); }

// A user that is not the master, which it keeps alive.
std::shared_ptr<Store> over_tcp_to_another(const FileTree& tree) {
  auto master = std::static_pointer_cast<TCPStore>(over_tcp(tree));
  auto user = std::make_shared<TCPStore>("127.0.0.1", master->port());
  return {user.get(), [user, master](Store*) {}};
}

const StoreKind kinds[] = {
    {"hash", [](const FileTree&) -> std::shared_ptr<Store> { return std::make_shared<HashStore>(); }},
    {"prefix", [](const FileTree&) -> std::shared_ptr<Store> { return std::make_shared<PrefixStore>("part", std::make_shared<HashStore>()); }},
    {"file", over_file},
    {"nested_prefixes_of_file", [](const FileTree& tree) -> std::shared_ptr<Store> {
       return std::make_shared<PrefixStore>("inner", std::make_shared<PrefixStore>("outer", over_file(tree)));
     }},
    {"tcp", over_tcp},
    {"tcp_to_another", over_tcp_to_another},
    {"prefix_of_tcp", [](const FileTree& tree) -> std::shared_ptr<Store> { return std::make_shared<PrefixStore>("part", over_tcp(tree)); }},
};

class Stores : public ::testing::TestWithParam<StoreKind> {
 protected:
  // Runs the call in a thread, and the rest of the test once that thread waits in it.
  void while_waiting(const std::function<void()>& call, const std::function<void()>& meanwhile) {
    std::atomic<pid_t> inside{0};
    std::thread waiter([&] {
      inside = gettid();
      EXPECT_NO_THROW(call());
    });
    EXPECT_TRUE(await([&] { return inside != 0; }) && await_asleep(getpid(), inside));
    meanwhile();
    waiter.join();
  }

  FileTree tree_{{}};
  std::shared_ptr<Store> shared_ = GetParam().make(tree_);
  Store& store_ = *shared_;
};

TEST_P(Stores, what_was_set_is_got_and_set_again) {
  store_.set("a", "1");
  store_.set("b", "2");
  EXPECT_EQ(store_.get("a"), "1");
  store_.set("a", "3");
  EXPECT_EQ(store_.get("a"), "3");
  EXPECT_EQ(store_.get("b"), "2");
  EXPECT_EQ(store_.num_keys(), 2);
}

TEST_P(Stores, values_are_bytes) {
  std::string every_byte;
  for (int byte = 0; byte < 256; ++byte) every_byte += static_cast<char>(byte);
  const std::string zeros(5, '\0');
  store_.set("every", every_byte);
  store_.set("zeros", zeros);
  store_.set("", "the empty key");
  store_.set(zeros, "a key of zeros");
  store_.set("empty", "");
  EXPECT_EQ(store_.get("every"), every_byte);
  EXPECT_EQ(store_.get("zeros"), zeros);
  EXPECT_EQ(store_.get(""), "the empty key");
  EXPECT_EQ(store_.get(zeros), "a key of zeros");
  EXPECT_TRUE(store_.check({"empty"}));
  EXPECT_EQ(store_.get("empty"), "");
}

TEST_P(Stores, a_value_may_be_large) {
  std::string large(5 << 20, 0);
  for (size_t index = 0; index < large.size(); ++index) large[index] = static_cast<char>(index * 7 + index / 4096);
  store_.set("large", large);
  store_.set("after", "x");
  EXPECT_TRUE(store_.get("large") == large);
  store_.append("large", "more");
  EXPECT_TRUE(store_.get("large") == large + "more");
  EXPECT_EQ(store_.get("after"), "x");
}

TEST_P(Stores, there_may_be_many_keys) {
  constexpr int count = 2000;
  for (int key = 0; key < count; ++key) store_.set(fmt::format("key {}", key), std::to_string(key));
  EXPECT_EQ(store_.num_keys(), count);
  for (int key = 0; key < count; key += 97) EXPECT_EQ(store_.get(fmt::format("key {}", key)), std::to_string(key));
}

TEST_P(Stores, adding_counts_from_nothing_or_from_a_number) {
  EXPECT_EQ(store_.add("count", 0), 0);
  EXPECT_TRUE(store_.check({"count"}));
  EXPECT_EQ(store_.add("count", 5), 5);
  EXPECT_EQ(store_.add("count", -7), -2);
  EXPECT_EQ(store_.get("count"), "-2");
  store_.set("count", "40");
  EXPECT_EQ(store_.add("count", 2), 42);
}

TEST_P(Stores, adding_to_what_is_no_number_is_refused) {
  for (const char* value : {"four", "", "4 ", "4.0", "99999999999999999999"}) {
    store_.set("word", value);
    expect_error<ArgumentError>({"add", "word\"", "whole number"}, [&] { store_.add("word", 1); });
    EXPECT_EQ(store_.get("word"), value);
  }
  store_.set("most", std::to_string(std::numeric_limits<int64_t>::max()));
  expect_error<ArgumentError>({"would leave 64 bits"}, [&] { store_.add("most", 1); });
  EXPECT_EQ(store_.add("most", -1), std::numeric_limits<int64_t>::max() - 1);
}

TEST_P(Stores, compare_set_changes_what_is_as_expected_and_says_what_stands) {
  EXPECT_EQ(store_.compare_set("a", "something", "new"), "something");  // absent, and something was expected
  EXPECT_FALSE(store_.check({"a"}));
  EXPECT_EQ(store_.compare_set("a", "", "first"), "first");
  EXPECT_EQ(store_.compare_set("a", "", "second"), "first");
  EXPECT_EQ(store_.compare_set("a", "other", "second"), "first");
  EXPECT_EQ(store_.compare_set("a", "first", "second"), "second");
  EXPECT_EQ(store_.get("a"), "second");
  store_.set("a", "");
  EXPECT_EQ(store_.compare_set("a", "", "third"), "third");  // there and empty, as expected
  EXPECT_EQ(store_.compare_set("a", "third", ""), "");
  EXPECT_TRUE(store_.check({"a"}));
}

TEST_P(Stores, check_asks_for_all_keys) {
  store_.set("a", "1");
  store_.set("b", "1");
  EXPECT_TRUE(store_.check({"a", "b"}));
  EXPECT_FALSE(store_.check({"a", "c"}));
  EXPECT_TRUE(store_.check({}));
}

TEST_P(Stores, deleting_says_whether_there_was_something) {
  store_.set("a", "1");
  EXPECT_TRUE(store_.delete_key("a"));
  EXPECT_FALSE(store_.delete_key("a"));
  EXPECT_FALSE(store_.check({"a"}));
  EXPECT_EQ(store_.num_keys(), 0);
  store_.append("a", "again");
  EXPECT_EQ(store_.get("a"), "again");
}

TEST_P(Stores, appending_lengthens) {
  store_.append("a", "one");
  store_.append("a", std::string("\0two", 4));
  store_.append("a", "");
  EXPECT_EQ(store_.get("a"), std::string("one\0two", 7));
}

TEST_P(Stores, several_keys_at_once) {
  store_.multi_set({"a", "b", "a"}, {"1", "2", "3"});
  EXPECT_EQ(store_.multi_get({"b", "a", "b"}), (std::vector<std::string>{"2", "3", "2"}));
  EXPECT_EQ(store_.num_keys(), 2);
  store_.multi_set({}, {});
  EXPECT_EQ(store_.multi_get({}), std::vector<std::string>{});
  expect_error<ArgumentError>({"2 keys and 1 values"}, [&] { store_.multi_set({"c", "d"}, {"1"}); });
  EXPECT_FALSE(store_.check({"c"}));
}

TEST_P(Stores, getting_waits_until_somebody_sets) {
  while_waiting([&] { EXPECT_EQ(store_.get("late"), "now"); }, [&] { store_.set("late", "now"); });
}

TEST_P(Stores, waiting_ends_with_the_last_of_the_keys) {
  store_.set("a", "1");
  std::atomic<bool> is_over{false};
  while_waiting([&] { store_.wait({"a", "b", "c"}); is_over = true; },
                [&] {
                  store_.set("c", "1");
                  EXPECT_FALSE(is_over);
                  store_.add("b", 1);
                });
  EXPECT_TRUE(is_over);
  while_waiting([&] { EXPECT_EQ(store_.multi_get({"a", "d"}), (std::vector<std::string>{"1", "4"})); }, [&] { store_.append("d", "4"); });
  while_waiting([&] { store_.wait({"e"}, std::numeric_limits<double>::infinity()); }, [&] { store_.compare_set("e", "", "5"); });
}

TEST_P(Stores, who_waits_past_the_deadline_is_told_what_is_missing) {
  store_.set("there", "1");
  const int64_t started_ns = now_ns();
  expect_error<TimeoutError>({"0.05 s", "2 of 3 keys", "absent\"", "gone\""}, [&] { store_.wait({"absent", "there", "gone"}, 0.05); });
  EXPECT_GE(now_ns() - started_ns, 50'000'000);
  try {
    store_.wait({"absent", "there"}, 0.01);
  } catch (const TimeoutError& error) {
    EXPECT_EQ(std::string(error.what()).find("there\""), std::string::npos) << error.what();
  }
  std::vector<std::string> many;
  for (int key = 0; key < 100; ++key) many.push_back(fmt::format("key {}", key));
  expect_error<TimeoutError>({"100 of 100 keys", "key 0\"", "…"}, [&] { store_.wait(many, 0.01); });
}

TEST_P(Stores, the_timeout_can_be_set) {
  EXPECT_EQ(store_.timeout(), 300);
  store_.set_timeout(0.05);
  EXPECT_EQ(store_.timeout(), 0.05);
  expect_error<TimeoutError>({"absent\""}, [&] { store_.get("absent"); });
  expect_error<TimeoutError>({"absent\""}, [&] { store_.wait({"absent"}); });
  expect_error<TimeoutError>({"absent\""}, [&] { store_.multi_get({"absent"}); });
  for (double seconds : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN()}) {
    expect_error<ArgumentError>({"set_timeout", "more than 0"}, [&] { store_.set_timeout(seconds); });
    expect_error<ArgumentError>({"wait", "more than 0"}, [&] { store_.wait({"absent"}, seconds); });
  }
  EXPECT_EQ(store_.timeout(), 0.05);
}

TEST_P(Stores, threads_do_not_lose_each_others_changes) {
  constexpr int count = 4, rounds = 100;
  std::vector<std::string> winners(count);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < count; ++thread)
    threads.emplace_back([&, thread] {
      for (int round = 0; round < rounds; ++round) {
        store_.add("sum", thread + 1);
        store_.append("letters", "x");
      }
      winners[static_cast<size_t>(thread)] = store_.compare_set("winner", "", std::to_string(thread));
      store_.add("done", 1);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(store_.add("sum", 0), rounds * (1 + 2 + 3 + 4));
  EXPECT_EQ(store_.get("letters"), std::string(count * rounds, 'x'));
  for (const std::string& winner : winners) EXPECT_EQ(winner, store_.get("winner"));
}

// Two keys are always set together, so that nobody may see one without the other.
TEST_P(Stores, several_keys_are_set_as_one) {
  constexpr int rounds = 200;
  store_.multi_set({"left", "right"}, {"0", "0"});
  std::thread writer([&] {
    for (int round = 1; round <= rounds; ++round) store_.multi_set({"left", "right"}, {std::to_string(round), std::to_string(round)});
  });
  for (std::vector<std::string> seen; seen.empty() || seen[0] != std::to_string(rounds);) {
    seen = store_.multi_get({"left", "right"});
    if (seen[0] != seen[1]) ADD_FAILURE() << seen[0] << " beside " << seen[1];
  }
  writer.join();
}

INSTANTIATE_TEST_SUITE_P(AllKinds, Stores, ::testing::ValuesIn(kinds), [](const auto& info) { return std::string(info.param.name); });

TEST(PrefixStores, are_parts_of_one_store) {
  auto whole = std::make_shared<HashStore>();
  auto left = std::make_shared<PrefixStore>("left", whole);
  PrefixStore right("right", whole), inner("inner", left);
  left->set("a", "1");
  right.set("a", "2");
  inner.set("a", "3");
  EXPECT_EQ(whole->multi_get({"left/a", "right/a", "left/inner/a"}), (std::vector<std::string>{"1", "2", "3"}));
  EXPECT_EQ(left->get("inner/a"), "3");
  EXPECT_TRUE(right.delete_key("a"));
  EXPECT_EQ(left->get("a"), "1");
  EXPECT_EQ(right.num_keys(), 2);  // of the whole
  EXPECT_EQ(left->underlying_store(), whole);
  EXPECT_EQ(inner.underlying_store(), left);
  inner.set_timeout(0.01);
  EXPECT_EQ(whole->timeout(), 0.01);
  expect_error<TimeoutError>({"\"left/inner/b\""}, [&] { inner.get("b"); });
  expect_error<ArgumentError>({"\"lost\"", "no store"}, [] { PrefixStore("lost", nullptr); });
}

}  // namespace
}  // namespace unisono::testing
