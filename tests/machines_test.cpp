// Ranks on two machines: two network namespaces joined by a wire. The program is the same as on one; only the launcher's variables say where
// rank 0 is.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "tests/support/calls.hpp"
#include "tests/support/children.hpp"
#include "tests/support/losses.hpp"
#include "tests/support/machines.hpp"
#include "tests/support/outcomes.hpp"
#include "unisono/distributed.hpp"

namespace unisono::testing {
namespace {

const std::string a_secret(64, 'a'), another_secret(64, 'b');

struct Job {
  std::vector<int> machine_of_rank;
  std::vector<std::string> secret_of_rank = {};  // otherwise all have one
  int port = 29500;
  double join_timeout_s = 30;

  int ranks() const { return static_cast<int>(machine_of_rank.size()); }
};

// The variables of env://, as somebody would set them by hand on each machine.
void set_environment(const Job& job, int rank) {
  auto set = [](const char* name, const std::string& value) { setenv(name, value.c_str(), 1); };
  set("RANK", std::to_string(rank));
  set("WORLD_SIZE", std::to_string(job.ranks()));
  set("MASTER_ADDR", TwoMachines::address(job.machine_of_rank[0]));
  set("MASTER_PORT", std::to_string(job.port));
  set("UNISONO_JOIN_TIMEOUT", std::to_string(job.join_timeout_s));
  set("UNISONO_TIMEOUT", "30");
  const std::string& secret = job.secret_of_rank.empty() ? a_secret : job.secret_of_rank[static_cast<size_t>(rank)];
  secret.empty() ? unsetenv("UNISONO_SECRET") : setenv("UNISONO_SECRET", secret.c_str(), 1);
  setenv("HOME", "/nonexistent", 1);
}

class Machines : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = cannot_make_machines(); !why.empty()) GTEST_SKIP() << why;
    if (under_thread_sanitizer()) GTEST_SKIP() << "starts processes";
  }
};

void run(const Job& job, const std::function<void(int rank)>& body) {
  const TwoMachines machines;
  expect_all_succeeded(Children(job.ranks(), [&](int rank) {
    machines.enter(job.machine_of_rank[static_cast<size_t>(rank)]);
    set_environment(job, rank);
    distributed::init_process_group({});
    body(rank);
    distributed::destroy_process_group();
  }).wait());
}

void expect_sum(int rank, int ranks, size_t count) {
  std::vector<float> data(count, static_cast<float>(rank + 1));
  distributed::all_reduce(view(data), {});
  const auto sum = static_cast<float>(ranks * (ranks + 1) / 2);
  EXPECT_TRUE(std::ranges::all_of(data, [&](float value) { return value == sum; })) << data[0] << " instead of " << sum;
}

TEST_F(Machines, add_up_with_one_rank_each) {
  run({.machine_of_rank = {0, 1}}, [](int rank) {
    for (size_t count : {1, 1000, 3'000'000}) expect_sum(rank, 2, count);
  });
}

TEST_F(Machines, add_up_with_two_ranks_each_in_any_order) {
  for (const std::vector<int>& layout : {std::vector{0, 0, 1, 1}, {0, 1, 0, 1}, {1, 0, 0, 0}}) {
    run({.machine_of_rank = layout}, [](int rank) {
      for (size_t count : {1, 1000, 300'000}) expect_sum(rank, 4, count);
      EXPECT_EQ(distributed::get_world_size(distributed::new_group({1, 2})), rank == 1 || rank == 2 ? 2 : -1);
    });
  }
}

// Whoever comes again soon may meet what is left of the world before.
TEST_F(Machines, join_leave_and_join_again) {
  const TwoMachines machines;
  expect_all_succeeded(Children(3, [&](int rank) {
    const Job job{.machine_of_rank = {0, 1, 1}};
    machines.enter(job.machine_of_rank[static_cast<size_t>(rank)]);
    for (int round = 0; round < 4; ++round) {
      set_environment(job, rank);
      distributed::init_process_group({});
      if (round % 2 == 1) expect_sum(rank, 3, 100);  // in the others nobody waits for anybody
      distributed::destroy_process_group();
    }
  }).wait());
}

TEST_F(Machines, meet_at_an_address_in_the_program) {
  const TwoMachines machines;
  expect_all_succeeded(Children(2, [&](int rank) {
    machines.enter(rank);
    set_environment({.machine_of_rank = {0, 1}}, rank);
    for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) unsetenv(name);
    for (const std::string& place : {TwoMachines::address(0) + ":29501", fmt::format("[{}]:29502", TwoMachines::address6(0))}) {
      distributed::init_process_group({.rank = rank, .world_size = 2, .init_method = "tcp://" + place});
      expect_sum(rank, 2, 1000);
      distributed::destroy_process_group();
    }
  }).wait());
}

TEST_F(Machines, listen_at_no_address_but_their_own) {
  run({.machine_of_rank = {0, 1}}, [](int rank) {
    expect_sum(rank, 2, 10);
    for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
      std::ifstream sockets(table);
      for (std::string line; std::getline(sockets, line);) {
        const bool listens = line.find(" 0A ") != std::string::npos;
        EXPECT_FALSE(listens && (line.find(": 00000000:") != std::string::npos || line.find(": 00000000000000000000000000000000:") != std::string::npos)) << line;
      }
    }
    distributed::barrier({});
  });
}

