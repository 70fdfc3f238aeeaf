// Same bits: all ranks always get the same from an all_reduce; and where reproducible reductions are asked for, the bits are
// those of one pass over all contributions, by whatever algorithm, tiles, number of cores and kind of ranks.
//
// Worlds follow from their seed alone, and so do the numbers: every rank can work out what every other gives.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>

#include "algorithms/catalogue.hpp"
#include "kernels/kernels.hpp"
#include "planner/planner.hpp"
#include "tests/support/calls.hpp"
#include "tests/support/hosts.hpp"
#include "tests/support/scale.hpp"
#include "tests/support/test_world.hpp"

namespace unisono {
namespace {

using testing::for_each_world;
using testing::Kind;
using testing::ranks;
using testing::Scale;
using testing::scale;
using testing::TestWorld;

using Bytes = std::vector<std::byte>;

struct Format {
  DType dtype;
  int exponent_bits, fraction_bits;
};

constexpr Format formats[] = {
    {DType::float16, 5, 10}, {DType::bfloat16, 8, 7},     {DType::float32, 8, 23},
    {DType::float64, 11, 52}, {DType::float8_e4m3fn, 4, 3}, {DType::float8_e5m2, 5, 2},
};

// A number of about 1, so that every addition rounds; or any bits at all: infinities, NaN, numbers too small to be normal.
uint64_t random_bits(const Format& format, std::mt19937_64& random) {
  const uint64_t any = random(), kind = random() % 16;
  const uint64_t fraction = any & ((uint64_t{1} << format.fraction_bits) - 1), sign = any >> 63;
  const uint64_t largest = (uint64_t{1} << format.exponent_bits) - 1, bias = largest / 2;
  uint64_t exponent = std::min(bias - 2 + (any >> 55) % 5, largest);
  if (kind == 0) exponent = (any >> 40) & largest;
  if (kind == 1) exponent = 0;
  if (kind == 2 && fraction % 8 == 0) exponent = largest;
  return (sign << format.exponent_bits | exponent) << format.fraction_bits | fraction;
}

Bytes random_numbers(const Format& format, uint64_t seed, int rank, int64_t count) {
  std::mt19937_64 random(seed * 64 + static_cast<uint64_t>(rank));
  const int64_t element = element_bytes(format.dtype);
  Bytes numbers(static_cast<size_t>(count * element));
  for (int64_t index = 0; index < count; ++index) {
    const uint64_t bits = random_bits(format, random);
    std::memcpy(numbers.data() + index * element, &bits, static_cast<size_t>(element));  // the low bytes come first here
  }
  return numbers;
}

// One world: how many ranks, which algorithms, which tiles.
struct Round {
  uint64_t seed = 0;
  int size = 1;
  bool reproducible = false;
  std::map<Collective, const Algorithm*> algorithms;
  testing::Worlds worlds;
};

constexpr Collective reducing[] = {Collective::all_reduce, Collective::reduce, Collective::reduce_scatter, Collective::scan,
                                   Collective::exscan};

Round random_round(uint64_t seed) {
  std::mt19937_64 random(seed);
  Round round;
  round.seed = seed;
  round.size = 1 + static_cast<int>(random() % 9);
  round.reproducible = random() % 3 != 0;
  std::string plan;
  for (Collective collective : reducing) {
    std::vector<const Algorithm*> possible;
    for (const Algorithm& algorithm : catalogue())
      if (algorithm.collective == collective && algorithm.is_for_one_host()) possible.push_back(&algorithm);
    const Algorithm* algorithm = round.algorithms[collective] = possible[random() % possible.size()];
    const int64_t capacity = capacity_of(algorithm->path);
    plan += fmt::format("{}{}{}={}", plan.empty() ? "" : ",", name_of(collective),
                        capacity == unlimited ? "" : fmt::format(":0-{}", capacity), algorithm->name);
  }
  const int64_t tiles[] = {0, 64, 1024, 10'000}, cores[] = {0, 1, 64};
  round.worlds = ranks(round.size).with(random() % 4 == 0 ? Kind::processes : Kind::threads).with([&](Settings& settings) {
    settings.plan = plan;
    settings.reproducible = round.reproducible;
    settings.tile_bytes = tiles[random() % 4];
    settings.cores = cores[random() % 3];
  });
  return round;
}

struct Sum {
  uint64_t seed;
  Format format;
  ReduceOp op;
  int64_t count;  // of the data, or of one piece
};

Sum random_sum(uint64_t seed) {
  std::mt19937_64 random(seed);
  const ReduceOp ops[] = {ReduceOp::sum, ReduceOp::sum,     ReduceOp::avg, ReduceOp::product,
                          ReduceOp::min, ReduceOp::max, ReduceOp::premul_sum(0.3)};
  const int64_t largest = int64_t{1} << (4 + random() % 13);
  const Format& format = formats[random() % std::size(formats)];
  return {seed, format, ops[random() % std::size(ops)], static_cast<int64_t>(random()) & (largest - 1)};
}

Bytes in_one_pass(const Sum& sum, int contributors, int size, int64_t first, int64_t count) {
  const int64_t element = element_bytes(sum.format.dtype);
  std::vector<Bytes> inputs;
  std::vector<const void*> sources;
  for (int rank = 0; rank < contributors; ++rank)
    inputs.push_back(random_numbers(sum.format, sum.seed, rank, first + count));
  for (const Bytes& input : inputs) sources.push_back(input.data() + first * element);
  Bytes result(static_cast<size_t>(count * element));
  reduce({sum.format.dtype, sum.op, size}, {.target = result.data(), .sources = sources, .count = count});
  return result;
}

// What this rank gets, by the collective that is tried; empty where it gets nothing.
Bytes got(TestWorld& world, Collective kind, const Sum& sum) {
  const int64_t pieces = kind == Collective::reduce_scatter ? world.ranks() : 1;
  Bytes data = random_numbers(sum.format, sum.seed, world.rank(), sum.count * pieces), piece = data;
  piece.resize(data.size() / static_cast<size_t>(pieces));
  const TensorView whole{data.data(), sum.format.dtype, Shape{sum.count * pieces}};
  const distributed::ReduceOptions options{.op = sum.op, .group = world.group(), .async_op = sum.seed % 2 == 0, .timeout_s = {}};
  WorkPtr work;
  if (kind == Collective::all_reduce) work = distributed::all_reduce(whole, options);
  if (kind == Collective::scan) work = distributed::scan(whole, options);
  if (kind == Collective::exscan) work = distributed::exscan(whole, options);
  if (kind == Collective::reduce_scatter)
    work = distributed::reduce_scatter_tensor({piece.data(), sum.format.dtype, Shape{sum.count}}, whole, options);
  if (kind == Collective::reduce)
    work = distributed::reduce(whole, world.ranks() - 1,
                               {sum.op, world.group(), options.async_op, /*timeout_s=*/{}, /*group_dst=*/{}});
  if (work) work->wait();
  if (kind == Collective::reduce && world.rank() != world.ranks() - 1) return {};
  if (kind == Collective::exscan && world.rank() == 0) return {};
  return kind == Collective::reduce_scatter ? piece : data;
}

Bytes wanted(TestWorld& world, Collective kind, const Sum& sum) {
  const int me = world.rank(), n = world.ranks();
  if (kind == Collective::reduce_scatter) return in_one_pass(sum, n, n, me * sum.count, sum.count);
  const int contributors = kind == Collective::scan ? me + 1 : kind == Collective::exscan ? me : n;
  return in_one_pass(sum, contributors, n, 0, sum.count);
}

void expect_same_on_all_ranks(TestWorld& world, Bytes mine) {
  Bytes all(mine.size() * static_cast<size_t>(world.ranks()));
  const auto view_of = [](Bytes& bytes) {
    return TensorView{bytes.data(), DType::uint8, Shape{static_cast<int64_t>(bytes.size())}};
  };
  distributed::all_gather_into_tensor(view_of(all), view_of(mine), {.group = world.group()});
  for (int rank = 0; rank < world.ranks() && !mine.empty(); ++rank)
    EXPECT_EQ(std::memcmp(all.data() + static_cast<size_t>(rank) * mine.size(), mine.data(), mine.size()), 0)
        << "rank " << rank << " and rank " << world.rank() << " have different bits";
}

// Whether the plan of a round may be followed. It says nothing of calls that are too large for its algorithm.
bool is_possible(const Round& round, Collective kind, const Sum& sum) {
  const Algorithm& algorithm = *round.algorithms.at(kind);
  const int64_t shown = sum.count * element_bytes(sum.format.dtype) * (kind == Collective::reduce_scatter ? round.size : 1);
  const bool in_any_order = sum.op == ReduceOp::min || sum.op == ReduceOp::max;
  if (!round.reproducible || in_any_order || shown > capacity_of(algorithm.path)) return true;
  return algorithm.order == Order::tree || (algorithm.order == Order::hops && !rounds_partials(sum.format.dtype));
}

void perform(TestWorld& world, const Round& round, Collective kind, const Sum& sum) {
  const bool scans = kind == Collective::scan || kind == Collective::exscan;
  if (scans && sum.op == ReduceOp::avg) return;
  SCOPED_TRACE(fmt::format("{} {} of {}[{}], seed {}, rank {} of {}", name_of(kind), name_of(sum.op.kind),
                           name_of(sum.format.dtype), sum.count, sum.seed, world.rank(), round.size));
  if (!is_possible(round, kind, sum)) {
    EXPECT_THROW(got(world, kind, sum), ArgumentError);
    return;
  }
  const Bytes found = got(world, kind, sum);
  if (kind == Collective::all_reduce) expect_same_on_all_ranks(world, found);
  if (round.reproducible && !found.empty()) {
    EXPECT_EQ(found, wanted(world, kind, sum));
  }
}

TEST(SameBits, on_all_ranks_and_where_asked_for_by_every_plan) {
  const uint64_t rounds = scale() == Scale::small ? 8 : scale() == Scale::normal ? 60 : 600;
  for (uint64_t seed = 1; seed <= rounds && !HasFailure(); ++seed) {
    const Round round = random_round(seed);
    SCOPED_TRACE(fmt::format("round {}, {}: {}", seed, round.reproducible ? "reproducible" : "any order",
                             round.worlds.settings.plan));
    for_each_world(round.worlds, [&](TestWorld& world) {
      for (uint64_t call = 0; call < 10; ++call)
        perform(world, round, reducing[call % std::size(reducing)], random_sum(seed * 100 + call));
    });
  }
}

TEST(SameBits, of_whole_numbers_need_no_order) {
  auto worlds = ranks(3).with([](Settings& settings) {
    settings.plan = "all_reduce=ring";
    settings.reproducible = true;
  });
  for_each_world(worlds, [](TestWorld& world) {
    testing::expect_works(world);
    std::vector<double> data(10, world.rank());
    EXPECT_THROW(distributed::all_reduce(view(data), {.group = world.group()}), ArgumentError);
    distributed::all_reduce(view(data), {.op = ReduceOp::max, .group = world.group()});
    EXPECT_EQ(data, std::vector<double>(10, 2));
  });
}

// That the numbers above can tell one order from another: otherwise the test could not fail. Those of float16 are added in float32, where
// so few of them are exact in any order.
TEST(SameBits, of_a_ring_are_others) {
  for (size_t dtype : {size_t{2}, size_t{3}})
    for (const char* plan : {"all_reduce=ring", "all_reduce=halving"}) {
      const Sum sum{7, formats[dtype], ReduceOp::sum, 1000};
      auto worlds = ranks(5).with(Kind::threads).with([plan](Settings& settings) { settings.plan = plan; });
      for_each_world(worlds, [&](TestWorld& world) {
        EXPECT_NE(got(world, Collective::all_reduce, sum), wanted(world, Collective::all_reduce, sum));
      });
    }
}

// Their sums travel from rank to rank, in float32 where they would be rounded otherwise.
TEST(SameBits, of_one_pass_come_of_doubling_and_binomial_for_every_float) {
  auto worlds = ranks({2, 3, 5, 8}).with(Kind::threads).with([](Settings& settings) { settings.plan = "all_reduce=doubling,reduce=binomial"; });
  for_each_world(worlds, [&](TestWorld& world) {
    for (const Format& format : formats)
      for (const ReduceOp& op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::product})
        for (Collective kind : {Collective::all_reduce, Collective::reduce}) {
          const Sum sum{7, format, op, 1000};
          const Bytes found = got(world, kind, sum);
          EXPECT_TRUE(found.empty() || found == wanted(world, kind, sum)) << name_of(kind) << " of " << name_of(format.dtype);
        }
  });
}

// What the setting costs where all ranks are on one machine: nothing, since no choice changes.
TEST(SameBits, change_no_choice_on_one_machine) {
  for (Collective collective : all_collectives())
    for (int size : {1, 2, 3, 4, 5, 8, 16, 64, 200})
      for (int64_t bytes : {int64_t{0}, 64_KiB, 8_KiB + 1, 2_MiB - 1, 2_MiB, 4_MiB - 1, 4_MiB, 16_MiB, 32_MiB, 1_GiB})
        for (int flags = 0; flags < 4; ++flags) {
          Planner planner;
          Query query{.collective = collective, .ranks = size, .bytes = bytes, .crowded = (flags & 1) != 0,
                      .peer_reads = (flags & 2) != 0, .set_bytes = 512_KiB};
          const Algorithm* usual = planner.plan(query).value()->algorithm;
          query.order = Order::tree;
          EXPECT_EQ(planner.plan(query).value()->algorithm, usual) << name_of(collective) << " of " << bytes << " among " << size;
        }
}

// Doubling and binomial carry partials, so that small floats are not rounded on the way.
TEST(SameBits, over_links_take_few_rounds_for_little_data_and_else_collect) {
  Planner planner;
  Query query{.collective = Collective::all_reduce, .ranks = 4, .bytes = 1_KiB, .hosts = testing::apart(4), .order = Order::hops};
  EXPECT_EQ(planner.plan(query).value()->algorithm->name, "doubling");
  query.bytes = 1_MiB;
  EXPECT_EQ(planner.plan(query).value()->algorithm->name, "collecting");
  query.order = Order::tree;
  for (Collective collective : {Collective::all_reduce, Collective::reduce_scatter, Collective::reduce, Collective::scan, Collective::exscan})
    for (int64_t bytes : {int64_t{0}, 1_KiB, 1_MiB}) {
      query.collective = collective;
      query.bytes = bytes;
      const bool doubles = collective == Collective::all_reduce && bytes <= 32_KiB;
      const std::string_view wanted = doubles ? "doubling" : collective == Collective::reduce ? "binomial" : "collecting";
      EXPECT_EQ(planner.plan(query).value()->algorithm->name, wanted) << name_of(collective);
    }
}

TEST(SameBits, asked_for_by_some_ranks_only_are_a_mismatch) {
  for_each_world(ranks(3), [](TestWorld& world) {
    const bool mine = world.rank() == 1;
    GroupHandle group =
        distributed::new_group({0, 1, 2}, {.timeout_s = {}, .name = {}, .run_ahead = 0, .reproducible = mine});
    std::vector<float> data(10, 1);
    try {
      distributed::all_reduce(view(data), {.group = group});
      ADD_FAILURE() << "nothing was thrown";
    } catch (const MismatchError& error) {
      EXPECT_NE(std::string(error.what()).find("UNISONO_REPRODUCIBLE"), std::string::npos) << error.what();
    }
    distributed::broadcast(view(data), {.group = group});  // adds nothing up, so nothing differs
    testing::expect_works(world);
  });
}

TEST(SameBits, of_a_group_that_was_split_off_are_those_of_its_parent) {
  for_each_world(ranks(2), [](TestWorld& world) {
    GroupHandle parent = distributed::new_group({0, 1}, {.timeout_s = {}, .name = {}, .run_ahead = 0, .reproducible = true});
    EXPECT_FALSE(world.world().world_group()->reproducible());
    EXPECT_TRUE(distributed::split_group(parent, 0).group()->reproducible());
  });
}

}  // namespace
}  // namespace unisono
