// Properties of every algorithm in the catalogue, for every number of ranks and every root. A new algorithm is tested
// by being listed there.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "algorithms/catalogue.hpp"
#include "schedule/builder.hpp"
#include "schedule/chunks.hpp"
#include "schedule/cost.hpp"
#include "schedule/text.hpp"
#include "schedule/verify.hpp"
#include "tests/support/scale.hpp"
#include "tests/support/schedules.hpp"

namespace unisono {
namespace {

using Set = std::vector<Schedule>;

// Fewer ranks where the run is slowed down by a sanitizer.
int most_ranks() { return testing::scale() == testing::Scale::small ? 12 : testing::scale() == testing::Scale::normal ? 24 : 33; }

std::vector<const Algorithm*> generated() {
  std::vector<const Algorithm*> algorithms;
  for (const Algorithm& algorithm : catalogue())
    if (algorithm.generate) algorithms.push_back(&algorithm);
  return algorithms;
}

// Where an algorithm is at home: all on one host, or the lower half on one and the upper on another. layouts_test has the others.
Hosts usual_hosts(const Algorithm& algorithm, int ranks) {
  std::vector<int> halves;
  for (int rank = 0; rank < ranks; ++rank) halves.push_back(rank >= (ranks + 1) / 2);
  return algorithm.is_for_one_host() ? Hosts() : Hosts(halves);
}

Set schedules_of(const Algorithm& algorithm, int ranks, int root = 0) {
  return testing::schedules_of(algorithm, ranks, usual_hosts(algorithm, ranks), root);
}

std::string title(const Algorithm& algorithm, int ranks, int root) {
  return fmt::format("{} {}, {} ranks, root {}", name_of(algorithm.collective), algorithm.name, ranks, root);
}

// Visits every algorithm with every number of ranks up to `ranks`, and every root where there is one.
template <typename Visit>
void for_each_set(int ranks_from, int ranks_to, Visit visit) {
  for (const Algorithm* algorithm : generated())
    for (int ranks = ranks_from; ranks <= ranks_to; ++ranks)
      for (int root = 0; root < (has_root(algorithm->collective) ? ranks : 1); ++root) {
        SCOPED_TRACE(title(*algorithm, ranks, root));
        visit(*algorithm, schedules_of(*algorithm, ranks, root));
        if (::testing::Test::HasFailure()) return;
      }
}

TEST(EveryAlgorithm, is_right_for_every_number_of_ranks_and_every_root) {
  for_each_set(1, most_ranks(), [](const Algorithm& algorithm, const Set& set) {
    EXPECT_EQ(verify(set, {.canonical_order = algorithm.keeps_rank_order()}).text(), "OK");
  });
}

TEST(EveryAlgorithm, is_right_with_more_tiles_in_flight) {
  for_each_set(1, 6, [](const Algorithm& algorithm, const Set& set) {
    EXPECT_EQ(verify(set, {.canonical_order = algorithm.keeps_rank_order(), .max_window = 4}).text(), "OK");
  });
}

TEST(EveryAlgorithm, is_right_whatever_the_interleaving) {
  for_each_set(2, 5, [](const Algorithm&, const Set& set) {
    for (uint64_t seed = 1; seed <= 5; ++seed) EXPECT_EQ(verify(set, {.seed = seed}).text(), "OK");
  });
}

TEST(EveryAlgorithm, needs_each_of_its_steps) {
  for_each_set(2, 4, [](const Algorithm& algorithm, const Set& set) {
    if (!algorithm.is_for_one_host()) return;  // layouts_test has those
    for (size_t rank = 0; rank < set.size(); ++rank)
      for (size_t step = 0; step < set[rank].steps.size(); ++step) {
        Set shorter = set;
        shorter[rank].steps.erase(shorter[rank].steps.begin() + static_cast<ptrdiff_t>(step));
        EXPECT_FALSE(verify(shorter, {.canonical_order = algorithm.keeps_rank_order()}).ok())
            << "rank " << rank << " can do without step " << step << ": " << text_of(set[rank].steps[step]);
      }
  });
}

TEST(EveryAlgorithm, survives_being_written_and_read) {
  for_each_set(1, 9, [](const Algorithm&, const Set& set) {
    for (const Schedule& schedule : set) {
      const Result<Schedule> again = schedule_from(text_of(schedule));
      ASSERT_TRUE(again.ok()) << again.status().text();
      EXPECT_EQ(again.value(), schedule);
    }
  });
}

TEST(EveryAlgorithm, is_listed_under_its_own_name) {
  for_each_set(1, 3, [](const Algorithm& algorithm, const Set& set) {
    for (const Schedule& schedule : set) {
      EXPECT_EQ(schedule.algorithm, algorithm.name);
      EXPECT_EQ(schedule.collective, algorithm.collective);
    }
  });
}

TEST(EveryAlgorithm, uses_what_it_says_it_needs) {
  for_each_set(4, 6, [](const Algorithm& algorithm, const Set& set) {
    Need used = Need::nothing;
    for (const Schedule& schedule : set)
      for (const Step& step : schedule.steps) {
        if (step.kind == StepKind::send) used = used | Need::links;
        if (step.kind == StepKind::publish) used = used | (algorithm.is_for_one_host() ? Need::peer_memory : Need::host_memory);
        const bool reads = step.kind == StepKind::read_peer || step.kind == StepKind::reduce_peers;
        if (reads && step.source.buffer != Buffer::stage && step.source.buffer != Buffer::gathered) used = used | Need::peer_reads;
      }
    EXPECT_EQ(used, algorithm.need);
  });
}

TEST(EveryAlgorithm, costs_more_for_more_bytes) {
  for_each_set(2, 6, [](const Algorithm& algorithm, const Set& set) {
    double before = 0;
    for (int64_t bytes : {int64_t{0}, 100_KiB, 200_KiB, 10_MiB}) {
      const double now = cost(set, bytes, CostModel{}).time_ns;
      EXPECT_TRUE(now > before || algorithm.collective == Collective::barrier) << bytes << " bytes";
      before = now;
    }
  });
}

TEST(EveryAlgorithm, whose_order_is_not_declared_canonical_has_another) {
  for (const Algorithm* algorithm : generated()) {
    if (algorithm->keeps_rank_order()) continue;
    EXPECT_FALSE(verify(schedules_of(*algorithm, 5), {.canonical_order = true}).ok()) << title(*algorithm, 5, 0);
  }
}

// verify lets nobody who says so round on the way.
TEST(EveryAlgorithm, whose_sums_travel_between_additions_says_that_it_carries_partials) {
  for_each_set(4, 6, [](const Algorithm&, const Set& set) {
    for (const Schedule& schedule : set)
      for (const Step& step : schedule.steps) {
        const bool adds_sums = step.kind == StepKind::receive_reduce || step.kind == StepKind::reduce || (step.kind == StepKind::reduce_peers && !step.scales);
        EXPECT_TRUE(!adds_sums || schedule.partials);
      }
  });
}

TEST(EveryScan, has_its_own_part_or_has_it_not) {
  Set scan = schedules_of(*find_algorithm(Collective::scan, "direct"), 3);
  Set exscan = schedules_of(*find_algorithm(Collective::exscan, "direct"), 3);
  ASSERT_EQ(scan[1].teams, (std::vector<std::vector<int>>{{0, 1}}));
  ASSERT_EQ(exscan[1].teams, (std::vector<std::vector<int>>{{0}}));
  scan[1].teams[0] = {0};
  scan[1].steps.back().own = nothing;
  EXPECT_NE(verify(scan).message().find("output[0] lacks the contribution of rank 1"), std::string::npos) << verify(scan).text();
  exscan[1].teams[0] = {0, 1};
  exscan[1].steps.back().own = input(0);
  EXPECT_NE(verify(exscan).message().find("output[0] has the contribution of rank 1 twice"), std::string::npos)
      << verify(exscan).text();
}

TEST(EveryAlgorithm, takes_the_rounds_that_its_description_says) {
  const auto rounds = [](Collective collective, std::string_view name, int ranks) {
    return cost(schedules_of(*find_algorithm(collective, name), ranks), 1000, CostModel{}).rounds;
  };
  EXPECT_EQ(rounds(Collective::all_reduce, "one_shot", 8), 1);
  EXPECT_EQ(rounds(Collective::all_reduce, "two_shot", 8), 2);
  EXPECT_EQ(rounds(Collective::all_reduce, "two_shot_direct", 8), 3);
  EXPECT_EQ(rounds(Collective::all_reduce, "ring", 8), 14);
  EXPECT_EQ(rounds(Collective::all_reduce, "doubling", 8), 3);
  EXPECT_EQ(rounds(Collective::all_reduce, "doubling", 9), 4);
  EXPECT_EQ(rounds(Collective::all_reduce, "doubling", 33), 6);
  EXPECT_EQ(rounds(Collective::all_reduce, "halving", 8), 6);
  EXPECT_EQ(rounds(Collective::all_reduce, "halving", 9), 8);
  EXPECT_EQ(rounds(Collective::all_gather, "ring", 8), 7);
  EXPECT_EQ(rounds(Collective::all_gather, "bruck", 8), 3);
  EXPECT_EQ(rounds(Collective::all_gather, "bruck", 9), 4);
  EXPECT_EQ(rounds(Collective::reduce_scatter, "pairwise", 8), 7);
  EXPECT_EQ(rounds(Collective::reduce, "binomial", 8), 3);
  EXPECT_EQ(rounds(Collective::broadcast, "binomial", 8), 3);
  EXPECT_EQ(rounds(Collective::broadcast, "chain", 8), 7);
  EXPECT_EQ(rounds(Collective::gather, "linear", 8), 1);
  EXPECT_EQ(rounds(Collective::scatter, "linear", 8), 1);
  EXPECT_EQ(rounds(Collective::all_to_all, "pairwise", 8), 7);
  EXPECT_EQ(rounds(Collective::scan, "chain", 8), 7);
  EXPECT_EQ(rounds(Collective::exscan, "chain", 8), 7);
  EXPECT_EQ(rounds(Collective::reduce_scatter, "direct", 8), 1);
  EXPECT_EQ(rounds(Collective::reduce, "two_shot", 8), 2);
  EXPECT_EQ(rounds(Collective::broadcast, "direct", 8), 1);
  EXPECT_EQ(rounds(Collective::broadcast, "direct_read", 8), 2);
  EXPECT_EQ(rounds(Collective::scan, "direct", 8), 1);
  EXPECT_EQ(rounds(Collective::exscan, "direct", 8), 1);
  EXPECT_EQ(rounds(Collective::all_reduce, "collecting", 8), 2);
  EXPECT_EQ(rounds(Collective::reduce_scatter, "collecting", 8), 1);
  EXPECT_EQ(rounds(Collective::reduce, "collecting", 8), 2);
  EXPECT_EQ(rounds(Collective::scan, "collecting", 8), 1);
  EXPECT_EQ(rounds(Collective::exscan, "collecting", 8), 1);
  EXPECT_EQ(rounds(Collective::barrier, "direct", 8), 1);
  EXPECT_EQ(rounds(Collective::barrier, "dissemination", 8), 3);
  EXPECT_EQ(rounds(Collective::all_reduce, "hierarchy", 8), 3);
  EXPECT_EQ(rounds(Collective::all_gather, "hierarchy", 8), 2);
  EXPECT_EQ(rounds(Collective::reduce_scatter, "hierarchy", 8), 2);
  EXPECT_EQ(rounds(Collective::broadcast, "hierarchy", 8), 3);
  EXPECT_EQ(rounds(Collective::scan, "hierarchy", 8), 3);
  EXPECT_EQ(rounds(Collective::barrier, "hierarchy", 8), 3);
}

// Every pair of algorithms meets, with roots that differ from call to call.
TEST(CallsInARow, are_right_in_any_order_when_they_are_announced) {
  const std::vector<const Algorithm*> algorithms = generated();
  std::minstd_rand random(1);
  for (const Algorithm* first : algorithms)
    for (const Algorithm* second : algorithms) {
      const Algorithm* third = algorithms[random() % algorithms.size()];
      SCOPED_TRACE(fmt::format("{} {}, {} {}, {} {}", name_of(first->collective), first->name,
                               name_of(second->collective), second->name, name_of(third->collective), third->name));
      const int ranks = 2 + static_cast<int>(random() % 4);
      const auto root = [&] { return static_cast<int>(random() % ranks); };
      const Hosts hosts;  // one, which a hierarchy can do with as well
      std::vector<Set> calls;
      for (const Algorithm* algorithm : {first, second, third, first})
        calls.push_back(testing::schedules_of(*algorithm, ranks, hosts, root()));
      ASSERT_EQ(verify_sequence(calls, {.announced = true}).text(), "OK");
    }
}

Set schedules_named(Collective collective, std::string_view name, int ranks) {
  return schedules_of(*find_algorithm(collective, name), ranks);
}

void expect_rejected(const std::vector<Set>& calls, VerifyOptions options, std::string_view part) {
  const Status status = verify_sequence(calls, options);
  EXPECT_NE(status.message().find(part), std::string::npos) << "wanted: " << part << "\nsaid: " << status.message();
}

TEST(CallsInARow, of_different_kinds_need_announcements) {
  // A broadcast does not tell its readers about each other, so it does not prove that the one_shot before it was left.
  const Set one_shot = schedules_named(Collective::all_reduce, "one_shot", 3);
  const std::vector<Set> calls{one_shot, schedules_named(Collective::broadcast, "direct", 3), one_shot};
  EXPECT_TRUE(verify_sequence(calls, {.announced = true}).ok());
  expect_rejected(calls, {}, "stage[0] is overwritten while rank");
}

TEST(CallsInARow, race_when_a_root_lets_the_others_go_before_everybody_came) {
  const Set one_shot = schedules_named(Collective::all_reduce, "one_shot", 3);
  Set reduce = schedules_named(Collective::reduce, "direct", 3);
  EXPECT_TRUE(verify_sequence(std::vector<Set>{one_shot, reduce}, {.announced = true}).ok());
  std::swap(reduce[0].steps[0], reduce[0].steps[1]);
  EXPECT_TRUE(verify(reduce).ok());
  expect_rejected({one_shot, reduce}, {.announced = true}, "may have overwritten its stage[0] already");
}

TEST(CallsInARow, share_slot_sets_that_each_may_cut_otherwise) {
  // The scatter's readers are at slots 1 and 2; nothing tells rank 0 that they are done before it writes slot 0.
  Set by_link;
  for (int rank = 0; rank < 3; ++rank) {
    Builder plan(Collective::broadcast, "by_link", {.rank = rank, .ranks = 3});
    if (rank == 0) plan.copy(input(0), stage(0)), plan.send(1, stage(0)), plan.send(2, stage(0));
    if (rank != 0) plan.receive(0, output(0));
    by_link.push_back(plan.finish(/*stage_slots=*/1));
  }
  EXPECT_TRUE(verify(by_link).ok());
  expect_rejected({schedules_named(Collective::scatter, "direct", 3), by_link, by_link}, {}, "overwritten");
}

TEST(Catalogue, names_are_unique_within_a_collective_and_every_line_has_a_sentence) {
  std::set<std::pair<Collective, std::string_view>> names;
  for (const Algorithm& algorithm : catalogue()) {
    EXPECT_TRUE(names.insert({algorithm.collective, algorithm.name}).second) << algorithm.name;
    EXPECT_TRUE(algorithm.sentence.ends_with(".")) << algorithm.name;
    EXPECT_EQ(algorithm.generate == nullptr, algorithm.path != Path::schedule) << algorithm.name;
  }
}

TEST(Catalogue, every_collective_has_both_hand_written_paths_and_a_schedule) {
  for (Collective collective : all_collectives()) {
    EXPECT_NE(find_algorithm(collective, "slot"), nullptr) << name_of(collective);
    EXPECT_NE(find_algorithm(collective, "combine"), nullptr) << name_of(collective);
    EXPECT_NE(find_algorithm(collective, "direct") ? find_algorithm(collective, "direct")
                                                   : find_algorithm(collective, "one_shot"),
              nullptr)
        << name_of(collective);
  }
  EXPECT_EQ(find_algorithm(Collective::broadcast, "ring"), nullptr);
  EXPECT_EQ(algorithm_names(Collective::barrier), "slot, combine, direct, dissemination, hierarchy");
}

TEST(Catalogue, every_collective_has_an_algorithm_over_links) {
  for (Collective collective : all_collectives()) {
    bool has_one = false;
    for (const Algorithm& algorithm : catalogue()) has_one |= algorithm.collective == collective && algorithm.need == Need::links;
    EXPECT_TRUE(has_one) << name_of(collective);
  }
}

}  // namespace
}  // namespace unisono
