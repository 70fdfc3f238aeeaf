// What the planner chooses, what a user may override, how refusals read, and what explain says.
#include "planner/planner.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "planner/explain.hpp"
#include "planner/rules.hpp"
#include "schedule/schedule.hpp"
#include "schedule/text.hpp"
#include "tests/support/hosts.hpp"

namespace unisono {
namespace {

using testing::apart;

constexpr int64_t tib = int64_t{1} << 40;

std::string choice(const Query& query, std::string_view setting = "") {
  Result<PlannerRules> rules = PlannerRules::parse(setting);
  if (!rules.ok()) return rules.status().text();
  Planner planner(*rules);
  const Result<const Plan*> plan = planner.plan(query);
  return plan.ok() ? std::string(plan.value()->algorithm->name) : plan.status().text();
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

TEST(Rules, all_reduce_goes_by_size) {
  Query query{.collective = Collective::all_reduce, .ranks = 4};
  const std::pair<int64_t, std::string_view> expected[] = {
      {0, "slot"},         {8_KiB, "slot"},      {8_KiB + 1, "two_shot"}, {1_MiB - 1, "two_shot"},
      {1_MiB, "two_shot"}, {16_MiB, "two_shot"}, {tib, "two_shot"}};
  for (auto [bytes, algorithm] : expected) {
    query.bytes = bytes;
    EXPECT_EQ(choice(query), algorithm) << bytes;
  }
}

TEST(Rules, two_ranks_stay_with_one_round_for_longer) {
  Query query{.collective = Collective::all_reduce, .ranks = 2, .bytes = 16_MiB};
  EXPECT_EQ(choice(query), "one_shot");
  query.bytes += 1;
  EXPECT_EQ(choice(query), "two_shot");
  query = {.collective = Collective::reduce, .ranks = 2, .bytes = 10_MiB};
  EXPECT_EQ(choice(query), "direct");
  query.ranks = 3;
  EXPECT_EQ(choice(query), "two_shot");
}

TEST(Rules, peer_reads_are_used_where_they_win) {
  Query query{.collective = Collective::all_reduce, .ranks = 4, .bytes = 4_MiB, .peer_reads = true};
  EXPECT_EQ(choice(query), "two_shot_direct");
  query.bytes = 16_MiB;
  EXPECT_EQ(choice(query), "two_shot_direct");
  query.bytes = 16_MiB + 1;
  EXPECT_EQ(choice(query), "two_shot");
  query.bytes = 4_MiB - 1;
  EXPECT_EQ(choice(query), "two_shot");
  query = {.collective = Collective::all_reduce, .ranks = 2, .bytes = 2_MiB, .peer_reads = true};
  EXPECT_EQ(choice(query), "two_shot_direct");
  query = {.collective = Collective::all_reduce, .ranks = 8, .bytes = 4_MiB, .peer_reads = true};
  EXPECT_EQ(choice(query), "two_shot");
  query = {.collective = Collective::all_reduce, .ranks = 4, .bytes = 4_MiB, .crowded = true, .peer_reads = true};
  EXPECT_EQ(choice(query), "two_shot");
}

TEST(Rules, crowded_groups_combine) {
  for (Collective collective : all_collectives()) {
    Query query{.collective = collective, .ranks = 8, .bytes = 1_KiB, .crowded = true};
    EXPECT_EQ(choice(query), "combine") << name_of(collective);
    query.bytes = 1_MiB;
    EXPECT_EQ(choice(query) == "combine", collective == Collective::barrier) << name_of(collective);
  }
}

TEST(Rules, what_counts_is_all_that_a_rank_shows) {
  // Pieces for each of the others add up; a piece for everybody counts once.
  EXPECT_EQ(choice({.collective = Collective::reduce_scatter, .ranks = 8, .bytes = 1_KiB}), "slot");
  EXPECT_EQ(choice({.collective = Collective::reduce_scatter, .ranks = 8, .bytes = 1_KiB + 1}), "direct");
  EXPECT_EQ(choice({.collective = Collective::all_to_all, .ranks = 9, .bytes = 1_KiB}), "direct");
  EXPECT_EQ(choice({.collective = Collective::scatter, .ranks = 9, .bytes = 1_KiB}), "direct");
  EXPECT_EQ(choice({.collective = Collective::all_gather, .ranks = 9, .bytes = 8_KiB}), "slot");
  EXPECT_EQ(choice({.collective = Collective::gather, .ranks = 9, .bytes = 8_KiB}), "slot");
}

TEST(Rules, links_are_used_only_where_there_is_nothing_else) {
  Query query{.collective = Collective::all_reduce, .ranks = 4, .bytes = 32_KiB, .hosts = apart(4)};
  EXPECT_EQ(choice(query), "doubling");
  query.bytes += 1;
  EXPECT_EQ(choice(query), "halving");
  query.bytes = 1_MiB + 1;
  EXPECT_EQ(choice(query), "ring");
  EXPECT_EQ(choice({.collective = Collective::barrier, .ranks = 4, .hosts = apart(4)}), "dissemination");
  for (Collective collective : all_collectives())
    for (int64_t bytes : {int64_t{0}, 100_KiB, 2_MiB, tib}) {
      const auto needs_links = [&](const Query& asked) { return find_algorithm(collective, choice(asked))->need == Need::links; };
      EXPECT_FALSE(needs_links({.collective = collective, .ranks = 4, .bytes = bytes})) << name_of(collective);
      EXPECT_TRUE(needs_links({.collective = collective, .ranks = 4, .bytes = bytes, .hosts = apart(4)})) << name_of(collective);
    }
}

TEST(Rules, hierarchy_is_used_where_there_are_several_hosts_and_one_has_several_ranks) {
  for (Collective collective : all_collectives())
    for (int64_t bytes : {int64_t{0}, 100_KiB, tib}) {
      Query query{.collective = collective, .ranks = 4, .bytes = bytes, .hosts = testing::in_a_row({2, 2})};
      EXPECT_EQ(choice(query), "hierarchy") << name_of(collective);
      query.hosts = testing::in_a_row({3, 1});
      EXPECT_EQ(choice(query), "hierarchy") << name_of(collective);
      query.hosts = Hosts(std::vector{0, 1, 1, 0});
      EXPECT_EQ(choice(query), "hierarchy") << name_of(collective);
      query.hosts = apart(4);
      EXPECT_NE(choice(query), "hierarchy") << name_of(collective);
      query.hosts = Hosts();
      EXPECT_NE(choice(query), "hierarchy") << name_of(collective);
    }
}

// Its sums follow another tree; those over links keep the bits of one host.
TEST(Rules, sums_that_have_to_be_reproducible_are_not_made_by_hierarchy) {
  for (Collective collective : {Collective::all_reduce, Collective::reduce_scatter, Collective::reduce, Collective::scan, Collective::exscan})
    for (Order order : {Order::tree, Order::hops}) {
      const Query query{.collective = collective, .ranks = 4, .bytes = 1_MiB, .hosts = testing::in_a_row({2, 2}), .order = order};
      const Algorithm* algorithm = find_algorithm(collective, choice(query));
      ASSERT_NE(algorithm, nullptr) << choice(query);
      EXPECT_EQ(algorithm->need, Need::links) << name_of(collective);
      EXPECT_LE(algorithm->order, order);
    }
}

TEST(Rules, every_rule_names_an_algorithm_that_can_hold_its_size_and_says_why) {
  for (const Rule& rule : all_rules()) {
    const Algorithm* algorithm = find_algorithm(rule.collective, rule.algorithm);
    ASSERT_NE(algorithm, nullptr) << rule.algorithm;
    const bool has_bytes = rule.collective != Collective::barrier;
    EXPECT_TRUE(!has_bytes || rule.up_to_bytes <= capacity_of(algorithm->path)) << rule.algorithm;
    EXPECT_FALSE(rule.why.empty());
  }
}

TEST(Rules, of_a_collective_stand_together) {
  int changes = 0;
  for (size_t index = 1; index < all_rules().size(); ++index)
    changes += all_rules()[index].collective != all_rules()[index - 1].collective;
  EXPECT_EQ(changes + 1, static_cast<int>(all_collectives().size()));
}

TEST(Plans, carry_the_schedule_of_the_rank_that_asks) {
  Planner planner;
  const Query query{.collective = Collective::broadcast, .ranks = 5, .rank = 3, .root = 2, .bytes = 1_MiB};
  const Plan& plan = *planner.plan(query).value();
  EXPECT_EQ(plan.path, Path::schedule);
  ASSERT_NE(plan.schedule, nullptr);
  EXPECT_EQ(plan.schedule->place, (Place{3, 5, 2}));
  EXPECT_EQ(plan.schedule->algorithm, "direct");
}

TEST(Plans, are_made_for_the_hosts_that_are_asked_for) {
  Planner planner(*PlannerRules::parse("all_reduce=ring"));
  Query query{.collective = Collective::all_reduce, .ranks = 4, .bytes = 1_MiB, .hosts = testing::in_a_row({2, 2})};
  EXPECT_EQ(planner.plan(query).value()->schedule->place.hosts, query.hosts);
  query.hosts = testing::in_a_row({1, 3});
  EXPECT_EQ(planner.plan(query).value()->schedule->place.hosts, query.hosts);
}

TEST(Plans, are_made_once) {
  Planner planner;
  Query query{.collective = Collective::all_reduce, .ranks = 3, .rank = 1, .bytes = 100_KiB};
  const Plan* first = planner.plan(query).value();
  query.bytes = 200_KiB;
  EXPECT_EQ(planner.plan(query).value(), first);
  query.root = 2;  // an all_reduce has none
  EXPECT_EQ(planner.plan(query).value(), first);
  query.bytes = 100_MiB;
  const Plan* large = planner.plan(query).value();
  EXPECT_NE(large, first);
  EXPECT_EQ(large->schedule, first->schedule);
  query.rank = 2;
  EXPECT_NE(planner.plan(query).value()->schedule, first->schedule);
}

TEST(Plans, on_hand_written_paths_have_no_schedule_and_no_tiles) {
  Planner planner;
  const Plan& plan = *planner.plan({.collective = Collective::all_reduce, .ranks = 2, .bytes = 64}).value();
  EXPECT_EQ(plan.path, Path::slot);
  EXPECT_EQ(plan.schedule, nullptr);
  EXPECT_EQ(plan.tile_bytes, 0);
}

TEST(Plans, have_tiles_that_fit_a_slot_set) {
  for (int ranks : {2, 3, 8, 64})
    for (bool crowded : {false, true})
      for (int64_t wanted : {int64_t{0}, int64_t{100}, 1_MiB})
        for (int64_t set_bytes : {128_KiB, 4_MiB}) {
          Planner planner(PlannerRules{.tile_bytes = wanted});
          const Query query{.collective = Collective::all_reduce,
                            .ranks = ranks,
                            .bytes = 64_MiB,
                            .crowded = crowded,
                            .set_bytes = set_bytes};
          const Plan& plan = *planner.plan(query).value();
          EXPECT_LE(plan.tile_bytes * plan.schedule->stage_slots, set_bytes);
          EXPECT_GT(plan.tile_bytes, 0);
          EXPECT_EQ(plan.tile_bytes % 64, 0);
          EXPECT_TRUE(wanted != 100 || plan.tile_bytes == 128);
        }
}

TEST(Plans, are_larger_in_tiles_when_crowded) {
  Planner planner;
  Query query{.collective = Collective::all_reduce, .ranks = 2, .bytes = 64_MiB, .set_bytes = 4_MiB};
  EXPECT_EQ(planner.plan(query).value()->tile_bytes, 32_KiB);
  query.crowded = true;
  EXPECT_EQ(planner.plan(query).value()->tile_bytes, 1_MiB);
}

TEST(Plans, differ_in_fingerprint_when_algorithm_tiling_or_hosts_differ) {
  const Query query{.collective = Collective::all_reduce, .ranks = 2, .bytes = 100_KiB};
  Query other_rank = query;
  other_rank.rank = 1;
  const auto fingerprint = [](const Query& asked, std::string_view setting, int64_t tile_bytes) {
    Planner planner(*PlannerRules::parse(setting, tile_bytes));
    return planner.plan(asked).value()->fingerprint();
  };
  EXPECT_EQ(fingerprint(query, "", 0), fingerprint(other_rank, "", 0));
  EXPECT_NE(fingerprint(query, "", 0), fingerprint(query, "all_reduce=two_shot", 0));
  EXPECT_NE(fingerprint(query, "", 0), fingerprint(query, "", 4096));
  Query on_two_hosts{.collective = Collective::all_reduce, .ranks = 4, .bytes = 100_KiB, .hosts = testing::in_a_row({2, 2})};
  Query on_others = on_two_hosts;
  on_others.hosts = testing::in_a_row({1, 3});
  const std::string_view same_plan = "all_reduce=ring";
  EXPECT_NE(fingerprint(on_two_hosts, same_plan, 0), fingerprint(on_others, same_plan, 0));
  on_others.hosts = testing::in_a_row({2, 2});
  on_others.rank = 3;
  EXPECT_EQ(fingerprint(on_two_hosts, same_plan, 0), fingerprint(on_others, same_plan, 0));
}

TEST(Overrides, come_before_the_table_within_their_sizes) {
  const std::string_view setting = "all_reduce:0-64K=ring, broadcast=direct,all_reduce:1M-=one_shot";
  EXPECT_EQ(choice({.collective = Collective::all_reduce, .ranks = 4, .bytes = 64_KiB}, setting), "ring");
  EXPECT_EQ(choice({.collective = Collective::all_reduce, .ranks = 4, .bytes = 64_KiB + 1}, setting), "two_shot");
  EXPECT_EQ(choice({.collective = Collective::all_reduce, .ranks = 4, .bytes = 2_MiB}, setting), "one_shot");
  EXPECT_EQ(choice({.collective = Collective::broadcast, .ranks = 4, .bytes = 1}, setting), "direct");
  EXPECT_EQ(choice({.collective = Collective::reduce, .ranks = 4, .bytes = 1}, setting), "slot");
  EXPECT_EQ(
      choice({.collective = Collective::all_reduce, .ranks = 4, .bytes = 1}, "all_reduce=ring,all_reduce=one_shot"),
      "ring");
}

TEST(Overrides, give_their_own_text_as_the_reason) {
  Planner planner(*PlannerRules::parse("all_reduce=two_shot,reduce:-1K=direct"));
  EXPECT_EQ(planner.plan({.collective = Collective::reduce, .ranks = 2, .bytes = 1_KiB}).value()->why,
            "reduce:-1K=direct");
}

TEST(Overrides, that_cannot_be_read_name_the_part_and_what_could_stand_there) {
  const auto error = [](std::string_view setting) { return PlannerRules::parse(setting).status().text(); };
  EXPECT_EQ(
      error("broadcast=direct,all_reduce:0-64K=rings"),
      "InitError: UNISONO_PLAN: \"all_reduce:0-64K=rings\": \"rings\" is not an algorithm of all_reduce; there are "
      "slot, combine, one_shot, two_shot, two_shot_direct, ring, doubling, halving, collecting, hierarchy");
  EXPECT_EQ(error("allreduce=ring"),
            "InitError: UNISONO_PLAN: \"allreduce=ring\": \"allreduce\" is not a collective; there are all_reduce, "
            "all_gather, "
            "reduce_scatter, reduce, scatter, gather, broadcast, all_to_all, scan, exscan, barrier");
  EXPECT_EQ(error("all_reduce"),
            "InitError: UNISONO_PLAN: \"all_reduce\": write collective=algorithm, as in all_reduce=two_shot");
  EXPECT_EQ(error("all_reduce:64K=ring"),
            "InitError: UNISONO_PLAN: \"all_reduce:64K=ring\": sizes are written from-to, as in 0-64K or 1M-");
  EXPECT_EQ(error("all_reduce:0-64Q=ring"),
            "InitError: UNISONO_PLAN: \"all_reduce:0-64Q=ring\": \"64Q\" is not a size; write bytes, or a number with "
            "K, M or G");
  EXPECT_EQ(error("all_reduce:2K-1K=ring"),
            "InitError: UNISONO_PLAN: \"all_reduce:2K-1K=ring\": the sizes run backwards");
  EXPECT_EQ(error("all_reduce=ring,,"),
            "InitError: UNISONO_PLAN: \"\": write collective=algorithm, as in all_reduce=two_shot");
  EXPECT_EQ(error(" "), "OK");
}

TEST(Overrides, that_cannot_be_followed_are_refused_with_the_reason) {
  EXPECT_EQ(
      choice({.collective = Collective::all_reduce, .ranks = 4, .bytes = 1_MiB}, "all_reduce=slot"),
      "ArgumentError: UNISONO_PLAN: \"all_reduce=slot\" cannot be followed for all_reduce of 1 MiB among 4 ranks: each "
      "rank "
      "shows 1 MiB here and slot holds at most 8 KiB; give it a range, as in all_reduce:0-8K=slot. There are slot, "
      "combine, one_shot, two_shot, two_shot_direct, ring, doubling, halving, collecting, hierarchy");
  EXPECT_TRUE(
      contains(choice({.collective = Collective::all_to_all, .ranks = 65, .bytes = 1_KiB}, "all_to_all=combine"),
               "each rank shows 65 KiB here and combine holds at most 64 KiB"));
  const Query large{.collective = Collective::all_reduce, .ranks = 4, .bytes = 1_MiB};
  EXPECT_TRUE(contains(choice(large, "all_reduce=two_shot_direct"),
                       "reads the peers' own memory, which is not permitted here"));
  Query spread = large;
  spread.hosts = apart(4);
  EXPECT_TRUE(contains(choice(spread, "all_reduce=two_shot"), "two_shot needs all ranks on one host"));
  EXPECT_TRUE(contains(choice(large, "all_reduce=hierarchy"), "hierarchy needs several hosts, at least one of which has several ranks"));
  EXPECT_TRUE(contains(choice(spread, "all_reduce=hierarchy"), "hierarchy needs several hosts, at least one of which has several ranks"));
  spread.hosts = testing::in_a_row({2, 2});
  spread.order = Order::tree;
  EXPECT_TRUE(contains(choice(spread, "all_reduce=hierarchy"), "hierarchy adds up in an order of its own"));
}

TEST(Overrides, can_all_be_followed_in_a_world_of_one) {
  for (const Algorithm& algorithm : catalogue())
    EXPECT_EQ(choice({.collective = algorithm.collective, .ranks = 1, .bytes = 1_KiB},
                     fmt::format("{}={}", name_of(algorithm.collective), algorithm.name)),
              algorithm.name);
}

// Peers do not know where the tensors of such a call lie; other calls go on as they are told to.
TEST(Overrides, that_read_peers_memory_do_not_speak_of_coalesced_calls) {
  for (int ranks : {1, 2, 4}) {
    Query query{.collective = Collective::all_reduce, .ranks = ranks, .bytes = 4_MiB, .peer_reads = true, .coalesced = true};
    for (Collective collective : {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter}) {
      query.collective = collective;
      EXPECT_FALSE(contains(choice(query), "direct_read")) << ranks;
      EXPECT_FALSE(contains(choice(query), "two_shot_direct")) << ranks;
    }
    query.collective = Collective::all_reduce;
    EXPECT_EQ(choice(query, "all_reduce=two_shot_direct"), choice(query));
    EXPECT_EQ(choice(query, "all_reduce=ring"), "ring");
    query.coalesced = false;
    EXPECT_EQ(choice(query, "all_reduce=two_shot_direct"), "two_shot_direct");
  }
}

TEST(Explain, gives_choice_reason_cost_steps_and_what_to_set) {
  Result<std::string> text = explain({.query = {.collective = Collective::all_reduce, .ranks = 4, .bytes = 1_MiB}});
  ASSERT_TRUE(text.ok());
  for (std::string_view part :
       {"all_reduce of 1 MiB among 4 ranks\n", "choice:     two_shot\n",
        "why:        each byte is staged once each way", "4 slots of 32 KiB, 2 in flight",
        "predicted:  241.4 us, 2 rounds, the busiest rank reads 1.5 MiB", "schedule all_reduce two_shot rank 0 of 4",
        "schedule all_reduce two_shot rank 3 of 4", "    9  read_peer stage[0] of 0 -> output[0]\n",
        "  one_shot         461.5 us, 1 round", "  slot             holds at most 8 KiB of each rank",
        "UNISONO_PLAN=\"all_reduce=NAME\""})
    EXPECT_TRUE(contains(*text, part)) << part << "\nis not in\n" << *text;
}

TEST(Explain, shows_some_ranks_of_many) {
  Result<std::string> text =
      explain({.query = {.collective = Collective::broadcast, .ranks = 20, .root = 7, .bytes = 1_MiB}});
  ASSERT_TRUE(text.ok());
  EXPECT_TRUE(contains(*text, "4 of 20 ranks are shown"));
  for (int rank = 0; rank < 20; ++rank)
    EXPECT_EQ(contains(*text, fmt::format("rank {} of 20", rank)), rank < 2 || rank == 7 || rank == 19) << rank;
}

TEST(Explain, says_what_a_hand_written_path_does) {
  Result<std::string> text = explain({.query = {.collective = Collective::all_reduce, .ranks = 3, .bytes = 64}});
  ASSERT_TRUE(text.ok());
  EXPECT_TRUE(contains(*text, "choice:     slot\n"));
  EXPECT_TRUE(contains(*text, "all_reduce slot rank 1 of 3 root 0, by hand\n"
                              "    0  show input, and the call's word beside it\n"
                              "    1  await the same word of 0, 2\n"
                              "    2  combine input with what 0, 2 show, in the order of the ranks -> output\n")) << *text;
  EXPECT_FALSE(contains(*text, "stage[0]")) << "of a schedule, which is not what runs";
  const Result<std::string> crowded =
      explain({.query = {.collective = Collective::all_reduce, .ranks = 3, .bytes = 64, .crowded = true}});
  EXPECT_TRUE(contains(crowded.value(), "more ranks than cores"));
  EXPECT_TRUE(contains(crowded.value(), "predicted:  not modelled"));
  EXPECT_TRUE(contains(crowded.value(), "unless it was the last: copy the result of whoever was -> output"));
  // Each of the 22 says what each of its ranks does, and nothing of a schedule.
  for (Collective collective : all_collectives())
    for (bool many : {false, true}) {
      const auto by_hand = explain({.query = {.collective = collective, .ranks = 3, .root = 1, .bytes = 64, .crowded = many}});
      EXPECT_TRUE(contains(by_hand.value(), fmt::format("{} {} rank 2 of 3 root 1, by hand", name_of(collective), many ? "combine" : "slot")));
      EXPECT_FALSE(contains(by_hand.value(), "schedule ")) << by_hand.value();
    }
}

TEST(Explain, shows_the_hosts_and_what_runs_on_them) {
  const Query query{.collective = Collective::all_reduce, .ranks = 8, .bytes = 1_MiB, .hosts = testing::in_a_row({4, 4})};
  const std::string text = explain({.query = query}).value();
  for (std::string_view part :
       {"all_reduce of 1 MiB among 8 ranks on hosts 4,4\n", "choice:     hierarchy\n", "tiles:      4 slots of 32 KiB, 2 in flight\n",
        "the busiest rank sends 256 KiB, the busiest host 1 MiB\n", "hosts 4,4\nteam[0] 4 5 6 7\n",
        "schedule all_reduce hierarchy rank 7 of 8", "  two_shot         needs all ranks on one host\n", "  slot             needs all ranks on one host\n",
        "  ring             "})
    EXPECT_TRUE(contains(text, part)) << part << "\nis not in\n" << text;
  Planner planner;
  EXPECT_TRUE(contains(text, text_of(*planner.plan(query).value()->schedule))) << "what is printed is what runs";
  const std::string one_host = explain({.query = {.collective = Collective::all_reduce, .ranks = 8, .bytes = 1_MiB}}).value();
  EXPECT_TRUE(contains(one_host, "  hierarchy        needs several hosts, at least one of which has several ranks\n")) << one_host;
  const Query apart{.collective = Collective::all_reduce, .ranks = 2, .bytes = 64_MiB, .hosts = testing::in_a_row({1, 1})};
  EXPECT_TRUE(contains(explain({.query = apart}).value(), "tiles:      none: nothing is staged"));
  EXPECT_TRUE(contains(explain({.query = apart, .widened = 2}).value(), "tiles:      1 MiB of a chunk, one at a time"));
}

TEST(Explain, passes_on_what_the_planner_refuses) {
  Result<std::string> text = explain({.query = {.collective = Collective::all_reduce, .ranks = 2, .bytes = 1_MiB},
                                      .rules = *PlannerRules::parse("all_reduce=slot")});
  EXPECT_EQ(text.status().code(), ErrorCode::argument);
}

}  // namespace
}  // namespace unisono
