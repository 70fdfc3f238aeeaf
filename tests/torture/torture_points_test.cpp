// Every named point of the code × every collective × a few sizes × every rank × every passage: the process is killed
// there, and the others are told. In builds with fault points only. The order is random and UNISONO_TORTURE_SECONDS
// ends it early; 0 goes through all of it.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

#include "dialects/default_world.hpp"
#include "tests/support/losses.hpp"
#include "tests/support/scale.hpp"
#include "tests/torture/rounds.hpp"
#include "tests/torture/verdicts.hpp"

namespace unisono::testing {
namespace {

constexpr int calls = 5;           // of one kind, after a group was made
constexpr int most_passages = 12;  // a schedule passes a point often in one call

constexpr bool compiled_in() {
#ifdef UNISONO_FAULT_POINTS
  return true;
#else
  return false;
#endif
}

// Where a rank dies, but for the passage: all passages of one spot are tried in turn.
struct Spot {
  std::string point;
  Collective kind;
  int64_t count, cores;
  int ranks, victim;
  std::string hosts = "";  // a layout

  std::string text(int passage) const {
    return fmt::format("rank {} of {} dies at passage {} of {} in {} of {}, cores {}, hosts \"{}\"", victim, ranks, passage, point,
                       name_of(kind), count, cores, hosts);
  }
};

// Joining has its own points, and so have letters, agreeing and what is told of faults: fault_points_test tries every one of those.
std::set<std::string> points_of_the_sources() {
  std::set<std::string> points;
  const std::regex use("FAULT_POINT\\(\"([a-z_]+)\"\\)");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(UNISONO_SOURCE_DIRECTORY "/src")) {
    if (!entry.is_regular_file() || entry.path().string().find("/rendezvous/") != std::string::npos) continue;
    std::ifstream file(entry.path());
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    for (std::sregex_iterator match(text.begin(), text.end(), use), end; match != end; ++match)
      points.insert((*match)[1]);
  }
  std::erase_if(points, [](const std::string& point) {
    return point.find("join") != std::string::npos || point.starts_with("mail_") || point.starts_with("agree_") || point.starts_with("fault_");
  });
  return points;
}

// On several hosts, once: somebody who has company on its host, and somebody who has none.
std::vector<Spot> all_spots() {
  std::vector<Spot> spots;
  for (const std::string& point : points_of_the_sources())
    for (Collective kind : all_collectives())
      for (int64_t count : {8, 1500, 40'000}) {
        if (kind == Collective::barrier && count != 8) continue;
        for (int64_t cores : {1, 64})
          for (auto [ranks, victim] : {std::pair(2, 0), {2, 1}, {4, 0}, {4, 1}, {4, 3}})
            spots.push_back({point, kind, count, cores, ranks, victim});
        spots.push_back({point, kind, count, 1, 4, 1, "2,2"});
        spots.push_back({point, kind, count, 1, 3, 2, "2,1"});
      }
  return spots;
}

std::string_view over_links(Collective kind) {
  for (const Algorithm& algorithm : catalogue())
    if (algorithm.collective == kind && algorithm.need == Need::links) return algorithm.name;
  return "";
}

Program program_of(const Spot& spot, int passage) {
  Program program{.ranks = spot.ranks, .victims = {spot.victim}};
  program.settings = Worlds::test_settings();
  program.settings.timeout_s = program.settings.join_timeout_s = 20;
  program.settings.cores = spot.cores;
  program.settings.pretend_hosts = spot.hosts;
  program.settings.fault = fmt::format("{}:{}:{}", spot.point, passage, spot.victim);
  if (spot.point.starts_with("ring_")) program.settings.plan = fmt::format("{}={}", name_of(spot.kind), over_links(spot.kind));
  std::vector<int> everybody;
  for (int rank = 0; rank < spot.ranks; ++rank) everybody.push_back(rank);
  program.circles = {{.ranks = everybody}, {.ranks = everybody, .made_by = 0}};
  program.actions.push_back({.deed = Deed::make, .group = 1});
  for (const Form& form : all_forms()) {
    if (form.collective != spot.kind || program.actions.size() > 1) continue;
    for (int call = 0; call < calls; ++call)
      program.actions.push_back({.group = 1, .trial = {.form = &form, .count = spot.count, .root = call % spot.ranks}});
  }
  return program;
}

// The first passages are in joining, which ends with a call. False when that failed because of the victim.
bool join_and_act(int rank, const WorldChoice& choice, const Spot& spot, const Body& body) {
  auto world = join_as(rank, choice.size, choice.job, choice.settings);
  if (!world.ok()) {
    EXPECT_EQ(world.status().code(), ErrorCode::init) << world.status().text();
    const std::string text = world.status().text();
    const bool names_one_who_gave_up = text.find("left the group") != std::string::npos;  // because of the dead
    EXPECT_TRUE(names_one_who_gave_up || text.find(fmt::format("rank {} ", spot.victim)) != std::string::npos) << text;
    return false;
  }
  SpeakAs speak(*world);
  TestWorld test_world(*world, false);
  body(test_world);
  (*world)->leave();
  return true;
}

// Whether the point was reached so often, so that somebody died.
bool expect_told(const Spot& spot, int passage) {
  SCOPED_TRACE(spot.text(passage));
  Program program = program_of(spot, passage);
  make_patterns_of(program);
  Outcomes outcomes(program.ranks, outcome_count(program));
  SharedArray<Stage> stage(1);
  stage[0].all_struck = 1;
  const WorldChoice choice{.size = program.ranks, .job = unique_job(), .settings = program.settings};
  SharedArray<std::atomic<int>> stayed_outside(static_cast<size_t>(spot.ranks));
  Children children(program.ranks, [&](int rank) {
    stayed_outside[rank] = !join_and_act(rank, choice, spot, [&](TestWorld& world) {
      Actor(program, world, {outcomes, stage[0]}).perform();
    });
  });
  const std::vector<Ending> endings = children.wait();
  const bool killed = endings[static_cast<size_t>(spot.victim)].killed_by(SIGKILL);
  for (int rank = 0; rank < spot.ranks; ++rank)
    if (rank != spot.victim || !killed) {
      EXPECT_TRUE(endings[static_cast<size_t>(rank)].succeeded()) << endings[static_cast<size_t>(rank)].output;
    }
  if (!killed) program.victims.clear();
  for (int rank = 0; rank < spot.ranks; ++rank)
    if (stayed_outside[rank] == 1) program.victims.push_back(rank);  // as good as dead to those who came in
  expect_outcomes(program, outcomes, stage[0]);
  return killed;
}

TEST(Torture, of_deaths_at_every_point) {
  if (!compiled_in()) GTEST_SKIP() << "this build has no fault points: configure with -DUNISONO_FAULT_POINTS=ON";
  if (under_thread_sanitizer()) GTEST_SKIP() << "kills processes";
  Progress progress("points");
  Traces traces;
  std::vector<Spot> spots = all_spots();
  Dice(static_cast<uint64_t>(progress.seed())).shuffle(spots);
  std::set<std::string> reached;
  size_t tried = 0, deaths = 0;
  for (; tried < spots.size() && !progress.is_over() && !HasFailure(); ++tried) {
    for (int passage = 1; passage <= most_passages && !HasFailure() && expect_told(spots[tried], passage); ++passage) {
      ++deaths;
      reached.insert(spots[tried].point);
    }
    progress.tell(fmt::format("{} of {} spots, {} deaths", tried, spots.size(), deaths));
  }
  traces.expect_none_left();
  if (tried == spots.size()) {
    EXPECT_EQ(reached, points_of_the_sources());
  }
  progress.conclude(fmt::format("{} of {} spots, {} deaths", tried, spots.size(), deaths));
}

}  // namespace
}  // namespace unisono::testing
