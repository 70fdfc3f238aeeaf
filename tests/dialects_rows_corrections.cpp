// The rows of docs/dialects.md on what the comparison pages get wrong.
#include "tests/dialects_rows.hpp"
#include "unisono/communication.hpp"

namespace unisono::testing {
namespace {

template <typename Result>
concept IsTensorAndHandle = std::is_same_v<Result, std::pair<Tensor, CommHandlePtr>>;

constexpr Row rows[] = {
    {"correction.scatter.dim_0", [](TestWorld&) {
       Ints whole(12);
       EXPECT_EQ(comm_func::scatter_tensor(view(whole, {6, 2}), 2).shape(), shape_of({2, 2}));  // 6 / 3 ranks, and not 6 / src
     }},
    {"correction.all_gather.dim_0", [](TestWorld&) {
       Ints data(6), scalar(1);
       EXPECT_EQ(comm_func::all_gather_into_tensor(view(data, {2, 3})).first.shape(), shape_of({6, 3}));  // not (3, 3)
       EXPECT_EQ(comm_func::all_gather_into_tensor(view(scalar, {})).first.shape(), shape_of({3}));
     }},
    {"correction.all_reduce.return", [](TestWorld&) {
       Ints data = {1};
       static_assert(IsTensorAndHandle<decltype(comm_func::all_reduce(TensorView()))>);
       EXPECT_EQ(comm_func::all_reduce(view(data)).second, nullptr);
     }},
    {"correction.reduce_scatter.return", [](TestWorld&) {
       Ints data(3);
       static_assert(IsTensorAndHandle<decltype(comm_func::reduce_scatter_tensor(TensorView()))>);
       EXPECT_EQ(comm_func::reduce_scatter_tensor(view(data)).second, nullptr);
     }},
    {"correction.all_reduce.tensor", nullptr, [] {
       static_assert(std::is_invocable_v<decltype(comm_func::all_reduce), const TensorView&, const comm_func::ReduceOptions&>);
     }},
    {"correction.scatter.async_op", [](TestWorld& world) { expect_async_returns_at_once(world, {&samples::scatter}); }},
    {"correction.scatter.device_ids", nullptr, [] {
       static_assert(!HasDeviceIds<distributed::ScatterOptions>);
       static_assert(std::is_same_v<decltype(comm_func::scatter_tensor), Tensor(const TensorView&, Rank, const comm_func::GroupName&)>);
     }},
    {"correction.reduce.return", [](TestWorld&) {
       Ints data = {1};
       EXPECT_EQ(distributed::reduce(view(data), 0), nullptr);
       WorkPtr work = distributed::reduce(view(data), 0, {.async_op = true});
       ASSERT_NE(work, nullptr);
       EXPECT_TRUE(work->wait());
     }},
    {"correction.reduce_scatter.sizes", [](TestWorld& world) {
       Ints one = {1}, three(3, 1), none;
       std::vector<TensorView> list = {view(one), view(three), view(none)};
       Ints output((Ints{1, 3, 0})[size_t(world.rank())]);
       distributed::reduce_scatter(view(output), list);
       EXPECT_EQ(output, Ints(output.size(), 3));
     }},
    {"correction.outside", [](TestWorld& world) {
       for (const Sample* sample : {&samples::functional::all_reduce, &samples::functional::all_gather_into_tensor,
                                    &samples::functional::reduce_scatter_tensor, &samples::functional::reduce,
                                    &samples::functional::scatter_tensor}) {
         expect_refused_outside(world, *sample);
         if (world.rank() != 1) communication::destroy_group("pair");
       }
     }},
};

}  // namespace

std::span<const Row> correction_rows() { return rows; }

}  // namespace unisono::testing
