// The rows of docs/dialects.md on scatter and scatter_tensor.
#include "tests/dialects_rows.hpp"

namespace unisono::testing {
namespace {

const Samples both = {&samples::scatter, &samples::functional::scatter_tensor};

// A list on `src`, and an empty one elsewhere.
struct Source {
  Ints numbers = {10, 20, 30};
  std::vector<TensorView> list;

  Source(const TestWorld& world, int src) {
    if (world.rank() != src) return;
    for (int32_t& number : numbers) list.push_back(view(std::span(&number, 1)));
  }
};

constexpr Row rows[] = {
    {"scatter.tensor", [](TestWorld& world) {
       Source source(world, 0);
       Ints got = {-1};
       distributed::scatter(view(got), source.list);
       EXPECT_EQ(got, Ints{10 * (world.rank() + 1)});
       const Ints fixed = {0};
       expect_refusal(world, 1, [&] { distributed::scatter(world.rank() == 1 ? view(fixed) : view(got), source.list); }, "const memory");
       EXPECT_EQ(comm_func::scatter_tensor(view(source.numbers)).to_vector<int32_t>(), got);
     }},
    {"scatter.scatter_list", [](TestWorld& world) {
       const Ints first = {1, 2}, second = {3, 4}, third = {5, 6};
       std::vector<TensorView> list;
       if (world.rank() == 2) list = {view(first), view(second), view(third)};
       Ints got(2);
       distributed::scatter(view(got), list, {.src = 2});
       EXPECT_EQ(got, (Ints{2 * world.rank() + 1, 2 * world.rank() + 2}));
       if (world.rank() == 2) list[2] = view(got);  // already in its place
       distributed::scatter(view(got), list, {.src = 2});
       EXPECT_EQ(got, (Ints{2 * world.rank() + 1, 2 * world.rank() + 2}));
       EXPECT_EQ(first, (Ints{1, 2}));
       const Ints whole = {1, 2, 3, 4, 5, 6};
       EXPECT_EQ(comm_func::scatter_tensor(view(whole), 2).to_vector<int32_t>(), got);
     }},
    {"scatter.scatter_list.default", [](TestWorld& world) {
       Source source(world, 0);
       Ints got = {-1};
       if (world.rank() == 0)
         distributed::scatter(view(got), source.list);
       else
         distributed::scatter(view(got));
       EXPECT_EQ(got, Ints{10 * (world.rank() + 1)});
     }},
    {"scatter.scatter_list.missing", [](TestWorld& world) {
       Ints got = {-1};
       expect_refusal(world, 0, [&] { distributed::scatter(view(got)); }, "scatter_list must be given on the source rank");
       EXPECT_EQ(got, Ints{-1});
     }},
    {"scatter.scatter_list.other_ranks", [](TestWorld& world) {
       Source source(world, 0), also(world, 1);
       Ints got = {-1};
       expect_refusal(world, 1, [&] { distributed::scatter(view(got), world.rank() == 1 ? also.list : source.list); },
                      "scatter_list is given on the source only");
     }},
    {"scatter.scatter_list.length", [](TestWorld& world) {
       Source source(world, 0);
       if (world.rank() == 0) source.list.pop_back();
       Ints got = {-1};
       expect_refusal(world, 0, [&] { distributed::scatter(view(got), source.list); }, "scatter_list has 2 tensors");
     }},
    {"scatter.scatter_list.elements", [](TestWorld& world) {
       Ints got = {-1}, longer(2);
       Floats other(1);
       Source source(world, 0);
       if (world.rank() == 0) source.list[1] = view(longer);
       expect_refusal(world, 0, [&] { distributed::scatter(view(got), source.list); }, "scatter_list has 2 elements");
       if (world.rank() == 0) source.list[1] = view(other);
       expect_refusal(world, 0, [&] { distributed::scatter(view(got), source.list); }, "scatter_list is float32");
       Source again(world, 0);
       Ints wide(world.rank() == 1 ? 2 : 1);
       expect_mismatch([&] { distributed::scatter(view(wide), again.list); }, {"scatter count", "= 1", "= 2"});
     }},
    {"scatter.src", [](TestWorld& world) {
       GroupHandle pair = distributed::new_group({2, 0}, {.name = "pair"});
       if (!pair.is_member()) return;
       Ints numbers = {10, 20}, got = {-1};
       std::vector<TensorView> list;
       if (world.rank() == 2) list = {view(std::span(&numbers[0], 1)), view(std::span(&numbers[1], 1))};
       distributed::scatter(view(got), list, {.src = 2, .group = pair});  // a rank of the world; in the group it is rank 0
       EXPECT_EQ(got, Ints{world.rank() == 2 ? 10 : 20});
       EXPECT_EQ(comm_func::scatter_tensor(view(numbers), 2, "pair").to_vector<int32_t>(), got);
     }},
    {"scatter.src.default", [](TestWorld& world) {
       EXPECT_EQ(distributed::ScatterOptions().src, 0);
       Source source(world, 0);
       Ints got = {-1};
       distributed::scatter(view(got), source.list);
       Ints mine = world.rank() == 0 ? Ints{10, 20, 30} : Ints{-1, -1, -1};
       EXPECT_EQ(comm_func::scatter_tensor(view(mine)).to_vector<int32_t>(), got);
     }},
    {"scatter.src.outside", [](TestWorld&) {
       Ints got = {-1}, whole(3);
       expect_all_refuse([&] { distributed::scatter(view(got), {}, {.src = 3}); }, {"src is rank 3, which is not in group"});
       expect_all_refuse([&] { comm_func::scatter_tensor(view(whole), 3); }, {"src is rank 3, which is not in group"});
     }},
    {"scatter.group_src", [](TestWorld& world) {
       EXPECT_EQ(distributed::ScatterOptions().group_src, std::nullopt);
       GroupHandle pair = distributed::new_group({2, 0});
       if (!pair.is_member()) return;
       Ints numbers = {10, 20}, got = {-1};
       std::vector<TensorView> list;
       if (world.rank() == 0) list = {view(std::span(&numbers[0], 1)), view(std::span(&numbers[1], 1))};
       distributed::scatter(view(got), list, {.group = pair, .group_src = 1});
       EXPECT_EQ(got, Ints{world.rank() == 2 ? 10 : 20});
       expect_all_refuse([&] { distributed::scatter(view(got), {}, {.group = pair, .group_src = 2}); }, {"group_src is 2"}, pair);
     }},
    {"scatter.group", [](TestWorld& world) { expect_group_followed(world, both); }},
    {"scatter.group.default", [](TestWorld& world) {
       EXPECT_TRUE(distributed::ScatterOptions().group.is_world());
       expect_world_by_default(world, both);
       Ints whole = {1, 2, 3};
       EXPECT_EQ(comm_func::scatter_tensor(view(whole)).count(), 1);
     }},
    {"scatter.group.outside", [](TestWorld& world) {
       expect_nothing_outside(world, samples::scatter);
       expect_refused_outside(world, samples::functional::scatter_tensor);
     }},
    {"scatter.async_op", [](TestWorld& world) {
       static_assert(HasAsyncOp<distributed::ScatterOptions>);
       static_assert(std::is_same_v<decltype(comm_func::scatter_tensor), Tensor(const TensorView&, Rank, const comm_func::GroupName&)>);
       expect_async_returns_at_once(world, {&samples::scatter});
     }},
    {"scatter.async_op.default", [](TestWorld& world) {
       EXPECT_FALSE(distributed::ScatterOptions().async_op);
       expect_sync_returns_nothing(world, both);
     }},
    {"scatter.timeout_s", [](TestWorld& world) {
       EXPECT_EQ(distributed::ScatterOptions().timeout_s, std::nullopt);
       expect_own_deadline(world, samples::scatter);
       expect_group_deadline(world, samples::functional::scatter_tensor);
     }},
    {"scatter.return.sync", [](TestWorld& world) {
       Source source(world, 0);
       Ints got = {-1};
       EXPECT_EQ(distributed::scatter(view(got), source.list), nullptr);
       Tensor output = comm_func::scatter_tensor(view(source.numbers));
       EXPECT_EQ(output.to_vector<int32_t>(), got);
     }},
    {"scatter.return.async", [](TestWorld& world) {
       Source source(world, 0);
       Ints got = {-1};
       WorkPtr work = distributed::scatter(view(got), source.list, {.async_op = true});
       ASSERT_NE(work, nullptr);
       EXPECT_TRUE(work->wait());
       EXPECT_EQ(got, Ints{10 * (world.rank() + 1)});
     }},

    {"scatter_tensor.tensor", [](TestWorld& world) {
       Ints whole(12);
       for (size_t index = 0; index < whole.size(); ++index) whole[index] = int32_t(index / 4) + 100 * world.rank();
       const Ints before = whole;
       EXPECT_EQ(comm_func::scatter_tensor(view(whole, {6, 2}), 1).to_vector<int32_t>(), Ints(4, 100 + world.rank()));
       EXPECT_EQ(whole, before);
     }},
    {"scatter_tensor.tensor.divisible", [](TestWorld& world) {
       Ints whole(world.rank() == 0 ? 4 : 3), scalar(1);
       expect_refusal(world, 0, [&] { comm_func::scatter_tensor(view(whole)); },
                      "dim 0 of tensor is 4, which is not divisible by the group's 3 ranks");
       expect_all_refuse([&] { comm_func::scatter_tensor(view(scalar, {})); }, {"no dim 0"});
     }},
    {"scatter_tensor.tensor.other_ranks", [](TestWorld& world) {
       Ints whole = world.rank() == 0 ? Ints{1, 2, 3} : Ints{-7, -7, -7};
       EXPECT_EQ(comm_func::scatter_tensor(view(whole)).to_vector<int32_t>(), Ints{world.rank() + 1});
       Shape shape = world.rank() == 2 ? Shape{3, 1} : Shape{3};
       expect_mismatch([&] { comm_func::scatter_tensor(view(whole, shape)); }, {"scatter shape", "(3)", "(3, 1)"});
       Floats other(3);
       expect_mismatch([&] { comm_func::scatter_tensor(world.rank() == 2 ? view(other) : view(whole)); }, {"scatter dtype", "float32"});
     }},
    {"scatter_tensor.return.output", [](TestWorld&) {
       Floats whole(24, 1);
       Tensor output = comm_func::scatter_tensor(view(whole, {6, 4}));
       EXPECT_EQ(output.shape(), shape_of({2, 4}));
       EXPECT_EQ(output.dtype(), DType::float32);
     }},
};

}  // namespace

std::span<const Row> scatter_rows() { return rows; }

}  // namespace unisono::testing
