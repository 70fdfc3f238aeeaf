// A job of ranks on machines, started as somebody would by hand on each: the variables of env:// and the secret.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/support/children.hpp"
#include "tests/support/machines.hpp"
#include "unisono/distributed.hpp"

namespace unisono::testing {

// Tests that make machines; skipped with the reason where there can be none.
class OnMachines : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = cannot_make_machines(); !why.empty()) GTEST_SKIP() << why;
    if (under_thread_sanitizer()) GTEST_SKIP() << "starts processes";
  }
};

struct MachineJob {
  std::vector<int> machine_of_rank = {0, 1};
  std::map<std::string, std::string> variables = {};  // besides

  int ranks() const { return static_cast<int>(machine_of_rank.size()); }
};

// The calling process becomes that rank's: on its machine, with its variables.
inline void become_rank(const TestMachines& machines, const MachineJob& job, int rank) {
  machines.enter(job.machine_of_rank[static_cast<size_t>(rank)]);
  std::map<std::string, std::string> all = {{"RANK", std::to_string(rank)},
                                            {"WORLD_SIZE", std::to_string(job.ranks())},
                                            {"MASTER_ADDR", TestMachines::address(job.machine_of_rank[0])},
                                            {"MASTER_PORT", "29500"},
                                            {"UNISONO_JOIN_TIMEOUT", "30"},
                                            {"UNISONO_TIMEOUT", "30"},
                                            {"UNISONO_SECRET", std::string(64, 'a')},
                                            {"HOME", "/nonexistent"}};
  for (const auto& [name, value] : job.variables) all[name] = value;
  for (const auto& [name, value] : all) setenv(name.c_str(), value.c_str(), 1);
}

// Every rank joins, does this, and leaves; within a minute.
inline void run_job(const TestMachines& machines, const MachineJob& job, const std::function<void(int rank)>& body) {
  Children children(job.ranks(), [&](int rank) {
    become_rank(machines, job, rank);
    distributed::init_process_group({});
    body(rank);
    distributed::destroy_process_group();
  }, 60);
  expect_all_succeeded(children.wait());
}

inline void expect_sum(int rank, int ranks, size_t count) {
  std::vector<float> data(count, static_cast<float>(rank + 1));
  distributed::all_reduce(view(data), {});
  const auto sum = static_cast<float>(ranks * (ranks + 1) / 2);
  EXPECT_TRUE(std::ranges::all_of(data, [&](float value) { return value == sum; })) << data[0] << " instead of " << sum;
}

}  // namespace unisono::testing
