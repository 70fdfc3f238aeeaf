// The rows of docs/dialects.md on broadcast and barrier.
#include "tests/dialects_rows.hpp"

namespace unisono::testing {
namespace {

const Samples broadcasts = {&samples::broadcast, &samples::functional::broadcast};
const Samples barriers = {&samples::barrier, &samples::functional::barrier};

constexpr Row rows[] = {
    {"broadcast.tensor", [](TestWorld& world) {
       Ints data = {world.rank(), 5};
       EXPECT_EQ(comm_func::broadcast(view(data), 1).to_vector<int32_t>(), (Ints{1, 5}));
       EXPECT_EQ(data, (Ints{world.rank(), 5}));
       distributed::broadcast(view(data), {.src = 1});
       EXPECT_EQ(data, (Ints{1, 5}));
       const Ints fixed = {7};
       Ints free = {0};
       distributed::broadcast(world.rank() == 1 ? view(fixed) : view(free), {.src = 1});  // src's is only read
       EXPECT_EQ(free, Ints{world.rank() == 1 ? 0 : 7});
     }},
    {"broadcast.tensor.size", [](TestWorld& world) {
       Ints data(world.rank() == 1 ? 7 : 6);
       expect_mismatch([&] { distributed::broadcast(view(data)); }, {"broadcast count", "= 6", "= 7"});
       expect_mismatch([&] { comm_func::broadcast(view(data)); }, {"broadcast count", "= 6", "= 7"});
       Ints six = {1, 2, 3, 4, 5, 6};
       Tensor output = comm_func::broadcast(view(six, world.rank() == 1 ? Shape{2, 3} : Shape{6}));
       EXPECT_EQ(output.shape(), world.rank() == 1 ? shape_of({2, 3}) : shape_of({6}));
     }},
    {"broadcast.src", [](TestWorld& world) {
       GroupHandle pair = distributed::new_group({0, 2}, {.name = "pair"});
       if (!pair.is_member()) return;
       Ints data = {world.rank()};
       EXPECT_EQ(comm_func::broadcast(view(data), 2, "pair").to_vector<int32_t>(), Ints{2});
       distributed::broadcast(view(data), {.src = 2, .group = pair});
       EXPECT_EQ(data, Ints{2});
     }},
    {"broadcast.src.default", [](TestWorld& world) {
       EXPECT_EQ(distributed::BroadcastOptions().src, 0);
       Ints data = {world.rank() + 5};
       EXPECT_EQ(comm_func::broadcast(view(data)).to_vector<int32_t>(), Ints{5});
       distributed::broadcast(view(data));
       EXPECT_EQ(data, Ints{5});
     }},
    {"broadcast.src.outside", [](TestWorld&) {
       Ints data = {1};
       expect_all_refuse([&] { distributed::broadcast(view(data), {.src = 3}); }, {"src is rank 3"});
       expect_all_refuse([&] { comm_func::broadcast(view(data), -2); }, {"src is rank -2"});
     }},
    {"broadcast.group_src", [](TestWorld& world) {
       GroupHandle pair = distributed::new_group({2, 0});
       if (!pair.is_member()) return;
       Ints data = {world.rank()};
       distributed::broadcast(view(data), {.group = pair, .group_src = 0});
       EXPECT_EQ(data, Ints{2});
     }},
    {"broadcast.group", [](TestWorld& world) { expect_group_followed(world, broadcasts); }},
    {"broadcast.group.default", [](TestWorld& world) {
       EXPECT_TRUE(distributed::BroadcastOptions().group.is_world());
       expect_world_by_default(world, broadcasts);
     }},
    {"broadcast.group.outside", [](TestWorld& world) {
       expect_nothing_outside(world, samples::broadcast);
       expect_refused_outside(world, samples::functional::broadcast);
     }},
    {"broadcast.async_op", [](TestWorld& world) {
       EXPECT_FALSE(distributed::BroadcastOptions().async_op);
       static_assert(std::is_same_v<decltype(comm_func::broadcast), Tensor(const TensorView&, Rank, const comm_func::GroupName&)>);
       expect_async_returns_at_once(world, {&samples::broadcast});
     }},
    {"broadcast.timeout_s", [](TestWorld& world) {
       expect_own_deadline(world, samples::broadcast);
       expect_group_deadline(world, samples::functional::broadcast);
     }},
    {"broadcast.return", [](TestWorld& world) {
       Ints data = {world.rank()};
       Tensor output = comm_func::broadcast(view(data), 2);
       EXPECT_NE(output.data(), data.data());
       EXPECT_EQ(output.to_vector<int32_t>(), Ints{2});
       EXPECT_EQ(distributed::broadcast(view(data)), nullptr);
       WorkPtr work = distributed::broadcast(view(data), {.async_op = true});
       ASSERT_NE(work, nullptr);
       EXPECT_TRUE(work->wait());
     }},

    {"barrier.meets", [](TestWorld& world) {
       GroupHandle others = distributed::new_group({});
       if (world.rank() != 0) distributed::barrier();  // rank 0 is in the other barrier by then, and has not left it
       WorkPtr work = distributed::barrier({.group = others, .async_op = true});
       if (world.rank() == 0) {
         EXPECT_FALSE(work->is_completed());
         distributed::barrier();
       }
       EXPECT_TRUE(work->wait());
       comm_func::barrier();
     }},
    {"barrier.group", [](TestWorld& world) { expect_group_followed(world, barriers); }},
    {"barrier.group.default", [](TestWorld& world) { expect_world_by_default(world, barriers); }},
    {"barrier.group.outside", [](TestWorld& world) {
       expect_nothing_outside(world, samples::barrier);
       expect_refused_outside(world, samples::functional::barrier);
     }},
    {"barrier.async_op", [](TestWorld& world) {
       EXPECT_FALSE(distributed::Options().async_op);
       static_assert(std::is_same_v<decltype(comm_func::barrier), void(const comm_func::GroupName&)>);
       expect_async_returns_at_once(world, {&samples::barrier});
     }},
    {"barrier.timeout_s", [](TestWorld& world) {
       expect_own_deadline(world, samples::barrier);
       expect_group_deadline(world, samples::functional::barrier);
     }},
    {"barrier.return", [](TestWorld&) {
       EXPECT_EQ(distributed::barrier(), nullptr);
       WorkPtr work = distributed::barrier({.async_op = true});
       ASSERT_NE(work, nullptr);
       EXPECT_TRUE(work->wait());
       static_assert(std::is_void_v<decltype(comm_func::barrier())>);
     }},
};

}  // namespace

std::span<const Row> broadcast_rows() { return rows; }

}  // namespace unisono::testing