TEST_F(Machines, tell_of_a_killed_rank) {
  const Job job{.machine_of_rank = {0, 1}};
  const TwoMachines machines;
  Outcomes outcomes(2);
  SharedArray<Signs> signs(1);
  Children children(2, [&](int rank) {
    machines.enter(job.machine_of_rank[static_cast<size_t>(rank)]);
    set_environment(job, rank);
    distributed::init_process_group({});
    expect_sum(rank, 2, 10);
    signs[0].ready += 1;
    if (rank == 1) await([&] { return signs[0].go == 1; });
    outcomes.note(rank, [&] { expect_sum(rank, 2, 10); });
  });
  ASSERT_TRUE(await([&] { return signs[0].ready == 2; }));
  children.await_asleep(0);
  const int64_t killed_ns = children.kill_together({1});
  children.wait();
  expect_lost(outcomes.of(0), {1});
  EXPECT_NE(outcomes.of(0).text().find(" on two)"), std::string::npos) << outcomes.of(0).text();
  EXPECT_LT(seconds_between(killed_ns, outcomes.of(0).ended_ns), 2) << outcomes.of(0).text();
}

// Who has seen how it ended is on its machine, and in no call of this group.
TEST_F(Machines, tell_how_a_rank_was_killed_that_only_its_neighbour_saw) {
  const Job job{.machine_of_rank = {0, 1, 1}};
  const TwoMachines machines;
  Outcomes outcomes(3);
  SharedArray<Signs> signs(1);
  Children children(3, [&](int rank) {
    machines.enter(job.machine_of_rank[static_cast<size_t>(rank)]);
    set_environment(job, rank);
    distributed::init_process_group({});
    const auto group = distributed::new_group({0, 1});
    distributed::barrier({});
    signs[0].ready += 1;
    if (rank == 0) outcomes.note(rank, [&] { distributed::barrier({.group = group}); });
    if (rank == 0) signs[0].go = 1;
    EXPECT_TRUE(await([&] { return signs[0].go == 1; }));
  });
  ASSERT_TRUE(await([&] { return signs[0].ready == 3; }));
  children.await_asleep(0);
  const int64_t killed_ns = children.kill_together({1});
  children.wait();
  expect_lost(outcomes.of(0), {1});
  EXPECT_NE(outcomes.of(0).text().find("was killed by signal 9"), std::string::npos) << outcomes.of(0).text();
  EXPECT_LT(seconds_between(killed_ns, outcomes.of(0).ended_ns), 1) << outcomes.of(0).text();
}

// What each rank hears when joining cannot be.
Outcomes join_in_vain(const Job& job) {
  const TwoMachines machines;
  Outcomes outcomes(job.ranks());
  Children(job.ranks(), [&](int rank) {
    machines.enter(job.machine_of_rank[static_cast<size_t>(rank)]);
    set_environment(job, rank);
    outcomes.note(rank, [&] { distributed::init_process_group({}); });
  }).wait();
  return outcomes;
}

TEST_F(Machines, refuse_another_secret) {
  const Outcomes outcomes = join_in_vain({.machine_of_rank = {0, 1}, .secret_of_rank = {a_secret, another_secret}, .join_timeout_s = 3});
  EXPECT_EQ(outcomes.of(1).code, ErrorCode::auth) << outcomes.of(1).text();
  EXPECT_NE(outcomes.of(1).text().find("secret does not match"), std::string::npos) << outcomes.of(1).text();
  EXPECT_LT(outcomes.of(1).took_s(), 1) << outcomes.of(1).text();
  EXPECT_EQ(outcomes.of(0).code, ErrorCode::init) << outcomes.of(0).text();
  EXPECT_NE(outcomes.of(0).text().find("missing: 1"), std::string::npos) << outcomes.of(0).text();
}

TEST_F(Machines, refuse_to_start_without_a_secret_and_say_both_remedies) {
  const Outcomes outcomes = join_in_vain({.machine_of_rank = {0, 1}, .secret_of_rank = {"", ""}});
  for (int rank : {0, 1}) {
    EXPECT_EQ(outcomes.of(rank).code, ErrorCode::auth) << outcomes.of(rank).text();
    for (const char* remedy : {"unisono secret new", "UNISONO_SECRET_FILE"})
      EXPECT_NE(outcomes.of(rank).text().find(remedy), std::string::npos) << outcomes.of(rank).text();
    EXPECT_LT(outcomes.of(rank).took_s(), 1) << outcomes.of(rank).text();
  }
}

}  // namespace
}  // namespace unisono::testing
