// Histories written by hand, some of which no store can have: what the checker of store_history_test.cpp must pass and must find.
#include <gtest/gtest.h>

#include "tests/support/store_history.hpp"

namespace unisono::testing {
namespace {

using What = StoreOperation::What;
using History = std::vector<StoreOperation>;

// When: from, to; to 0: without an answer.
struct When {
  int64_t from, to = 0;
};

StoreOperation add(int client, int64_t amount, int64_t result, When when) {
  return {.what = What::add, .client = client, .value = amount, .result = result, .started_ns = when.from, .ended_ns = when.to};
}
StoreOperation get(int client, int64_t result, When when) {
  return {.what = What::get, .client = client, .result = result, .started_ns = when.from, .ended_ns = when.to};
}
StoreOperation set(int client, int64_t value, When when) {
  return {.what = What::set, .client = client, .value = value, .started_ns = when.from, .ended_ns = when.to};
}
struct Swap {
  int64_t expected, desired, result;
};
StoreOperation compare_set(int client, Swap swap, When when) {
  return {.what = What::compare_set, .client = client, .value = swap.desired, .expected = swap.expected, .result = swap.result, .started_ns = when.from,
          .ended_ns = when.to};
}
constexpr int64_t unanswered = 0;

StoreOperation at_key(int key, StoreOperation operation) {
  operation.key = key;
  return operation;
}

void expect_found(const History& history, const std::string& words) {
  const std::string fault = not_linearizable(history);
  EXPECT_NE(fault.find(words), std::string::npos) << "found: " << fault << "\nshould say: " << words;
}

TEST(PlantedHistories, that_a_store_can_have_pass) {
  EXPECT_EQ(not_linearizable({}), "");
  EXPECT_EQ(not_linearizable({add(1, 1, 1, {10, 20}), add(2, 1, 2, {30, 40}), get(1, 2, {50, 60})}), "");
  EXPECT_EQ(not_linearizable({add(1, 1, 2, {10, 40}), add(2, 1, 1, {20, 50}), get(3, 1, {30, 60}), get(4, 0, {15, 60})}), "");
  EXPECT_EQ(not_linearizable({set(1, 5, {10, 40}), set(2, 6, {20, 50}), get(3, 6, {21, 30}), get(3, 5, {31, 60})}), "");
  EXPECT_EQ(not_linearizable({compare_set(1, {0, 7, 7}, {10, 30}), compare_set(2, {0, 8, 7}, {10, 30}), compare_set(2, {7, 8, 8}, {40, 50})}), "");
  EXPECT_EQ(not_linearizable({compare_set(1, {3, 7, 3}, {10, 30}), get(1, 0, {40, 50})}), "");  // where nothing is it says what was expected
  EXPECT_EQ(not_linearizable({at_key(0, add(1, 1, 1, {10, 20})), at_key(1, add(1, 1, 1, {30, 40})), at_key(1, get(2, 0, {20, 25}))}), "");
}

TEST(PlantedHistories, what_was_not_answered_happened_once_at_any_time_or_never) {
  const StoreOperation lost = add(1, 1, unanswered, {10});
  EXPECT_EQ(not_linearizable({lost, get(2, 0, {20, 30})}), "");
  EXPECT_EQ(not_linearizable({lost, get(2, 1, {20, 30})}), "");
  EXPECT_EQ(not_linearizable({lost, get(2, 0, {20, 30}), get(2, 1, {40, 50})}), "");
  EXPECT_EQ(not_linearizable({lost, lost, lost, get(2, 2, {20, 30}), get(2, 3, {40, 50})}), "");
  EXPECT_EQ(not_linearizable({compare_set(1, {5, 6, unanswered}, {10}), set(2, 5, {20, 30}), get(3, 5, {31, 40}), get(3, 6, {41, 50})}), "");
  expect_found({lost, get(2, 1, {20, 30}), get(2, 0, {40, 50})}, "leads to 1; none of these can be the next:\n  client 2: get() = 0, from 30 to 40 ns");
  expect_found({add(1, 1, unanswered, {40}), get(2, 1, {20, 30})}, "get() = 1");  // before it started
  expect_found({lost, get(2, 2, {20, 30})}, "get() = 2");
  expect_found({set(1, 4, {10}), get(2, 4, {20, 30}), get(2, 0, {20, 50}), get(2, 0, {60, 70})}, "get() = 0, from 50 to 60 ns");
}

TEST(PlantedHistories, lost_updates_are_found) {
  expect_found({add(1, 1, 1, {10, 30}), add(2, 1, 1, {20, 40})}, "leads to 1");
  expect_found({add(1, 1, 1, {10, 20}), add(2, 1, 2, {30, 40}), get(3, 1, {50, 60})}, "client 3: get() = 1");
  expect_found({set(1, 5, {10, 20}), get(2, 0, {30, 40})}, "get() = 0");
  expect_found({at_key(3, add(1, 1, 1, {10, 20})), at_key(4, add(1, 1, 1, {10, 20})), at_key(4, add(1, 1, 1, {30, 40}))}, "key 4: 1 of 2 operations");
}

TEST(PlantedHistories, adds_that_happened_twice_are_found) {
  expect_found({add(1, 1, 2, {10, 20})}, "key 0: 0 of 1 operations can be put in an order, which leads to 0; none of these can be the next:\n"
                                         "  client 1: add(1) = 2, from 0 to 10 ns");
  expect_found({add(1, 1, 1, {10, 20}), add(2, 1, unanswered, {30}), get(1, 3, {40, 50})}, "client 2: add(1), from 20 ns, without an answer");
  expect_found({add(1, 1, unanswered, {10}), add(2, 5, 6, {20, 30}), add(2, 5, 12, {40, 50})}, "add(5) = 12");
}

TEST(PlantedHistories, stale_reads_are_found) {
  expect_found({set(1, 5, {10, 20}), set(1, 6, {30, 40}), get(2, 5, {50, 60})}, "get() = 5");
  expect_found({set(1, 5, {10, 20}), set(2, 6, {30, 90}), get(3, 6, {40, 50}), get(4, 5, {60, 70})}, "client 4: get() = 5");  // another has seen it
}

TEST(PlantedHistories, values_that_were_taken_twice_are_found) {
  const StoreOperation first = set(1, 5, {10, 20});
  expect_found({first, compare_set(2, {5, 6, 6}, {30, 50}), compare_set(3, {5, 7, 7}, {30, 50})}, "compare_set(5, ");
  expect_found({first, compare_set(2, {5, 6, 6}, {30, 50}), compare_set(3, {5, 7, 5}, {30, 50})}, "compare_set(5, 7) = 5");  // it should have succeeded
  expect_found({first, compare_set(2, {4, 6, 6}, {30, 50})}, "compare_set(4, 6) = 6");
  expect_found({first, compare_set(2, {5, 6, unanswered}, {30}), get(1, 6, {40, 50}), compare_set(3, {5, 7, 7}, {60, 70})}, "compare_set(5, 7) = 7");
}

// As many as clients of a live test can leave behind, of which every other must be taken to have happened.
TEST(PlantedHistories, of_many_that_were_not_answered_are_searched_in_time) {
  History history;
  for (int64_t round = 0; round < 40; ++round) {
    history.push_back(add(1, 1, unanswered, {100 * round}));
    history.push_back(add(2, 1, unanswered, {100 * round + 1}));
    history.push_back(add(3, 1, 2 * round + 2, {100 * round + 10, 100 * round + 20}));
  }
  EXPECT_EQ(not_linearizable(history), "");
  history.push_back(get(4, 200, {4100, 4200}));
  expect_found(history, "get() = 200");
}

}  // namespace
}  // namespace unisono::testing
