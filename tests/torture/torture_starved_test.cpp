// Ranks that hardly ever run: eight processes beside them compute without end. Slow is not dead: no rank is declared lost, no
// machine silent, no deadline passes, every number is right.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/losses.hpp"
#include "tests/support/machine_job.hpp"
#include "tests/torture/rounds.hpp"

namespace unisono::testing {
namespace {

constexpr int busy_processes = 8, ranks_beside = 4;

// As long as this object lives.
class BusyProcesses {
 public:
  explicit BusyProcesses(double patience_s)
      : children_(busy_processes, [this](int index) {
          while (over_[0] == 0) turns_[index] += 1;
        }, patience_s) {
    EXPECT_TRUE(await([&] {
      int64_t started = 0;
      for (int index = 0; index < busy_processes; ++index) started += turns_[index] > 0;
      return started == busy_processes;
    }));
  }
  ~BusyProcesses() {
    over_[0] = 1;
    expect_all_succeeded(children_.wait());
  }
  BusyProcesses(const BusyProcesses&) = delete;

 private:
  SharedArray<std::atomic<int>> over_{1};
  SharedArray<std::atomic<int64_t>> turns_{busy_processes};
  Children children_;
};

void call_on_every_path(int rank, const GroupHandle& group) {
  for (int64_t count : {1, 3000, 20'000, 300'000}) {
    std::vector<int32_t> data(static_cast<size_t>(count), 1 + rank);
    distributed::all_reduce(view(data), {.group = group});
    if (data != std::vector<int32_t>(data.size(), ranks_beside * (ranks_beside + 1) / 2)) ADD_FAILURE() << count << " are wrong";
  }
}

// Rank 0 says so, to all.
bool goes_on(int rank, const GroupHandle& group, bool wanted) {
  std::vector<int32_t> said = {rank == 0 && wanted && !::testing::Test::HasFailure()};
  distributed::broadcast(view(said), {.group = group});
  return said[0] != 0;
}

TEST(Torture, of_starved_ranks) {
  const double patience_s = Progress("starved").patience_s();
  const BusyProcesses busy(patience_s);
  WorldChoice choice{.size = ranks_beside};
  choice.settings.timeout_s = 30;
  Children children(ranks_beside, [&](int rank) {
    Progress progress("starved");
    as_rank(rank, choice, [&](TestWorld& world) {
      for (int64_t rounds = 1;; ++rounds) {
        call_on_every_path(rank, world.group());
        if (!goes_on(rank, world.group(), !progress.is_over())) break;
        if (rank == 0) progress.tell(fmt::format("{} rounds", rounds));
      }
    });
  }, patience_s);
  expect_all_succeeded(children.wait());
}

// They call for a while and then do nothing for as long, each time for three times as long as before; at last that is longer than a silent machine is
// given.
void call_and_idle(int rank, Progress& progress) {
  constexpr double first_while_s = 0.1, longest_while_s = 9;
  int64_t rounds = 0;
  for (double while_s = first_while_s;; while_s = std::min(3 * while_s, longest_while_s)) {
    const int64_t from_ns = now_ns();
    do {
      call_on_every_path(rank, {});
      if (rank == 0) progress.tell(fmt::format("{} rounds", ++rounds));
    } while (goes_on(rank, {}, seconds_between(from_ns, now_ns()) < while_s && !progress.is_over()));
    await([&] { return progress.is_over(); }, while_s);
    if (!goes_on(rank, {}, !progress.is_over())) return;
  }
}

TEST(Torture, of_starved_ranks_on_two_machines) {
  if (const std::string why = cannot_make_machines(); !why.empty()) GTEST_SKIP() << why;
  const double patience_s = Progress("starved on two machines").patience_s();
  const TwoMachines machines;
  const BusyProcesses busy(patience_s);
  const MachineJob job{.machine_of_rank = {0, 0, 1, 1}};
  Children children(job.ranks(), [&](int rank) {
    Progress progress("starved on two machines");
    become_rank(machines, job, rank);
    distributed::init_process_group({});
    call_and_idle(rank, progress);
    distributed::destroy_process_group();
  }, patience_s);
  const std::vector<Ending> endings = children.wait();
  expect_all_succeeded(endings);
  for (const Ending& ending : endings) EXPECT_EQ(ending.output.find("has not answered"), std::string::npos) << ending.output;
}

}  // namespace
}  // namespace unisono::testing
