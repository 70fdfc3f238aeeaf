// See losses.hpp.
#include "tests/support/losses.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <fstream>

namespace unisono::testing {
namespace {

bool contains(const std::vector<int>& ranks, int rank) { return std::find(ranks.begin(), ranks.end(), rank) != ranks.end(); }

}  // namespace

double seconds_between(int64_t from_ns, int64_t to_ns) { return static_cast<double>(to_ns - from_ns) * 1e-9; }

void expect_lost(const Outcome& outcome, const std::vector<int>& victims) {
  EXPECT_EQ(outcome.code, ErrorCode::peer_lost) << outcome.text();
  EXPECT_TRUE(contains(victims, outcome.peer)) << "blames rank " << outcome.peer << ": " << outcome.text();
  EXPECT_NE(outcome.text().find(fmt::format("rank {} ", outcome.peer)), std::string::npos) << outcome.text();
}

void expect_survivors_are_told(const KillScene& scene, const WaitingCall& call) {
  Outcomes outcomes(scene.ranks, 2);
  SharedArray<Signs> signs(1);
  WorldChoice choice{.size = scene.ranks, .job = unique_job(), .settings = scene.settings};
  Children children(scene.ranks, [&](int rank) {
    as_rank(rank, choice, [&](TestWorld& world) {
      expect_works(world);
      signs[0].ready += 1;
      if (rank == scene.late) EXPECT_TRUE(await([&] { return signs[0].go == 1; }));
      outcomes.note(rank, 0, [&] { call(world); });
      outcomes.note(rank, 1, [&] { call(world); });
    });
  });
  EXPECT_TRUE(await([&] { return signs[0].ready == scene.ranks; }));
  for (int rank = 0; rank < scene.ranks; ++rank)
    if (rank != scene.late) children.await_asleep(rank);
  const int64_t killed_ns = now_ns();
  for (int victim : scene.victims) children.kill(victim);
  for (int rank = 0; rank < scene.ranks; ++rank)
    if (rank != scene.late && !contains(scene.victims, rank)) EXPECT_TRUE(await([&] { return outcomes.of(rank).was_made(); }));
  signs[0].go = 1;
  std::vector<Ending> endings = children.wait();
  for (int rank = 0; rank < scene.ranks; ++rank) {
    SCOPED_TRACE(fmt::format("rank {}", rank));
    const Ending& ending = endings[static_cast<size_t>(rank)];
    if (contains(scene.victims, rank)) {
      EXPECT_TRUE(ending.killed_by(SIGKILL)) << ending.output;
      continue;
    }
    EXPECT_TRUE(ending.succeeded()) << ending.output;
    // Who comes late may still find all that it needs for this call, but not for the next.
    if (rank != scene.late || outcomes.of(rank).code != ErrorCode::ok) {
      expect_lost(outcomes.of(rank), scene.victims);
      EXPECT_EQ(outcomes.of(rank).text(), outcomes.of(rank, 1).text()) << "the first cause stays";
    }
    expect_lost(outcomes.of(rank, 1), scene.victims);
    EXPECT_LT(outcomes.of(rank, 1).took_s(), scene.within_s);
    const int64_t since_ns = std::max(killed_ns, outcomes.of(rank).entered_ns);
    EXPECT_LT(seconds_between(since_ns, outcomes.of(rank).ended_ns), scene.within_s) << outcomes.of(rank).text();
  }
}

std::set<std::string> Traces::now() {
  std::set<std::string> names;
  for (const char* directory : {"/dev/shm", "/tmp"})
    for (const auto& entry : std::filesystem::directory_iterator(directory, std::filesystem::directory_options::skip_permission_denied))
      if (directory == std::string("/dev/shm") || entry.path().filename().string().find("unisono") != std::string::npos)
        names.insert(entry.path());
  return names;
}

void Traces::expect_none_left() const {
  for (const std::string& name : now()) EXPECT_TRUE(before_.contains(name)) << name << " was left behind";
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a child was left behind";
  std::ifstream sockets("/proc/net/unix");
  const std::string mine = fmt::format("test {} ", getpid());
  for (std::string line; std::getline(sockets, line);) EXPECT_EQ(line.find(mine), std::string::npos) << line;
}

}  // namespace unisono::testing
