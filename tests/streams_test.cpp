// Groups whose channels are not rings: plain sockets with the kernel's buffers and with small ones, and streams that stutter. Every
// algorithm over links, letters, calls in the background, deaths, and ways that are lost.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "algorithms/catalogue.hpp"
#include "tests/support/scale.hpp"
#include "tests/support/test_world.hpp"
#include "tests/support/trial_lists.hpp"

namespace unisono::testing {
namespace {

// The index-th algorithm over links of every collective, or its last.
std::string links_plan(size_t index) {
  std::string plan;
  for (Collective collective : all_collectives()) {
    std::vector<const Algorithm*> found;
    for (const Algorithm& algorithm : catalogue())
      if (algorithm.collective == collective && algorithm.need == Need::links) found.push_back(&algorithm);
    plan += fmt::format("{}{}={}", plan.empty() ? "" : ",", name_of(collective), found[std::min(index, found.size() - 1)]->name);
  }
  return plan;
}

Worlds with_streams(const std::vector<int>& sizes, const std::string& streams, size_t plan = 0) {
  return ranks(sizes).with([&](Settings& settings) {
    settings.test_streams = streams;
    settings.plan = links_plan(plan);
    settings.peer_reads = "off";
  });
}

class Streams : public ::testing::TestWithParam<std::string> {};

TEST_P(Streams, carry_every_collective) {
  for (size_t plan : {0, 1, 2}) {
    SCOPED_TRACE(links_plan(plan));
    for (int size : {2, 3}) {
      const Extent extent{.ranks = size, .largest_bytes = 600'000, .every = scale() == Scale::full ? 3 : 29};
      perform_all(trials_of_sizes(extent), with_streams({size}, GetParam(), plan));
    }
  }
}

TEST_P(Streams, carry_letters_of_all_sizes) {
  for_each_world(with_streams({3}, GetParam()), [](TestWorld& world) {
    const int next = (world.rank() + 1) % 3, before = (world.rank() + 2) % 3;
    for (size_t count : {size_t{0}, size_t{1}, size_t{5'000}, size_t{20'000}, size_t{300'000}}) {
      std::vector<int32_t> mine(count, world.rank()), theirs(count, -1);
      WorkPtr sent = distributed::isend(view(mine), next);
      distributed::recv(view(theirs), before);
      EXPECT_EQ(theirs, std::vector<int32_t>(count, before));
      sent->wait();
    }
  });
}

// By the progress thread, which sleeps while nothing comes.
TEST_P(Streams, carry_calls_that_nobody_waits_for) {
  for_each_world(with_streams({2}, GetParam()), [](TestWorld& world) {
    std::vector<float> data(50'000, 1);
    for (int round = 0; round < 5; ++round) {
      WorkPtr work = distributed::all_reduce(view(data), {.async_op = true});
      work->wait();
    }
    EXPECT_EQ(data.front(), 32);
    EXPECT_EQ(data.back(), 32);
    distributed::barrier({.group = world.group()});
  });
}

// Whoever is left is told who died, by whoever watches for that, and not that a connection was lost.
TEST_P(Streams, do_not_stand_in_the_way_of_news_of_a_death) {
  Settings settings = with_streams({2}, GetParam()).settings;
  const auto endings = run_processes(2, settings, [](TestWorld& world) {
    std::vector<float> data(100'000);
    distributed::all_reduce(view(data));
    if (world.rank() == 1) raise(SIGKILL);
    try {
      distributed::all_reduce(view(data));
      ADD_FAILURE() << "was told nothing";
    } catch (const PeerLostError& error) {
      EXPECT_NE(std::string(error.what()).find("was killed by signal 9"), std::string::npos) << error.what();
    }
  });
  EXPECT_TRUE(endings[0].succeeded()) << endings[0].output;
  EXPECT_TRUE(endings[1].killed_by(SIGKILL));
}

INSTANTIATE_TEST_SUITE_P(Of, Streams, ::testing::Values("sockets", "sockets:4K", "rough:5"), [](const auto& info) {
  std::string name = info.param;
  for (char& letter : name)
    if (letter == ':') letter = '_';
  return name;
});

Status status_of_all_reduce(const Settings& settings, size_t count) {
  Status status;
  for_each_world({{2}, {Kind::threads}, settings}, [&](TestWorld& world) {
    std::vector<float> data(count);
    try {
      distributed::all_reduce(view(data));
    } catch (const Error& error) {
      if (world.rank() == 0) status = error.status();
    }
  });
  return status;
}

TEST(LostWays, are_told_when_nobody_died) {
  const Status status = status_of_all_reduce(with_streams({2}, "rough:1,broken=5000").settings, 10'000);
  EXPECT_EQ(status.code(), ErrorCode::peer_lost) << status.text();
  EXPECT_NE(status.message().find("is lost, though it has not ended: the connection was reset"), std::string::npos) << status.text();
}

TEST(LostWays, that_nobody_reports_end_at_the_deadline) {
  Settings settings = with_streams({2}, "rough:1,silent=5000").settings;
  settings.timeout_s = 1;
  const Status status = status_of_all_reduce(settings, 10'000);
  EXPECT_EQ(status.code(), ErrorCode::timeout) << status.text();
}

TEST(TestStreams, that_there_are_not_are_refused_before_anybody_is_met) {
  Settings settings = Worlds::test_settings();
  settings.test_streams = "carrier pigeons";
  auto world = join_as(0, 1, unique_job(), settings);
  ASSERT_FALSE(world.ok());
  EXPECT_NE(world.status().message().find("UNISONO_TEST_STREAMS=\"carrier pigeons\""), std::string::npos) << world.status().text();
}

}  // namespace
}  // namespace unisono::testing
