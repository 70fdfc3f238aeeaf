// How ranks of several machines meet: by a store that rank 0 serves, or by one that the user gives; and what they hear when it cannot be.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "base/hash.hpp"
#include "rendezvous/tcp_store.hpp"
#include "rendezvous/trust_for.hpp"
#include "tests/support/calls.hpp"
#include "tests/support/children.hpp"
#include "tests/support/losses.hpp"
#include "tests/support/machines.hpp"
#include "tests/support/outcomes.hpp"
#include "unisono/binding.hpp"
#include "unisono/distributed.hpp"

namespace unisono::testing {
namespace {

using distributed::Store;
using distributed::TCPStore;

constexpr int port = 29500, store_port = 29400;
const std::string a_secret(64, 'a');

struct Place {
  int machine, rank, size;
};

void set_variable(const char* name, const std::string& value) { setenv(name, value.c_str(), 1); }

// As somebody would set them by hand on each machine; rank 0 is on the first.
void enter(const TwoMachines& machines, const Place& place, double join_timeout_s = 30) {
  machines.enter(place.machine);
  set_variable("RANK", std::to_string(place.rank));
  set_variable("WORLD_SIZE", std::to_string(place.size));
  set_variable("MASTER_ADDR", TwoMachines::address(0));
  set_variable("MASTER_PORT", std::to_string(port));
  set_variable("UNISONO_JOIN_TIMEOUT", std::to_string(join_timeout_s));
  set_variable("UNISONO_TIMEOUT", "30");
  set_variable("UNISONO_SECRET", a_secret);
  set_variable("HOME", "/nonexistent");
}

class Meeting : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = cannot_make_machines(); !why.empty()) GTEST_SKIP() << why;
    if (under_thread_sanitizer()) GTEST_SKIP() << "starts processes";
  }
};

// Where time itself is what is tried.
void let_pass(double seconds) {
  const Deadline deadline = Deadline::in_seconds(seconds);
  EXPECT_TRUE(await([&] { return deadline.passed(); }));
}

void expect_sum(int rank, int ranks) {
  std::vector<int64_t> data(100, rank + 1);
  distributed::all_reduce(view(data));
  EXPECT_EQ(data[99], ranks * (ranks + 1) / 2);
}

void expect_says(const Outcome& outcome, ErrorCode code, const std::vector<std::string>& words) {
  EXPECT_EQ(outcome.code, code) << outcome.text();
  for (const std::string& word : words) EXPECT_NE(outcome.text().find(word), std::string::npos) << outcome.text() << "\nshould say " << word;
}

// Everybody joins under env://, and what each hears.
Outcomes join_all(const std::vector<Place>& places, double join_timeout_s = 20) {
  const TwoMachines machines;
  Outcomes outcomes(static_cast<int>(places.size()));
  Children(outcomes.ranks(), [&](int index) {
    enter(machines, places[static_cast<size_t>(index)], join_timeout_s);
    outcomes.note(index, [&] { distributed::init_process_group({}); });
  }).wait();
  return outcomes;
}

std::shared_ptr<TCPStore> open_store(bool is_master) {
  return std::make_shared<TCPStore>(TwoMachines::address(0), store_port, distributed::TCPStoreOptions{.is_master = is_master});
}

void wait_for_all(Store& store, const std::string& what, int rank, int ranks) {
  store.set(fmt::format("{} {}", what, rank), "");
  std::vector<std::string> keys;
  for (int other = 0; other < ranks; ++other) keys.push_back(fmt::format("{} {}", what, other));
  store.wait(keys);
}

