// Calls that differ between hosts, in ways that no frame of theirs need show: what was sent may lie where no later call looks for it. Every
// rank hears of it all the same, at the latest in the next call whose result depends on everybody.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <barrier>
#include <random>

#include "tests/support/calls.hpp"
#include "tests/support/outcomes.hpp"
#include "tests/support/scale.hpp"
#include "tests/support/test_world.hpp"

namespace unisono::testing {
namespace {

struct Difference {
  std::string layout;
  int ranks = 0;
  CallChoice usual, odd;
  int odd_rank = 0;

  std::string text() const {
    return fmt::format("on {}: rank {} makes a {} of root {}, the others a {} of root {}", layout, odd_rank, name_of(odd.kind), odd.root,
                       name_of(usual.kind), usual.root);
  }
};

Difference random_difference(std::mt19937& random) {
  const std::vector<std::pair<std::string, int>> layouts = {{"1,1", 2}, {"2,1", 3}, {"2,2", 4}, {"3,1", 4}, {"1,2,1", 4}, {"0/1/0/1", 4}, {"1,1,2,1,1", 6}};
  Difference difference;
  std::tie(difference.layout, difference.ranks) = layouts[random() % layouts.size()];
  auto any_rank = [&] { return static_cast<int>(random() % static_cast<unsigned>(difference.ranks)); };
  auto any_call = [&] {
    const auto kinds = all_collectives();
    return CallChoice{.kind = kinds[random() % kinds.size()], .root = any_rank()};
  };
  difference.odd_rank = any_rank();
  difference.usual = any_call();
  do difference.odd = any_call();
  while (difference.odd.kind == difference.usual.kind);
  return difference;
}

// Each rank's first error, in the call that differs or in one of those after it, which depend on everybody.
void expect_told_everywhere(const Difference& difference) {
  SCOPED_TRACE(difference.text());
  constexpr int calls = 3;
  Outcomes outcomes(difference.ranks, calls);
  std::barrier nobody_is_in_that_call(difference.ranks);
  auto worlds = ranks(difference.ranks).with(Kind::threads).with([&](Settings& settings) {
    settings.pretend_hosts = difference.layout;
    settings.timeout_s = 8;
  });
  for_each_world(worlds, [&](TestWorld& world) {
    Scratch scratch;
    expect_works(world);
    nobody_is_in_that_call.arrive_and_wait();
    outcomes.note(world.rank(), 0, [&] { make_call(world.group(), scratch, world.rank() == difference.odd_rank ? difference.odd : difference.usual); });
    for (int call = 1; call < calls; ++call)
      outcomes.note(world.rank(), call, [&] { make_call(world.group(), scratch, {.kind = Collective::all_reduce}); });
  });
  for (int rank = 0; rank < difference.ranks; ++rank) {
    int call = 0;
    while (call + 1 < calls && outcomes.of(rank, call).code == ErrorCode::ok) ++call;
    EXPECT_EQ(outcomes.of(rank, call).code, ErrorCode::mismatch) << "rank " << rank << ", call " << call << ": " << outcomes.of(rank, call).text();
  }
}

TEST(CallsThatDiffer, are_told_where_nothing_that_was_sent_shows_it) {
  expect_told_everywhere({.layout = "1,1,2,1,1",
                          .ranks = 6,
                          .usual = {.kind = Collective::broadcast, .root = 3},
                          .odd = {.kind = Collective::gather, .root = 3},
                          .odd_rank = 0});
}

TEST(CallsThatDiffer, are_told_to_every_rank_whatever_they_are) {
  constexpr unsigned seed = 20261116;
  std::mt19937 random(seed);
  for (int round = 0; round < (scale() == Scale::full ? 400 : scale() == Scale::normal ? 40 : 8); ++round)
    expect_told_everywhere(random_difference(random));
}

TEST(CallsThatDiffer, earlier_are_told_with_the_number_of_the_call) {
  Outcomes outcomes(2, 2);
  for_each_world(ranks(2).with(Kind::threads).with([](Settings& settings) { settings.pretend_hosts = "1,1"; }), [&](TestWorld& world) {
    Scratch scratch;
    const Collective kind = world.rank() == 0 ? Collective::gather : Collective::broadcast;
    outcomes.note(world.rank(), 0, [&] { make_call(world.group(), scratch, {.kind = kind, .root = 1}); });
    outcomes.note(world.rank(), 1, [&] { make_call(world.group(), scratch, {.kind = Collective::all_reduce}); });
  });
  for (int rank : {0, 1}) {
    const std::string text = outcomes.of(rank, 1).text();
    EXPECT_NE(text.find("have made different calls in group \"unisono_world_group\": rank"), std::string::npos) << text;
    EXPECT_NE(text.find(numbered("sent a part of its call #1")), std::string::npos) << text;
  }
  EXPECT_LT(outcomes.took_s(), 1.5);
}

}  // namespace
}  // namespace unisono::testing
