// Meeting by stores that other machines could reach, where all ranks are on one; stores that cannot be reached from elsewhere; many ranks.
#include <fmt/format.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <thread>

#include "group/launch.hpp"
#include "rendezvous/roster.hpp"
#include "tests/support/calls.hpp"
#include "tests/support/children.hpp"
#include "tests/support/outcomes.hpp"
#include "unisono/distributed.hpp"

namespace unisono::testing {
namespace {

using distributed::Store;

// A store that counts what it is asked.
class CountingStore : public distributed::HashStore {
 public:
  distributed::StoreReach reach() const override { return {true, "127.0.0.1"}; }
  Result<std::vector<distributed::StoreAnswer>> perform(const std::vector<distributed::StoreRequest>& requests) override {
    ++asked;
    return HashStore::perform(requests);
  }
  Result<std::vector<std::string>> await_values(const std::vector<std::string>& keys, double timeout_s) override {
    ++asked;
    return HashStore::await_values(keys, timeout_s);
  }
  std::atomic<int> asked{0};
};

std::shared_ptr<World> join_as_thread(const std::shared_ptr<Store>& store, int rank, int size) {
  auto world = launch({.rank = rank, .size = size, .job = {}, .timeout_s = 30, .store = store}, {});
  EXPECT_TRUE(world.ok()) << world.status().text();
  return world.ok() ? *world : nullptr;
}

// On one machine a store that reaches others changes nothing: no port, no secret, and nothing is left in it.
TEST(MeetingOnOneMachine, needs_no_more_of_a_store_and_new_groups_ask_it_nothing) {
  constexpr int size = 3;
  auto store = std::make_shared<CountingStore>();
  std::vector<std::thread> threads;
  std::vector<std::shared_ptr<World>> worlds(size);
  for (int rank = 0; rank < size; ++rank) threads.emplace_back([&, rank] { worlds[static_cast<size_t>(rank)] = join_as_thread(store, rank, size); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& world : worlds) ASSERT_TRUE(world);
  EXPECT_TRUE(await([&] { return store->num_keys() == size; })) << store->num_keys();
  const int asked = store->asked;
  threads.clear();
  for (const auto& world : worlds)
    threads.emplace_back([&] {
      for (int round = 0; round < 10; ++round) EXPECT_TRUE(world->create_group(fmt::format("group {}", round), {0, 1, 2}).ok());
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(store->asked, asked);
  for (const auto& world : worlds) world->leave();
}

TEST(MeetingOnOneMachine, what_cannot_reach_others_says_so) {
  auto alone = launch({.rank = 0, .size = 2, .job = {}, .timeout_s = 0.1, .store = std::make_shared<distributed::HashStore>()}, {});
  ASSERT_FALSE(alone.ok());
  EXPECT_NE(alone.status().text().find("brings together ranks of one machine"), std::string::npos) << alone.status().text();
  const std::string path = fmt::format("/tmp/unisono_meeting_test_{}", getpid());
  for (int rank : {0, 1}) {
    auto by_file = launch({.rank = rank, .size = 2, .job = {}, .timeout_s = 0.1, .init_method = "file://" + path}, {});
    ASSERT_FALSE(by_file.ok());
    EXPECT_NE(by_file.status().text().find("file:// brings together ranks of one machine"), std::string::npos) << by_file.status().text();
  }
  unlink(path.c_str());
}

TEST(MeetingOnOneMachine, stores_say_who_can_reach_them) {
  using namespace distributed;
  EXPECT_FALSE(HashStore().reach().other_machines);
  const auto tcp = std::make_shared<TCPStore>("127.0.0.1", 0, TCPStoreOptions{.is_master = true});
  EXPECT_TRUE(PrefixStore("part", tcp).reach().other_machines);
  EXPECT_EQ(PrefixStore("part", tcp).reach().host, "127.0.0.1");
}

// As an ordinary user with the usual thousand descriptors, by the variables that somebody would set by hand.
TEST(MeetingOnOneMachine, takes_256_ranks_of_an_ordinary_user_less_than_twenty_seconds) {
  if (under_thread_sanitizer()) GTEST_SKIP() << "starts processes";
  const int ranks = full_run() ? 256 : 24;
  constexpr uid_t nobody = 65534;
  const std::string job = unique_job();
  Outcomes outcomes(ranks);
  expect_all_succeeded(Children(ranks, [&](int rank) {
    const rlimit few = {1024, 1024};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    if (geteuid() == 0) { EXPECT_TRUE(setgroups(0, nullptr) == 0 && setresgid(nobody, nobody, nobody) == 0 && setresuid(nobody, nobody, nobody) == 0); }
    setenv("RANK", std::to_string(rank).c_str(), 1);
    setenv("WORLD_SIZE", std::to_string(ranks).c_str(), 1);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("MASTER_PORT", "29500", 1);  // which nobody listens at
    setenv("UNISONO_JOB", job.c_str(), 1);
    outcomes.note(rank, [] {
      distributed::init_process_group({});
      distributed::barrier();
    });
    EXPECT_EQ(outcomes.of(rank).code, ErrorCode::ok) << outcomes.of(rank).text();
    distributed::destroy_process_group();
  }, 100).wait());
  EXPECT_LT(outcomes.took_s(), 20);
}

// Every text that is not exactly a seat is none, whatever its length.
TEST(Seats, are_read_as_they_were_written_and_not_otherwise) {
  const Seat seat{4, 1, 77, 0xabc, 0xdef, "two", 0, false, 1, 0, "10.0.0.1:5"};
  const auto again = Seat::parse(seat.text());
  ASSERT_TRUE(again);
  EXPECT_EQ(again->text(), seat.text());
  EXPECT_TRUE(Seat::parse(Seat{4, 1, 77, 0xabc, 0xdef, "two", 0, false, 1, 0, ""}.text()));
  for (const std::string& text : {seat.text() + std::string(300, ' '), std::string(), std::string("1"), " " + seat.text(), seat.text().substr(0, 12),
                                  Seat{4, 1, 77, 0xabc, 0xdef, std::string(65, 'x'), 0, false, 1, 0, ""}.text(), Seat{4, 1, 77, 0xabc, 0xdef, "\x1b[2J", 0, false, 1, 0, ""}.text()})
    EXPECT_FALSE(Seat::parse(text)) << text;
}

}  // namespace
}  // namespace unisono::testing