// A store of the user's serves for several machines, world after world, and does not grow.
TEST_F(Meeting, a_store_that_is_given_brings_machines_together_and_is_left_as_it_was) {
  constexpr int ranks = 4;
  const int rounds = small_run() ? 5 : full_run() ? 100 : 30;
  const TwoMachines machines;
  expect_all_succeeded(Children(ranks, [&](int rank) {
    enter(machines, {rank % 2, rank, ranks});
    auto store = open_store(rank == 0);
    auto part = std::make_shared<distributed::PrefixStore>("part", store);
    for (int round = 0; round < rounds; ++round) {
      distributed::init_process_group({.rank = rank, .world_size = ranks, .store = part});
      if (round % 10 == 0) expect_sum(rank, ranks);
      distributed::destroy_process_group();
    }
    wait_for_all(*store, "done", rank, ranks);
    if (rank == 0) {
      EXPECT_TRUE(await([&] { return store->num_keys() == 3 * ranks; }, 10)) << store->num_keys();  // how many worlds each has joined, where it was in the last, and those just set
      store->set("seen", "");
      store->wait({"left 1", "left 2", "left 3"});  // until then they need it
    } else {
      store->wait({"seen"});
      store->set(fmt::format("left {}", rank), "");
    }
  }).wait());
}

TEST_F(Meeting, two_machines_that_claim_one_rank_are_named_both) {
  const Outcomes outcomes = join_all({{0, 0, 3}, {0, 1, 3}, {1, 1, 3}});
  for (int index = 0; index < 3; ++index) {
    expect_says(outcomes.of(index), ErrorCode::init, {"two processes call themselves rank 1", "on one", "on two", "pid "});
    EXPECT_LT(outcomes.of(index).took_s(), 4) << outcomes.of(index).text();
  }
}

TEST_F(Meeting, world_sizes_that_differ_are_told_with_both_claimants) {
  const Outcomes outcomes = join_all({{0, 0, 2}, {1, 1, 3}});
  for (int index = 0; index < 2; ++index) {
    expect_says(outcomes.of(index), ErrorCode::init, {"says there are 3 ranks", "on two", "on one", "says 2"});
    EXPECT_LT(outcomes.of(index).took_s(), 4) << outcomes.of(index).text();
  }
}

// The agent of another version is played by the test, which says what such a one would: the version comes first, whatever follows.
TEST_F(Meeting, another_version_on_another_machine_is_named) {
  const TwoMachines machines;
  Outcomes outcomes(1);
  expect_all_succeeded(Children(2, [&](int rank) {
    enter(machines, {rank, rank, 2});
    if (rank == 0) {
      outcomes.note(0, [] { distributed::init_process_group({}); });
      return;
    }
    const std::string place = fmt::format("{}:{}", TwoMachines::address(0), port);
    auto found = find_place({place, "MASTER_ADDR"}, Deadline::in_seconds(5), {});
    auto trust = trust_for("env:// " + place, found->addresses.front());
    ASSERT_TRUE(trust.ok()) << trust.status().text();
    auto store = make_tcp_store({.host = TwoMachines::address(0), .port = port, .options = {.timeout_s = 20}, .trust = *trust, .rank = 1});
    ASSERT_TRUE(store.ok()) << store.status().text();
    (*store)->set("unisono/meeting/seats/1", "9.9.9 and what else that version may say");
    EXPECT_TRUE(await([&] { return (*store)->check({"unisono/meeting/gave_up/0"}); }, 10));
  }).wait());
  expect_says(outcomes.of(0), ErrorCode::version, {"rank 1 on another machine speaks 9.9.9", "rank 0 (pid", "speaks " UNISONO_VERSION});
}

int connections_to_the_store() {
  int count = 0;
  std::ifstream sockets("/proc/net/tcp");
  const std::string here = fmt::format(":{:04X} ", port);
  for (std::string line; std::getline(sockets, line);) {
    const size_t local = line.find(": ");
    count += local != line.npos && line.substr(local + 2, 14).ends_with(here) && line.find(" 01 ") != line.npos;
  }
  return count;
}

