// The collectives by every algorithm of the catalogue, whatever the planner would have chosen: a new line in the
// catalogue is tried here without further ado. Also with more ranks than cores, and with tiles of unusual sizes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "algorithms/catalogue.hpp"
#include "tests/kernels_reference.hpp"
#include "tests/support/outcomes.hpp"
#include "tests/support/scale.hpp"
#include "tests/support/test_world.hpp"
#include "tests/support/trial_lists.hpp"

namespace unisono {
namespace {

using testing::Extent;
using testing::for_each_world;
using testing::perform_all;
using testing::ranks;
using testing::Scale;
using testing::scale;
using testing::TestWorld;

std::vector<const Algorithm*> algorithms_of(Collective collective) {
  std::vector<const Algorithm*> algorithms;
  for (const Algorithm& algorithm : catalogue())
    if (algorithm.collective == collective && algorithm.is_for_one_host()) algorithms.push_back(&algorithm);
  return algorithms;
}

// One algorithm for each collective.
struct Choice {
  std::map<Collective, const Algorithm*> algorithms;

  std::string plan() const {  // larger calls than an algorithm holds go as the planner says
    std::vector<std::string> parts;
    for (auto [collective, algorithm] : algorithms) {
      const int64_t capacity = capacity_of(algorithm->path);
      const std::string sizes = capacity == unlimited ? "" : fmt::format(":0-{}", capacity);
      parts.push_back(fmt::format("{}{}={}", name_of(collective), sizes, algorithm->name));
    }
    return fmt::format("{}", fmt::join(parts, ","));
  }
};

// As few choices as there can be so that every algorithm is in one of them.
std::vector<Choice> all_choices() {
  size_t most = 0;
  for (Collective collective : all_collectives()) most = std::max(most, algorithms_of(collective).size());
  std::vector<Choice> choices(most);
  for (Collective collective : all_collectives()) {
    const std::vector<const Algorithm*> algorithms = algorithms_of(collective);
    for (size_t index = 0; index < most; ++index)
      choices[index].algorithms[collective] = algorithms[index % algorithms.size()];
  }
  return choices;
}

std::vector<int> rank_counts() {
  if (scale() == Scale::small) return {2, 3};
  if (scale() == Scale::normal) return {2, 5, 8};
  return {2, 3, 4, 5, 6, 7, 8};
}

class EveryAlgorithm : public ::testing::TestWithParam<size_t> {};

TEST_P(EveryAlgorithm, gives_what_the_oracle_says) {
  const Choice choice = all_choices()[GetParam()];
  SCOPED_TRACE(choice.plan());
  for (int size : rank_counts()) {
    Extent extent{.ranks = size, .tile_bytes = 4096, .largest_bytes = 300 << 10};
    if (scale() != Scale::full) extent.every = scale() == Scale::small ? 7 : 4;
    if (scale() == Scale::full) extent = {.ranks = size, .turns = 4};
    perform_all(testing::trials_of_sizes(extent),
                ranks(size).with([&](Settings& settings) {
                  settings.plan = choice.plan();
                  settings.tile_bytes = extent.tile_bytes;
                }));
  }
}

TEST_P(EveryAlgorithm, takes_every_dtype_and_op) {
  const Choice choice = all_choices()[GetParam()];
  SCOPED_TRACE(choice.plan());
  const int every = scale() == Scale::small ? 17 : scale() == Scale::normal ? 5 : 1;
  perform_all(testing::trials_of_numbers({.ranks = 4, .every = every}, 77),
              ranks(4).with([&](Settings& settings) { settings.plan = choice.plan(); }));
}

INSTANTIATE_TEST_SUITE_P(Of, EveryAlgorithm, ::testing::Range(size_t{0}, all_choices().size()), [](const auto& info) {
  return fmt::format("all_reduce_by_{}_and_so_on",
                     all_choices()[info.param].algorithms.at(Collective::all_reduce)->name);
});

std::vector<std::byte> random_floats(int rank, size_t count) {
  std::mt19937 random(static_cast<unsigned>(rank + 1));
  std::normal_distribution<float> normal(0, 1000);
  std::vector<float> numbers(count);
  for (float& number : numbers) number = normal(random) * std::ldexp(1.0f, static_cast<int>(random() % 40) - 20);
  std::vector<std::byte> bytes(count * sizeof(float));
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

// All ranks get identical bits; and where an algorithm says that it adds in the canonical order, they are those of it.
void expect_same_bits(const Algorithm& algorithm, int size) {
  SCOPED_TRACE(fmt::format("{} among {}", algorithm.name, size));
  const size_t count = algorithm.path == Path::schedule ? 30'011 : 2003, bytes = count * sizeof(float);
  std::vector<std::vector<std::byte>> inputs;
  for (int rank = 0; rank < size; ++rank) inputs.push_back(random_floats(rank, count));
  const auto canonical =
      reference::reduce<reference::Plain<float>>({DType::float32, ReduceOp::sum, size}, inputs, true, true);
  testing::SharedArray<std::byte> first_rank_got(bytes);
  auto worlds =
      ranks(size).with([&](Settings& settings) { settings.plan = fmt::format("all_reduce={}", algorithm.name); });
  for_each_world(worlds, [&](TestWorld& world) {
    std::vector<std::byte> data = inputs[static_cast<size_t>(world.rank())];
    distributed::all_reduce({data.data(), DType::float32, Shape{static_cast<int64_t>(count)}},
                            {.group = world.group()});
    if (world.rank() == 0) std::copy(data.begin(), data.end(), &first_rank_got[0]);
    distributed::barrier({.group = world.group()});
    EXPECT_EQ(std::memcmp(data.data(), &first_rank_got[0], bytes), 0) << "rank " << world.rank();
    if (algorithm.keeps_rank_order()) {
      EXPECT_EQ(data, canonical) << "rank " << world.rank();
    }
  });
}

TEST(AllReduce, of_random_floats_gives_the_same_bits_on_all_ranks_by_every_algorithm) {
  for (const Algorithm* algorithm : algorithms_of(Collective::all_reduce))
    for (int size : rank_counts()) expect_same_bits(*algorithm, size);
}

TEST(Crowds, of_more_ranks_than_cores_get_the_same_results) {
  for (int size : scale() == Scale::small ? std::vector{4} : std::vector{2, 4, 8})
    perform_all(testing::trials_of_sizes({.ranks = size, .largest_bytes = 300 << 10}),
                ranks(size).with([](Settings& settings) { settings.cores = 1; }));
}

TEST(Tiles, of_unusual_sizes_give_the_same_results) {
  for (int64_t tile_bytes : scale() == Scale::small ? std::vector{100} : std::vector{64, 100, 4096, 10'000})
    for (int size : scale() == Scale::small ? std::vector{2} : std::vector{2, 3, 5})
      perform_all(
          testing::trials_of_sizes({.ranks = size, .tile_bytes = tile_bytes, .largest_bytes = 9000 + 20 * tile_bytes}),
          ranks(size).with([&](Settings& settings) {
            settings.tile_bytes = tile_bytes;
            settings.peer_reads = "off";
          }));
}

}  // namespace
}  // namespace unisono
