// The rows of docs/dialects.md on reduce.
#include "tests/dialects_rows.hpp"

namespace unisono::testing {
namespace {

const Samples both = {&samples::reduce, &samples::functional::reduce};

template <typename... Arguments>
concept ReducesInPlace = requires(Arguments... arguments) { distributed::reduce(arguments...); };
template <typename... Arguments>
concept ReducesToNew = requires(Arguments... arguments) { comm_func::reduce(arguments...); };

constexpr Row rows[] = {
    {"reduce.tensor", [](TestWorld& world) {
       Ints data = {world.rank(), 1};
       comm_func::reduce(view(data), 1);
       EXPECT_EQ(data, (Ints{world.rank(), 1}));
       distributed::reduce(view(data), 1);
       EXPECT_EQ(data, world.rank() == 1 ? (Ints{3, 3}) : (Ints{world.rank(), 1}));
     }},
    {"reduce.tensor.other_ranks", [](TestWorld& world) {
       for (int64_t count : {1, 1000, 100'000}) {
         Floats data = repeated<float>(count, 1.0f + float(world.rank()));
         const Floats before = data;
         EXPECT_EQ(comm_func::reduce(view(data), 2).to_vector<float>(), repeated<float>(count, world.rank() == 2 ? 6 : 0));
         EXPECT_EQ(data, before);
         distributed::reduce(view(data), 2);
         EXPECT_EQ(data, world.rank() == 2 ? repeated<float>(count, 6) : before) << count;
       }
     }},
    {"reduce.tensor.shape", [](TestWorld& world) {
       Ints data(6, 1);
       Shape shape = world.rank() == 1 ? Shape{3, 2} : Shape{2, 3};
       expect_mismatch([&] { distributed::reduce(view(data, shape), 0); }, {"reduce shape", "(2, 3)", "(3, 2)"});
       expect_mismatch([&] { comm_func::reduce(view(data, shape), 0); }, {"reduce shape", "(2, 3)", "(3, 2)"});
       EXPECT_EQ(data, Ints(6, 1));
     }},
    {"reduce.tensor.const", [](TestWorld& world) {
       const Ints fixed = {1};
       Ints free = {1};
       distributed::reduce(world.rank() == 0 ? view(free) : view(fixed), 0);
       EXPECT_EQ(free, Ints{world.rank() == 0 ? 3 : 1});
       expect_refusal(world, 0, [&] { distributed::reduce(view(fixed), 0); }, "const memory");
       EXPECT_EQ(comm_func::reduce(view(fixed), 0).to_vector<int32_t>(), Ints{world.rank() == 0 ? 3 : 0});
     }},
    {"reduce.dst", [](TestWorld& world) {
       GroupHandle pair = distributed::new_group({2, 0}, {.name = "pair"});
       if (!pair.is_member()) return;
       Ints data = {1};
       EXPECT_EQ(comm_func::reduce(view(data), 2, {.group = "pair"}).to_vector<int32_t>(), Ints{world.rank() == 2 ? 2 : 0});
       distributed::reduce(view(data), 2, {.group = pair});  // 2 is a rank of the world; in the group it is rank 0
       EXPECT_EQ(data, Ints{world.rank() == 2 ? 2 : 1});
     }},
    {"reduce.dst.default", nullptr, [] {
       static_assert(!ReducesInPlace<TensorView> && ReducesInPlace<TensorView, Rank>);
       static_assert(!ReducesToNew<TensorView> && ReducesToNew<TensorView, Rank>);
     }},
    {"reduce.dst.outside", [](TestWorld& world) {
       GroupHandle pair = distributed::new_group({2, 0}, {.name = "pair"});
       Ints data = {1};
       expect_all_refuse([&] { distributed::reduce(view(data), 3); }, {"dst is rank 3, which is not in group"});
       expect_all_refuse([&] { comm_func::reduce(view(data), -1); }, {"dst is rank -1, which is not in group"});
       if (world.rank() == 1) return;
       expect_all_refuse([&] { distributed::reduce(view(data), 1, {.group = pair}); }, {"dst is rank 1"}, pair);
       expect_all_refuse([&] { comm_func::reduce(view(data), 1, {.group = "pair"}); }, {"dst is rank 1"}, pair);
       EXPECT_EQ(data, Ints{1});
     }},
    {"reduce.group_dst", [](TestWorld& world) {
       EXPECT_EQ(distributed::RootedReduceOptions().group_dst, std::nullopt);
       static_assert(!HasGroupRoot<comm_func::ReduceNowOptions>);
       GroupHandle pair = distributed::new_group({2, 0});
       if (!pair.is_member()) return;
       Ints data = {1};
       distributed::reduce(view(data), /*dst, not looked at=*/99, {.group = pair, .group_dst = 1});
       EXPECT_EQ(data, Ints{world.rank() == 0 ? 2 : 1});
       expect_all_refuse([&] { distributed::reduce(view(data), 0, {.group = pair, .group_dst = 2}); }, {"group_dst is 2"}, pair);
     }},
    {"reduce.op", [](TestWorld& world) {
       Ints data = {world.rank() + 2};
       EXPECT_EQ(comm_func::reduce(view(data), 0, {.op = ReduceOp::product}).to_vector<int32_t>(), Ints{world.rank() == 0 ? 24 : 0});
       distributed::reduce(view(data), 0, {.op = ReduceOp::product});
       EXPECT_EQ(data, Ints{world.rank() == 0 ? 24 : world.rank() + 2});
     }},
    {"reduce.op.default", [](TestWorld& world) {
       EXPECT_EQ(distributed::RootedReduceOptions().op, ReduceOp::sum);
       EXPECT_EQ(comm_func::ReduceNowOptions().op, ReduceOp::sum);
       expect_world_by_default(world, both);
     }},
    {"reduce.group", [](TestWorld& world) { expect_group_followed(world, both); }},
    {"reduce.group.default", [](TestWorld& world) {
       EXPECT_TRUE(distributed::RootedReduceOptions().group.is_world());
       EXPECT_EQ(comm_func::ReduceNowOptions().group, comm_func::world);
       expect_world_by_default(world, both);
     }},
    {"reduce.group.outside", [](TestWorld& world) {
       expect_nothing_outside(world, samples::reduce);
       expect_refused_outside(world, samples::functional::reduce);
     }},
    {"reduce.async_op", [](TestWorld& world) {
       static_assert(HasAsyncOp<distributed::RootedReduceOptions>);
       static_assert(!HasAsyncOp<comm_func::ReduceNowOptions>);
       expect_async_returns_at_once(world, {&samples::reduce});
     }},
    {"reduce.async_op.default", [](TestWorld& world) {
       EXPECT_FALSE(distributed::RootedReduceOptions().async_op);
       expect_sync_returns_nothing(world, both);
     }},
    {"reduce.timeout_s", [](TestWorld& world) {
       EXPECT_EQ(distributed::RootedReduceOptions().timeout_s, std::nullopt);
       static_assert(!HasTimeout<comm_func::ReduceNowOptions>);
       expect_own_deadline(world, samples::reduce);
       expect_group_deadline(world, samples::functional::reduce);
     }},
    {"reduce.return.dst", [](TestWorld& world) {
       static_assert(std::is_same_v<decltype(comm_func::reduce), Tensor(const TensorView&, Rank, const comm_func::ReduceNowOptions&)>);
       Floats data(6, 1);
       Tensor output = comm_func::reduce(view(data, {2, 3}), 1);
       WorkPtr work = distributed::reduce(view(data), 1);
       EXPECT_EQ(work, nullptr);
       if (world.rank() != 1) return;
       EXPECT_EQ(output.shape(), shape_of({2, 3}));
       EXPECT_EQ(output.to_vector<float>(), Floats(6, 3));
       EXPECT_EQ(data, Floats(6, 3));
     }},
    {"reduce.return.other_ranks", [](TestWorld& world) {
       Floats data(6, 1);
       Tensor output = comm_func::reduce(view(data, {2, 3}), 1);
       WorkPtr work = distributed::reduce(view(data), 1);
       EXPECT_EQ(work, nullptr);
       if (world.rank() == 1) return;
       EXPECT_EQ(output.shape(), shape_of({2, 3}));
       EXPECT_EQ(output.dtype(), DType::float32);
       EXPECT_EQ(output.to_vector<float>(), Floats(6, 0));
       EXPECT_EQ(data, Floats(6, 1));
     }},
    {"reduce.return.async", [](TestWorld& world) {
       Ints data = {1};
       WorkPtr work = distributed::reduce(view(data), 1, {.async_op = true});
       ASSERT_NE(work, nullptr);  // also on ranks that get no result
       EXPECT_TRUE(work->wait());
       EXPECT_EQ(data, Ints{world.rank() == 1 ? 3 : 1});
     }},
};

}  // namespace

std::span<const Row> reduce_rows() { return rows; }

}  // namespace unisono::testing