// Rank 1 has left a world and comes again while rank 0 is still about to end the store of that one, whose meeting is over.
TEST_F(Meeting, a_rank_that_comes_again_too_soon_waits_for_the_next_store) {
  const TwoMachines machines;
  SharedArray<Signs> signs(1);
  expect_all_succeeded(Children(2, [&](int rank) {
    enter(machines, {rank, rank, 2});
    if (rank == 0) {
      const std::string place = fmt::format("{}:{}", TwoMachines::address(0), port);
      auto trust = trust_for("env:// " + place, find_place({place, "MASTER_ADDR"}, Deadline::in_seconds(5), {})->addresses.front());
      ASSERT_TRUE(trust.ok()) << trust.status().text();
      auto old = make_tcp_store({.host = TwoMachines::address(0), .port = port, .options = {.is_master = true}, .trust = *trust, .rank = 0});
      ASSERT_TRUE(old.ok()) << old.status().text();
      (*old)->set("unisono/meeting/complete/0", "the digest of a world that was");
      signs[0].go = 1;
      EXPECT_TRUE(await([] { return connections_to_the_store() >= 2; }));
      let_pass(0.3);
    }
    if (rank == 1) { ASSERT_TRUE(await([&] { return signs[0].go == 1; })); }  // before that the store is not over
    distributed::init_process_group({});
    expect_sum(rank, 2);
    distributed::destroy_process_group();
  }).wait());
}

TEST_F(Meeting, a_store_that_starts_late_is_waited_for) {
  const TwoMachines machines;
  SharedArray<Signs> signs(1);
  expect_all_succeeded(Children(2, [&](int rank) {
    enter(machines, {rank, rank, 2});
    if (rank == 1) signs[0].ready = 1;
    if (rank == 0) {
      EXPECT_TRUE(await([&] { return signs[0].ready == 1; }));
      let_pass(2);  // that nobody is there for so long is what is tried
    }
    distributed::init_process_group({});
    expect_sum(rank, 2);
    distributed::destroy_process_group();
  }).wait());
}

// Under what the first world of a store is being made.
std::string meeting_in(Store& store) { return fmt::format("unisono/meeting/{:016x}", hash_text(store.get("unisono/world/1/name"))); }

// The master of a store in a process of its own; ranks 0 and 1 of `size` join by it, and `then` happens when they have met it.
Outcomes join_by_mortal_store(int size, const std::function<void(int rank, const Outcomes&)>& joined, const std::function<void(Children&, Signs&)>& then) {
  const TwoMachines machines;
  SharedArray<Signs> signs(1);
  Outcomes outcomes(2, 2);
  Children children(3, [&](int index) {
    if (index == 2) {
      machines.enter(0);
      set_variable("UNISONO_SECRET", a_secret);
      const auto store = open_store(true);
      signs[0].ready += 1;
      const std::string meeting = meeting_in(*store);
      if (size > 2) store->wait({meeting + "/seats/0", meeting + "/seats/1"});
      signs[0].rounds = 1;
      for (;;) pause();
    }
    enter(machines, {index, index, size});
    auto store = open_store(false);
    outcomes.note(index, [&] { distributed::init_process_group({.rank = index, .world_size = size, .store = store}); });
    if (outcomes.of(index).code != ErrorCode::ok) return;
    signs[0].ready += 1;
    EXPECT_TRUE(await([&] { return signs[0].go == 1; }));
    joined(index, outcomes);
  });
  then(children, signs[0]);
  children.kill(2);
  children.wait();
  return outcomes;
}

TEST_F(Meeting, a_store_that_dies_while_ranks_join_is_an_error_on_all) {
  int64_t killed_ns = 0;
  const Outcomes outcomes = join_by_mortal_store(3, [](int, const Outcomes&) {}, [&](Children& children, Signs& signs) {
    EXPECT_TRUE(await([&] { return signs.rounds == 1; }));
    killed_ns = children.kill_together({2});
  });
  for (int rank : {0, 1}) {
    expect_says(outcomes.of(rank), ErrorCode::init, {"the store by which the ranks meet", "is gone"});
    EXPECT_LT(seconds_between(killed_ns, outcomes.of(rank).ended_ns), 5) << outcomes.of(rank).text();
  }
}

