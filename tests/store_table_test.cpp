// What a TCPStore's server holds: its bounds, and who is woken by what.
#include "rendezvous/store_table.hpp"

#include <gtest/gtest.h>

#include "rendezvous/store_frames.hpp"

namespace unisono {
namespace {

using distributed::StoreRequest;
using Kind = StoreRequest::Kind;

Status set(StoreTable& table, const std::string& key, const std::string& value = "v") {
  return table.perform({{.kind = Kind::set, .key = key, .value = value}}).status();
}

std::vector<uint64_t> woken(StoreTable& table) {
  std::vector<uint64_t> ids;
  for (const auto& waiter : table.take_woken()) ids.push_back(waiter.waiter);
  return ids;
}

using Ids = std::vector<uint64_t>;

TEST(StoreTable, wakes_those_who_have_all_their_keys) {
  StoreTable table;
  EXPECT_TRUE(*table.await(1, {}));
  EXPECT_FALSE(*table.await(1, {"a"}));
  EXPECT_FALSE(*table.await(2, {"a", "b"}));
  EXPECT_FALSE(*table.await(3, {"b", "a"}));
  EXPECT_TRUE(set(table, "a").ok());
  EXPECT_EQ(woken(table), Ids({1}));
  EXPECT_EQ(table.missing(2), std::vector<uint32_t>({1}));
  EXPECT_TRUE(set(table, "b").ok());
  EXPECT_EQ(woken(table).size(), 2u);
  EXPECT_EQ(woken(table), Ids());
}

// A key that was there while another was awaited is gone when that one comes.
TEST(StoreTable, does_not_wake_before_all_are_there_at_once) {
  StoreTable table;
  EXPECT_FALSE(*table.await(1, {"a", "b"}));
  EXPECT_TRUE(set(table, "a").ok());
  EXPECT_TRUE(table.perform({{.kind = Kind::delete_key, .key = "a"}}).ok());
  EXPECT_TRUE(set(table, "b").ok());
  EXPECT_EQ(woken(table), Ids());
  EXPECT_EQ(table.missing(1), std::vector<uint32_t>({0}));
  EXPECT_TRUE(set(table, "a").ok());
  EXPECT_EQ(woken(table), Ids({1}));
  EXPECT_FALSE(*table.await(1, {"c"}));
  EXPECT_TRUE(table.perform({{.kind = Kind::set, .key = "c"}, {.kind = Kind::delete_key, .key = "c"}}).ok());
  EXPECT_EQ(woken(table), Ids());
}

TEST(StoreTable, forgets_who_no_longer_waits) {
  StoreTable table;
  EXPECT_FALSE(*table.await(1, {"a"}));
  EXPECT_FALSE(*table.await(2, {"a"}));
  table.forget(1);
  table.forget(7);
  EXPECT_TRUE(set(table, "a").ok());
  EXPECT_EQ(woken(table), Ids({2}));
  table.forget(2);
}

TEST(StoreTable, answers_those_who_wait_for_the_same_with_the_same) {
  StoreTable table;
  for (uint64_t id = 1; id <= 3; ++id) EXPECT_FALSE(*table.await(id, {"a"}));
  EXPECT_TRUE(set(table, "a", "shared").ok());
  const auto all = table.take_woken();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].values, all[2].values);
  EXPECT_EQ(*all[0].values, std::vector<std::string>({"shared"}));
}

TEST(StoreTable, takes_so_many_keys) {
  StoreTable table({.keys = 2});
  EXPECT_TRUE(set(table, "a").ok());
  EXPECT_TRUE(set(table, "b").ok());
  EXPECT_EQ(set(table, "c").code(), ErrorCode::resource);
  EXPECT_EQ(table.perform({{.kind = Kind::add, .key = "c", .amount = 1}}).status().code(), ErrorCode::resource);
  EXPECT_TRUE(set(table, "b", "other").ok());
  EXPECT_TRUE(table.perform({{.kind = Kind::delete_key, .key = "a"}}).ok());
  EXPECT_TRUE(set(table, "c").ok());
}

TEST(StoreTable, takes_so_many_bytes_and_gives_them_back) {
  StoreTable table({.bytes = 1000});
  EXPECT_TRUE(set(table, "a", std::string(500, 'x')).ok());
  EXPECT_EQ(set(table, "b", std::string(500, 'x')).code(), ErrorCode::resource);
  EXPECT_EQ(table.perform({{.kind = Kind::append, .key = "a", .value = std::string(500, 'x')}}).status().code(), ErrorCode::resource);
  EXPECT_EQ(table.bytes(), 1 + 500 + 64);
  EXPECT_TRUE(set(table, "a", "").ok());
  EXPECT_TRUE(set(table, "b", std::string(500, 'x')).ok());
  EXPECT_TRUE(table.perform({{.kind = Kind::delete_key, .key = "a"}, {.kind = Kind::delete_key, .key = "b"}}).ok());
  EXPECT_EQ(table.bytes(), 0);
}

TEST(StoreTable, keeps_values_as_short_as_a_frame_can_carry) {
  StoreTable table;
  const std::string largest(most_value_bytes, 'x');
  EXPECT_TRUE(set(table, "a", largest).ok());
  EXPECT_EQ(table.perform({{.kind = Kind::append, .key = "a", .value = "x"}}).status().code(), ErrorCode::resource);
  const std::vector<std::string> five(5, "a");
  EXPECT_EQ(table.await(1, five).status().code(), ErrorCode::resource);
  EXPECT_EQ(table.perform(std::vector<StoreRequest>(5, {.key = "a"})).status().code(), ErrorCode::resource);
  std::vector<std::string> six = five;
  six.push_back("late");
  EXPECT_FALSE(*table.await(1, six));
  EXPECT_TRUE(set(table, "late").ok());
  const auto all = table.take_woken();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_FALSE(all[0].values);
}

}  // namespace
}  // namespace unisono
