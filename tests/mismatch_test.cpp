// One rank makes another call than the others: everybody is told who and what, nobody's memory changes, and the group goes
// on. Lists, shapes, asynchronous calls and plans: mismatch_forms_test.cpp.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/calls.hpp"
#include "tests/support/children.hpp"
#include "tests/support/outcomes.hpp"

namespace unisono::testing {
namespace {

// Which call the odd rank makes, which the others, and what everybody's text must say of the difference.
struct Case {
  CallChoice usual, odd;
  std::vector<std::string> words;
};

Case different(Collective kind, const std::string& field, const CallChoice& usual, const CallChoice& odd) {
  Case result{usual, odd, {fmt::format("{} {}: ", name_of(kind), field)}};
  result.usual.kind = result.odd.kind = kind;
  return result;
}

std::string values(const auto& one, const auto& other) { return fmt::format("{}|{}", one, other); }

// Every text names both values, each beside its rank.
void expect_says_both(const std::string& text, const std::string& one, const std::string& other, int odd_rank) {
  EXPECT_NE(text.find(fmt::format("rank {} = {}", odd_rank, other)), std::string::npos) << text << "\nshould give rank " << odd_rank << " " << other;
  EXPECT_NE(text.find(fmt::format("= {}", one)), std::string::npos) << text << "\nshould give somebody " << one;
}

int odd_rank_of(int round, int ranks) { return (round * 7 + round / ranks) % ranks; }

void expect_everybody_told(const Outcomes& outcomes, int round, const Case& wanted) {
  const int ranks = outcomes.ranks(), odd = odd_rank_of(round, ranks);
  const std::string text = outcomes.of(0, round).text();
  for (int rank = 0; rank < ranks; ++rank) {
    const Outcome& outcome = outcomes.of(rank, round);
    ASSERT_EQ(outcome.code, ErrorCode::mismatch) << "rank " << rank << ", round " << round << ": " << outcome.text();
    EXPECT_EQ(outcome.text(), text) << "rank " << rank;
    EXPECT_TRUE(rank == odd ? outcome.peer != odd && outcome.peer >= 0 : true) << "rank " << rank << " blames " << outcome.peer;
  }
  for (const std::string& word : wanted.words) {
    size_t bar = word.find('|');
    if (bar != std::string::npos)
      expect_says_both(text, word.substr(0, bar), word.substr(bar + 1), odd);
    else
      EXPECT_NE(text.find(word), std::string::npos) << text << "\nshould say " << word;
  }
  EXPECT_LT(outcomes.took_s(round), 1.0) << text;
}

void expect_all_noticed(const Worlds& worlds, const std::vector<Case>& cases) {
  for (Kind kind : worlds.kinds) {
    for (int ranks : worlds.sizes) {
      Outcomes outcomes(ranks, static_cast<int>(cases.size()));
      Worlds one = testing::ranks(ranks).with(kind);
      one.settings = worlds.settings;
      for_each_world(one, [&](TestWorld& world) {
        for (int round = 0; round < outcomes.rounds(); ++round) {
          const Case& wanted = cases[static_cast<size_t>(round)];
          bool odd = world.rank() == odd_rank_of(round, world.ranks());
          Scratch scratch;
          outcomes.note(world.rank(), round, [&] { make_call(world.group(), scratch, odd ? wanted.odd : wanted.usual); });
          ASSERT_TRUE(scratch.is_untouched()) << "round " << round << " changed memory of rank " << world.rank();
          if (round % 2 == 0) expect_works(world);
        }
        expect_works(world);
      });
      SCOPED_TRACE(fmt::format("{} ranks as {}", ranks, kind == Kind::threads ? "threads" : "processes"));
      for (int round = 0; round < outcomes.rounds(); ++round)
        expect_everybody_told(outcomes, round, cases[static_cast<size_t>(round)]);
    }
  }
}

Worlds worlds() {
  Worlds worlds = small_run() ? ranks({3}) : full_run() ? ranks({2, 3, 4, 5}) : ranks({2, 3, 5});
  return under_thread_sanitizer() ? worlds.with(Kind::threads) : worlds;
}

Worlds crowded() {
  return worlds().with([](Settings& settings) { settings.cores = 1; });
}

bool has_data(Collective kind) { return kind != Collective::barrier; }
bool reduces(Collective kind) {
  return kind == Collective::all_reduce || kind == Collective::reduce || kind == Collective::reduce_scatter;
}
bool has_root(Collective kind) {
  return kind == Collective::reduce || kind == Collective::scatter || kind == Collective::broadcast || kind == Collective::gather;
}

std::vector<Case> different_counts() {
  std::vector<Case> cases;
  for (Collective kind : all_collectives())
    for (int64_t count : {11, 9, 0, 20})
      if (has_data(kind)) {
        cases.push_back(different(kind, "count", {.count = 10}, {.count = count}));
        cases.back().words.push_back(values(10, count));
      }
  return cases;
}

TEST(Mismatch, different_counts_are_told_to_everybody) { expect_all_noticed(worlds(), different_counts()); }

TEST(Mismatch, different_counts_are_told_to_everybody_where_the_last_to_arrive_combines) {
  expect_all_noticed(crowded(), different_counts());
}

TEST(Mismatch, different_dtypes_are_told_to_everybody_even_of_equal_width) {
  std::vector<Case> cases;
  for (Collective kind : all_collectives())
    for (auto [one, other] : {std::pair(DType::float32, DType::int32), std::pair(DType::float32, DType::float64),
                              std::pair(DType::int8, DType::uint8), std::pair(DType::float16, DType::bfloat16),
                              std::pair(DType::complex64, DType::float64)})
      if (has_data(kind)) {
        cases.push_back(different(kind, "dtype", {.dtype = one}, {.dtype = other}));
        cases.back().words.push_back(values(name_of(one), name_of(other)));
      }
  expect_all_noticed(worlds(), cases);
}

TEST(Mismatch, different_operations_and_factors_are_told_to_everybody) {
  std::vector<Case> cases;
  for (Collective kind : all_collectives()) {
    if (!reduces(kind)) continue;
    for (auto [one, other] : {std::pair(ReduceOp::sum, ReduceOp::avg), std::pair(ReduceOp::sum, ReduceOp::product),
                              std::pair(ReduceOp::min, ReduceOp::max), std::pair(ReduceOp::band, ReduceOp::bor),
                              std::pair(ReduceOp::bxor, ReduceOp::sum)}) {
      cases.push_back(different(kind, "op", {.dtype = DType::int32, .op = one}, {.dtype = DType::int32, .op = other}));
      cases.back().words.push_back(values(name_of(one.kind), name_of(other.kind)));
    }
    cases.push_back(different(kind, "op", {.op = ReduceOp::premul_sum(2)}, {.op = ReduceOp::premul_sum(3)}));
    cases.back().words.push_back(values("premul_sum(2)", "premul_sum(3)"));
    cases.push_back(different(kind, "op", {.op = ReduceOp::premul_sum(1)}, {.op = ReduceOp::sum}));
    cases.back().words.push_back(values("premul_sum(1)", "sum"));
  }
  expect_all_noticed(worlds(), cases);
}

TEST(Mismatch, different_roots_are_told_to_everybody) {
  std::vector<Case> cases;
  for (Collective kind : all_collectives())
    for (auto [one, other] : {std::pair(0, 1), std::pair(1, 0)})
      if (has_root(kind)) {
        cases.push_back(different(kind, "root", {.root = one}, {.root = other}));
        cases.back().words.push_back(values(one, other));
      }
  expect_all_noticed(worlds(), cases);
  expect_all_noticed(crowded(), cases);
}

TEST(Mismatch, all_pairs_of_collectives_are_told_apart) {
  std::vector<Case> cases;
  for (Collective one : all_collectives())
    for (Collective other : all_collectives())
      if (one != other) {
        cases.push_back({{.kind = one}, {.kind = other}, {"call: ", values(name_of(one), name_of(other)), "call #"}});
      }
  expect_all_noticed(worlds(), cases);
  expect_all_noticed(crowded(), cases);
}

// Sizes on every path: beside the word, in a slot, combined, one_shot and two_shot, and read from the peer's own memory.
TEST(Mismatch, calls_that_take_different_paths_through_memory_are_told_apart) {
  std::vector<Case> cases;
  const std::vector<int64_t> counts = {1, 1000, 5000, 50'000, 400'000};
  for (Collective kind : {Collective::all_reduce, Collective::all_gather, Collective::broadcast})
    for (int64_t one : counts)
      for (int64_t other : counts)
        if (one != other) {
          cases.push_back(different(kind, "count", {.count = one}, {.count = other}));
          cases.back().words.push_back(values(one, other));
        }
  expect_all_noticed(worlds(), cases);
  expect_all_noticed(crowded(), cases);
}

// Without a good call in between, ranks run one call ahead of each other and every verdict meets the next.
TEST(Mismatch, a_hundred_in_a_row_name_the_same_two_ranks_everywhere) {
  for (Kind kind : worlds().kinds) {
    for (int ranks : worlds().sizes) {
      const int rounds = full_run() ? 2000 : 100;
      Outcomes outcomes(ranks, rounds);
      const int64_t started_ns = now_ns();
      for_each_world(testing::ranks(ranks).with(kind), [&](TestWorld& world) {
        for (int round = 0; round < rounds; ++round) {
          Scratch scratch;
          outcomes.note(world.rank(), round, [&] { make_call(world.group(), scratch, {.count = 1 + world.rank()}); });
          ASSERT_TRUE(scratch.is_untouched());
        }
        expect_works(world);
      });
      EXPECT_LT(static_cast<double>(now_ns() - started_ns) * 1e-9, rounds * 0.05) << "nobody is left asleep";
      for (int round = 0; round < rounds; ++round)
        for (int rank = 0; rank < ranks; ++rank) {
          ASSERT_EQ(outcomes.of(rank, round).code, ErrorCode::mismatch) << outcomes.of(rank, round).text();
          ASSERT_EQ(outcomes.of(rank, round).text(), outcomes.of(0, round).text()) << "rank " << rank << " of " << ranks << ", round " << round;
          ASSERT_LT(outcomes.took_s(round), 1.0);
        }
    }
  }
}

}  // namespace
}  // namespace unisono::testing