TEST_F(Meeting, a_store_that_dies_afterwards_leaves_the_world_as_it_is) {
  const Outcomes outcomes = join_by_mortal_store(
      2,
      [](int rank, const Outcomes& all) {
        all.note(rank, 1, [&] {
          expect_sum(rank, 2);
          const auto group = distributed::new_group({0, 1});
          distributed::barrier({.group = group});
        });
      },
      [&](Children& children, Signs& signs) {
        EXPECT_TRUE(await([&] { return signs.ready == 3; }));
        children.kill_together({2});
        signs.go = 1;
      });
  for (int rank : {0, 1})
    for (int round : {0, 1}) EXPECT_TRUE(outcomes.of(rank, round).was_made() && outcomes.of(rank, round).code == ErrorCode::ok) << outcomes.of(rank, round).text();
}

// Whoever can write into the store writes 8 MiB of noise where the other machine's agent would say who is there.
TEST_F(Meeting, noise_in_the_store_is_an_error_and_nobody_is_connected_to) {
  const TwoMachines machines;
  Outcomes outcomes(1);
  expect_all_succeeded(Children(2, [&](int index) {
    enter(machines, {index, index, 2});
    auto store = open_store(index == 0);
    if (index == 0) {
      outcomes.note(0, [&] { distributed::init_process_group({.rank = 0, .world_size = 2, .store = store}); });
      EXPECT_TRUE(await([&] { return store->check({"done"}); }));
      return;
    }
    store->set(meeting_in(*store) + "/seats/1", std::string(size_t{8} << 20, '\xff'));
    EXPECT_TRUE(await([&] { return outcomes.of(0).was_made(); }, 10));
    store->set("done", "");
  }).wait());
  expect_says(outcomes.of(0), ErrorCode::init, {"the store holds something else than what an agent says of rank 1"});
  EXPECT_LT(outcomes.of(0).took_s(), 5);
}

TEST_F(Meeting, only_one_rank_of_each_machine_talks_to_the_store) {
  constexpr int ranks = 8;  // the last of which is held back, so that the others wait for it
  const TwoMachines machines;
  SharedArray<Signs> signs(1);
  expect_all_succeeded(Children(ranks, [&](int rank) {
    enter(machines, {rank % 2, rank, ranks});
    if (rank == ranks - 1) { EXPECT_TRUE(await([&] { return signs[0].go == 1; })); }
    if (rank != ranks - 2) {
      distributed::init_process_group({});
      expect_sum(rank, ranks);
      distributed::destroy_process_group();
      return;
    }
    EXPECT_TRUE(await([] { return connections_to_the_store() >= 2; }));
    std::thread looks([&] {
      let_pass(0.5);  // for those that must not come
      EXPECT_LE(connections_to_the_store(), 3);  // rank 0 itself, and an agent of each machine
      signs[0].go = 1;
    });
    distributed::init_process_group({});
    expect_sum(rank, ranks);
    distributed::destroy_process_group();
    looks.join();
  }).wait());
}

std::atomic<bool> is_interrupted{false};

TEST_F(Meeting, an_interruption_is_heard_while_the_store_is_out_of_reach) {
  const TwoMachines machines;
  Outcomes outcomes(1);
  SharedArray<Signs> signs(1);
  expect_all_succeeded(Children(2, [&](int index) {
    enter(machines, {index, index, 2});
    if (index == 0) {
      auto store = open_store(true);
      store->set("unisono/world/1/name", "store " + std::string(32, '0'));
      EXPECT_TRUE(await([&] { return signs[0].go == 1; }));
      return;
    }
    auto store = open_store(false);
    std::thread interrupts([&] {
      store->wait({meeting_in(*store) + "/seats/1"});
      machines.cut_wire();
      let_pass(0.7);  // so that a question is on its way
      signs[0].killed_ns = now_ns();
      is_interrupted = true;
    });
    set_interrupt_check([] { return is_interrupted.load(); });
    outcomes.note(0, [&] { distributed::init_process_group({.rank = 1, .world_size = 2, .store = store}); });
    interrupts.join();
    signs[0].go = 1;
  }).wait());
  expect_says(outcomes.of(0), ErrorCode::revoked, {"interrupted"});
  EXPECT_LT(seconds_between(signs[0].killed_ns, outcomes.of(0).ended_ns), 2);
}

}  // namespace
}  // namespace unisono::testing
