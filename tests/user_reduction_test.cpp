// Reductions of the user's own: by every algorithm, every dtype, in both dialects, at once and later; in the order of the
// ranks where that matters; and what happens when ranks differ or the function throws.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "algorithms/catalogue.hpp"
#include "tests/support/calls.hpp"
#include "tests/support/scale.hpp"
#include "unisono/comm_func.hpp"
#include "unisono/reduction.hpp"

namespace unisono {
namespace {

using testing::expect_works;
using testing::for_each_world;
using testing::ranks;
using testing::Scale;
using testing::scale;
using testing::TestWorld;

// The product of these is associative, exact (modulo 2^32) and not commutative.
struct Matrix {
  uint32_t a, b, c, d;
  bool operator==(const Matrix&) const = default;
};

Matrix operator*(const Matrix& x, const Matrix& y) {
  return {x.a * y.a + x.b * y.c, x.a * y.b + x.b * y.d, x.c * y.a + x.d * y.c, x.c * y.b + x.d * y.d};
}

ReduceOp matrix_product(Commutative commutative = Commutative::no) {
  auto multiply = [](std::span<const Matrix> lower, std::span<Matrix> upper) {
    for (size_t index = 0; index < upper.size(); ++index) upper[index] = lower[index] * upper[index];
  };
  return make_reduction<Matrix>("matrix product", multiply, commutative, DType::uint32);
}

Matrix matrix_of(int rank, size_t index) {
  const auto seed = static_cast<uint32_t>(rank * 7919 + static_cast<int>(index) * 31 + 1);
  return {seed, seed * 3 + 1, seed ^ 0x55, seed * seed};
}

// The product of what ranks [0, last] gave at this place.
Matrix product_up_to(int last, size_t index) {
  Matrix product = matrix_of(0, index);
  for (int rank = 1; rank <= last; ++rank) product = product * matrix_of(rank, index);
  return product;
}

std::vector<Matrix> matrices_of(int rank, size_t count) {
  std::vector<Matrix> matrices;
  for (size_t index = 0; index < count; ++index) matrices.push_back(matrix_of(rank, index));
  return matrices;
}

TensorView numbers_of(std::span<Matrix> matrices) {
  return {matrices.data(), DType::uint32, Shape{static_cast<int64_t>(matrices.size() * 4)}};
}

void expect_products(std::span<const Matrix> found, int last, size_t first, const char* what) {
  for (size_t index = 0; index < found.size(); ++index)
    ASSERT_EQ(found[index], product_up_to(last, first + index)) << what << ", matrix " << index;
}

std::span<const Matrix> matrices_in(const Tensor& tensor) {
  return {static_cast<const Matrix*>(tensor.data()), static_cast<size_t>(tensor.count()) / 4};
}

// Every reducing function of both dialects, with as many matrices a rank, and a piece.
void multiply_by_every_function(TestWorld& world, size_t count) {
  const int me = world.rank(), n = world.ranks(), root = n - 1;
  const ReduceOp op = matrix_product();
  const distributed::ReduceOptions options{.op = op, .group = world.group(), .async_op = false, .timeout_s = {}};
  std::vector<Matrix> data = matrices_of(me, count);
  distributed::all_reduce(numbers_of(data), options);
  expect_products(data, n - 1, 0, "all_reduce");
  data = matrices_of(me, count);
  distributed::reduce(numbers_of(data), root,
                      {.op = op, .group = world.group(), .async_op = false, .timeout_s = {}, .group_dst = {}});
  if (me == root) expect_products(data, n - 1, 0, "reduce");
  data = matrices_of(me, count);
  distributed::scan(numbers_of(data), options);
  expect_products(data, me, 0, "scan");
  data = matrices_of(me, count);
  distributed::exscan(numbers_of(data), options);
  if (me > 0) expect_products(data, me - 1, 0, "exscan");
  std::vector<Matrix> all = matrices_of(me, count * static_cast<size_t>(n)), piece(count);
  distributed::reduce_scatter_tensor(numbers_of(piece), numbers_of(all), options);
  expect_products(piece, n - 1, count * static_cast<size_t>(me), "reduce_scatter_tensor");

  data = matrices_of(me, count);
  expect_products(matrices_in(comm_func::all_reduce(numbers_of(data), {.op = op}).first), n - 1, 0, "comm_func all_reduce");
  expect_products(matrices_in(comm_func::scan(numbers_of(data), {.op = op}).first), me, 0, "comm_func scan");
  auto [output, handle] = comm_func::reduce_scatter_tensor(numbers_of(all), {.op = op, .async_op = true});
  handle->wait();
  expect_products(matrices_in(output), n - 1, count * static_cast<size_t>(me), "comm_func reduce_scatter_tensor");
}

// As few choices as there can be so that every algorithm which keeps the order of the ranks is in one of them.
std::vector<std::string> ordered_plans() {
  std::map<Collective, std::vector<std::string>> plans;
  size_t most = 0;
  for (const Algorithm& algorithm : catalogue()) {
    if (!algorithm.keeps_rank_order() || !algorithm.is_for_one_host()) continue;
    const int64_t capacity = capacity_of(algorithm.path);
    const std::string sizes = capacity == unlimited ? "" : fmt::format(":0-{}", capacity);
    auto& list = plans[algorithm.collective];
    list.push_back(fmt::format("{}{}={}", name_of(algorithm.collective), sizes, algorithm.name));
    most = std::max(most, list.size());
  }
  std::vector<std::string> choices(most);
  for (const auto& [collective, list] : plans)
    for (size_t index = 0; index < most; ++index)
      choices[index] += (choices[index].empty() ? "" : ",") + list[index % list.size()];
  return choices;
}

TEST(UserReduction, that_is_not_commutative_combines_in_rank_order_by_every_algorithm) {
  const std::vector<int> sizes = scale() == Scale::small ? std::vector{1, 3} : std::vector{1, 2, 3, 4, 5, 6, 7, 8};
  for (const std::string& plan : ordered_plans()) {
    SCOPED_TRACE(plan);
    auto worlds = ranks(sizes).with([&](Settings& settings) {
      settings.plan = plan;
      settings.tile_bytes = 4096;
    });
    for_each_world(worlds, [](TestWorld& world) {
      for (size_t count : {size_t{0}, size_t{1}, size_t{7}, size_t{64}, size_t{700}, size_t{4099}})
        multiply_by_every_function(world, count);
    });
  }
}

TEST(UserReduction, that_is_not_commutative_is_refused_where_the_plan_names_an_algorithm_of_another_order) {
  auto worlds = ranks(3).with([](Settings& settings) { settings.plan = "all_reduce=ring"; });
  for_each_world(worlds, [](TestWorld& world) {
    std::vector<Matrix> data = matrices_of(world.rank(), 10);
    try {
      distributed::all_reduce(numbers_of(data), {.op = matrix_product(), .group = world.group()});
      ADD_FAILURE() << "nothing was thrown";
    } catch (const ArgumentError& error) {
      EXPECT_NE(std::string(error.what()).find("ring adds up in an order of its own"), std::string::npos) << error.what();
    }
    EXPECT_EQ(data, matrices_of(world.rank(), 10));
    expect_works(world);
  });
}

TEST(UserReduction, that_is_commutative_goes_by_a_ring_too) {
  auto worlds = ranks({2, 3, 5}).with([](Settings& settings) { settings.plan = "all_reduce=ring,reduce_scatter=ring"; });
  for_each_world(worlds, [](TestWorld& world) {
    // The larger of two pairs: a unit of 16 bytes, which messages that end anywhere must not cut.
    struct Pair {
      int64_t key, value;
    };
    auto larger = [](std::span<const Pair> lower, std::span<Pair> upper) {
      for (size_t index = 0; index < upper.size(); ++index)
        if (lower[index].key > upper[index].key) upper[index] = lower[index];
    };
    const ReduceOp op = make_reduction<Pair>("largest key", larger, Commutative::yes, DType::int64);
    std::vector<Pair> data;
    for (int64_t index = 0; index < 70'001; ++index) data.push_back({(index + world.rank()) % world.ranks(), world.rank()});
    const TensorView numbers{data.data(), DType::int64, Shape{static_cast<int64_t>(data.size() * 2)}};
    distributed::all_reduce(numbers, {.op = op, .group = world.group()});
    for (int64_t index = 0; index < 70'001; ++index) {
      const Pair& pair = data[static_cast<size_t>(index)];
      ASSERT_EQ(pair.key, world.ranks() - 1);
      ASSERT_EQ((index + pair.value) % world.ranks(), world.ranks() - 1) << "the value belongs to another key";
    }
  });
}

// The last that is not all zero bits, for every dtype: also those that are otherwise only moved.
ReduceOp last_of_any_dtype() {
  auto combine = [](const void* lower, void* upper, int64_t count, DType dtype) {
    const auto bytes = static_cast<size_t>(element_bytes(dtype));
    const std::vector<std::byte> zero(bytes);
    for (size_t at = 0; at < static_cast<size_t>(count) * bytes; at += bytes)
      if (std::memcmp(static_cast<std::byte*>(upper) + at, zero.data(), bytes) == 0)
        std::memcpy(static_cast<std::byte*>(upper) + at, static_cast<const std::byte*>(lower) + at, bytes);
  };
  return make_reduction({.name = "last that is not 0", .commutative = Commutative::no, .combine = combine});
}

TEST(UserReduction, takes_every_dtype_at_once_and_later) {
  for_each_world(ranks({2, 3}), [](TestWorld& world) {
    for (DType dtype : all_dtypes())
      for (int64_t count : {3, 3000})
        for (bool async_op : {false, true}) {
          // Rank r gives r + 1 in the elements whose index is r modulo the ranks and in those of rank 0.
          const auto bytes = static_cast<size_t>(element_bytes(dtype));
          std::vector<std::byte> data(static_cast<size_t>(count) * bytes), wanted(data.size());
          for (size_t index = 0; index < static_cast<size_t>(count); ++index) {
            const auto owner = static_cast<int>(index) % world.ranks();
            if (owner == world.rank() || owner == 0) data[index * bytes] = static_cast<std::byte>(world.rank() + 1);
            wanted[index * bytes] = static_cast<std::byte>(owner == 0 ? world.ranks() : owner + 1);
          }
          WorkPtr work;
          {
            const ReduceOp op = last_of_any_dtype();  // gone before the call may be over
            work = distributed::all_reduce({data.data(), dtype, Shape{count}},
                                           {.op = op, .group = world.group(), .async_op = async_op});
          }
          if (work) work->wait();
          ASSERT_EQ(data, wanted) << name_of(dtype) << (async_op ? ", asynchronous" : "");
        }
  });
}

TEST(UserReduction, is_not_kept_beyond_its_call) {
  for_each_world(ranks(2), [](TestWorld& world) {
    auto held = std::make_shared<int>(0);
    std::weak_ptr<int> seen = held;
    std::vector<float> data(10, 1);
    {
      auto combine = [held = std::move(held)](std::span<const float> lower, std::span<float> upper) {
        for (size_t index = 0; index < upper.size(); ++index) upper[index] += lower[index];
      };
      const ReduceOp op = make_reduction<float>("sum", combine, Commutative::yes);
      distributed::all_reduce(view(data), {.op = op, .group = world.group()});
      distributed::all_reduce(view(data), {.op = op, .group = world.group(), .async_op = true})->wait();
    }
    EXPECT_EQ(data, std::vector<float>(10, 4));
    EXPECT_TRUE(seen.expired());
  });
}

ReduceOp named(const std::string& name, Commutative commutative = Commutative::yes) {
  auto combine = [](std::span<const float> lower, std::span<float> upper) {
    for (size_t index = 0; index < upper.size(); ++index) upper[index] += lower[index];
  };
  return make_reduction<float>(name, combine, commutative);
}

TEST(UserReduction, that_differs_between_ranks_is_a_mismatch) {
  struct Row {
    ReduceOp usual, odd;
    const char* part;
  };
  const Row rows[] = {
      {named("left"), named("right"), "\"right\" (commutative)"},
      {named("sum"), named("sum", Commutative::no), "\"sum\" (not commutative)"},
      {named("sum"), ReduceOp::sum, "= sum"},
      {named(std::string(63, 'x')), named(std::string(62, 'x') + "y"), "xy\""},
  };
  for_each_world(ranks(3), [&](TestWorld& world) {
    for (const Row& row : rows)
      for (size_t count : {10, 50'000}) {
        std::vector<float> data(count, 1);
        try {
          distributed::all_reduce(view(data), {.op = world.rank() == 1 ? row.odd : row.usual, .group = world.group()});
          ADD_FAILURE() << "nothing was thrown";
        } catch (const MismatchError& error) {
          EXPECT_NE(std::string(error.what()).find("all_reduce op: rank"), std::string::npos) << error.what();
          EXPECT_NE(std::string(error.what()).find(row.part), std::string::npos) << error.what();
        }
        EXPECT_EQ(data, std::vector<float>(count, 1));
        expect_works(world);
      }
  });
}

TEST(UserReduction, that_cannot_be_is_refused) {
  EXPECT_THROW(named(""), ArgumentError);
  EXPECT_THROW(named(std::string(64, 'x')), ArgumentError);
  EXPECT_THROW(make_reduction({.name = "nothing"}), ArgumentError);
  auto nothing = [](const void*, void*, int64_t, DType) {};
  EXPECT_THROW(make_reduction({.name = "odd", .unit_bytes = 3, .combine = nothing}), ArgumentError);
  for_each_world(ranks(2), [](TestWorld& world) {
    std::vector<int32_t> integers(8, 1);
    EXPECT_THROW(distributed::all_reduce(view(integers), {.op = named("sum"), .group = world.group()}), ArgumentError);
    EXPECT_THROW(distributed::all_reduce(view(integers), {.op = {ReduceKind::user}, .group = world.group()}), ArgumentError);
    std::vector<uint32_t> numbers(7, 1);  // a matrix and three quarters
    EXPECT_THROW(distributed::all_reduce(view(numbers), {.op = matrix_product(), .group = world.group()}), ArgumentError);
    EXPECT_THROW(comm_func::reduce_scatter_tensor(view(numbers, {7, 1}), {.op = matrix_product()}), ArgumentError);
    expect_works(world);
  });
}

struct Throw {
  const char* plan;
  size_t count;
  int cores;
  bool async_op;
};

constexpr Throw throws[] = {
    {"all_reduce=slot", 10, 0, false},     {"all_reduce=combine", 10, 1, false},       {"all_reduce=one_shot", 50'000, 0, false},
    {"all_reduce=two_shot", 50'000, 0, false}, {"all_reduce=doubling", 50'000, 0, false}, {"all_reduce=slot", 10, 0, true},
    {"all_reduce=combine", 10, 1, true},   {"all_reduce=two_shot", 50'000, 0, true},
};

// On the rank whose function throws the call fails; on the others it may have been over. The group is broken for all of them,
// the process is not: a new group works.
void expect_broken_by_throwing(TestWorld& world, const Throw& row, bool is_standard) {
  const bool throws_here = row.cores == 1 || world.rank() == 1;  // in `combine` whoever arrives last adds up for all
  auto combine = [=](std::span<const float>, std::span<float>) {
    if (throws_here && is_standard) throw std::runtime_error("cannot add today");
    if (throws_here) throw 42;
  };
  const ReduceOp op = make_reduction<float>("moody", combine, Commutative::yes);
  GroupHandle group = distributed::new_group({0, 1, 2});
  auto expect_told = [&](auto call, bool must_fail) {
    try {
      call();
      EXPECT_FALSE(must_fail) << "nothing was thrown on rank " << world.rank();
    } catch (const RevokedError& error) {
      const std::string text = error.what();
      const std::string who = fmt::format("rank {}: the reduction \"moody\" threw an exception: ", error.peer());
      EXPECT_NE(text.find(who), std::string::npos) << text;
      EXPECT_NE(text.find(is_standard ? "cannot add today" : "something that is no std::exception"), std::string::npos) << text;
      EXPECT_NE(text.find("This group is broken"), std::string::npos) << text;
      EXPECT_TRUE(error.peer() == 1 || row.cores == 1) << error.peer();
    }
  };
  std::vector<float> data(row.count, 1);
  expect_told(
      [&] {
        WorkPtr work = distributed::all_reduce(view(data), {.op = op, .group = group, .async_op = row.async_op});
        if (work) work->wait();
      },
      throws_here);
  expect_told([&] { distributed::barrier({.group = group}); }, true);
  distributed::barrier({.group = world.group()});
  GroupHandle another = distributed::new_group({0, 1, 2});
  expect_works(world, another);
  distributed::destroy_process_group(another);
  distributed::destroy_process_group(group);
}

TEST(UserReduction, that_throws_breaks_the_group_for_all_and_nothing_else) {
  for (const Throw& row : throws) {
    SCOPED_TRACE(fmt::format("{} of {}{}", row.plan, row.count, row.async_op ? ", asynchronous" : ""));
    auto worlds = ranks(3).with([&](Settings& settings) {
      settings.plan = row.plan;
      settings.cores = row.cores;
    });
    for_each_world(worlds, [&](TestWorld& world) {
      expect_broken_by_throwing(world, row, true);
      expect_broken_by_throwing(world, row, false);
    });
  }
}

}  // namespace
}  // namespace unisono
