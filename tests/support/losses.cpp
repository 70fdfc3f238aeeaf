// See losses.hpp.
#include "tests/support/losses.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <algorithm>
#include <fstream>

#include "rendezvous/join.hpp"

namespace unisono::testing {
namespace {

bool contains(const std::vector<int>& ranks, int rank) { return std::find(ranks.begin(), ranks.end(), rank) != ranks.end(); }

std::set<std::string> names_in(const std::filesystem::path& directory) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) names.insert(entry.path());
  return names;
}

}  // namespace

double seconds_between(int64_t from_ns, int64_t to_ns) { return static_cast<double>(to_ns - from_ns) * 1e-9; }

void expect_parts(const Outcome& outcome, ErrorCode code, const std::vector<std::string>& parts) {
  EXPECT_EQ(outcome.code, code) << outcome.text();
  for (const std::string& part : parts) EXPECT_NE(outcome.text().find(part), std::string::npos) << '"' << part << "\" in " << outcome.text();
}

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
      if (rank == scene.late) { EXPECT_TRUE(await([&] { return signs[0].go == 1; })); }
      outcomes.note(rank, 0, [&] { call(world); });
      outcomes.note(rank, 1, [&] { call(world); });
    });
  });
  EXPECT_TRUE(await([&] { return signs[0].ready == scene.ranks; }));
  for (int rank = 0; rank < scene.ranks; ++rank)
    if (rank != scene.late) children.await_asleep(rank);
  const int64_t killed_ns = children.kill_together(scene.victims);
  for (int rank = 0; rank < scene.ranks; ++rank)
    if (rank != scene.late && !contains(scene.victims, rank)) { EXPECT_TRUE(await([&] { return outcomes.of(rank).was_made(); })); }
  signs[0].go = 1;
  std::vector<Ending> endings = children.wait();
  EXPECT_FALSE(meeting_place_is_taken(choice.job));
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

bool meeting_place_is_taken(const std::string& job) {
  std::ifstream sockets("/proc/net/unix");
  const std::string text((std::istreambuf_iterator<char>(sockets)), {});
  return text.find(meeting_place(job)) != std::string::npos;
}

Traces::Traces() : names_before_(names_in("/dev/shm")) {
  std::string pattern = std::filesystem::temp_directory_path() / "traces-XXXXXX";
  EXPECT_NE(mkdtemp(pattern.data()), nullptr);
  temporary_ = pattern;
  temporary_before_ = process_environment()["TMPDIR"];
  setenv("TMPDIR", temporary_.c_str(), 1);
}

Traces::~Traces() {
  temporary_before_.empty() ? unsetenv("TMPDIR") : setenv("TMPDIR", temporary_before_.c_str(), 1);
  std::filesystem::remove_all(temporary_);
}

void Traces::expect_none_left() const {
  for (const std::string& name : names_in("/dev/shm"))
    EXPECT_TRUE(names_before_.contains(name) || name.find("open_mpi") != std::string::npos || name.find("ucx_shm") != std::string::npos || name.find("vader_segment") != std::string::npos) << name << " was left behind";
  for (const std::string& name : names_in(temporary_)) ADD_FAILURE() << name << " was left behind";
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a child was left behind";
}

}  // namespace unisono::testing
