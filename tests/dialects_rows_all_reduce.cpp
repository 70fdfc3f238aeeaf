// The rows of docs/dialects.md on all_reduce.
#include "tests/dialects_rows.hpp"

namespace unisono::testing {
namespace {

const Samples both = {&samples::all_reduce, &samples::functional::all_reduce};

void every_op(TestWorld& world) {
  struct Case {
    ReduceOp op;
    int32_t result;  // of 1, 2 and 3
  };
  for (const Case& one : {Case{ReduceOp::sum, 6}, Case{ReduceOp::avg, 2}, Case{ReduceOp::product, 6}, Case{ReduceOp::min, 1},
                          Case{ReduceOp::max, 3}, Case{ReduceOp::band, 0}, Case{ReduceOp::bor, 3}, Case{ReduceOp::bxor, 0},
                          Case{ReduceOp::premul_sum(10), 60}}) {
    Ints data = {world.rank() + 1};
    EXPECT_EQ(comm_func::all_reduce(view(data), {.op = one.op}).first.to_vector<int32_t>(), Ints{one.result});
    distributed::all_reduce(view(data), {.op = one.op});
    EXPECT_EQ(data, Ints{one.result}) << name_of(one.op.kind);
  }
  for (const char* name : {"sum", "prod", "min", "max"}) EXPECT_TRUE(reduce_kind_named(name).has_value());
}

constexpr Row rows[] = {
    {"all_reduce.tensor", [](TestWorld& world) {
       Floats data = {float(world.rank()), 1};
       auto [output, handle] = comm_func::all_reduce(view(data));
       EXPECT_EQ(data, (Floats{float(world.rank()), 1}));
       EXPECT_EQ(output.to_vector<float>(), (Floats{3, 3}));
       distributed::all_reduce(view(data));
       EXPECT_EQ(data, (Floats{3, 3}));
     }},
    {"all_reduce.tensor.shape", [](TestWorld& world) {
       Ints data(6, 1);
       Shape shape = world.rank() == 1 ? Shape{3, 2} : Shape{2, 3};
       distributed::all_reduce(view(data, shape));
       EXPECT_EQ(data, Ints(6, 3));
       expect_mismatch([&] { comm_func::all_reduce(view(data, shape)); }, {"all_reduce shape", "(2, 3)", "(3, 2)"});
       Ints longer(world.rank() == 1 ? 7 : 6, 1);
       expect_mismatch([&] { distributed::all_reduce(view(longer)); }, {"all_reduce count", "= 6", "= 7"});
       expect_mismatch([&] { comm_func::all_reduce(view(longer)); }, {"all_reduce count", "= 6", "= 7"});
     }},
    {"all_reduce.tensor.const", [](TestWorld& world) {
       const Ints fixed = {1};
       Ints free = {1};
       EXPECT_EQ(comm_func::all_reduce(view(fixed)).first.to_vector<int32_t>(), Ints{3});
       expect_refusal(world, 1, [&] { distributed::all_reduce(world.rank() == 1 ? view(fixed) : view(free)); }, "const memory");
     }},
    {"all_reduce.op", every_op},
    {"all_reduce.op.default", [](TestWorld&) {
       EXPECT_EQ(distributed::AllReduceOptions().op, ReduceOp::sum);
       EXPECT_EQ(comm_func::ReduceOptions().op, ReduceOp::sum);
       Ints data = {2};
       EXPECT_EQ(comm_func::all_reduce(view(data)).first.to_vector<int32_t>(), Ints{6});
       distributed::all_reduce(view(data));
       EXPECT_EQ(data, Ints{6});
     }},
    {"all_reduce.group", [](TestWorld& world) { expect_group_followed(world, both); }},
    {"all_reduce.group.default", [](TestWorld& world) {
       EXPECT_TRUE(distributed::AllReduceOptions().group.is_world());
       EXPECT_EQ(comm_func::ReduceOptions().group, comm_func::world);
       expect_world_by_default(world, both);
     }},
    {"all_reduce.group.outside", [](TestWorld& world) {
       expect_nothing_outside(world, samples::all_reduce);
       expect_refused_outside(world, samples::functional::all_reduce);
     }},
    {"all_reduce.async_op", [](TestWorld& world) { expect_async_returns_at_once(world, both); }},
    {"all_reduce.async_op.default", [](TestWorld& world) {
       EXPECT_FALSE(distributed::AllReduceOptions().async_op);
       EXPECT_FALSE(comm_func::ReduceOptions().async_op);
       expect_sync_returns_nothing(world, both);
     }},
    {"all_reduce.timeout_s", [](TestWorld& world) {
       EXPECT_EQ(distributed::AllReduceOptions().timeout_s, std::nullopt);
       static_assert(!HasTimeout<comm_func::ReduceOptions>);
       expect_own_deadline(world, samples::all_reduce);
       expect_group_deadline(world, samples::functional::all_reduce);
     }},
    {"all_reduce.return.sync", [](TestWorld& world) {
       Ints data = {world.rank()};
       auto [output, handle] = comm_func::all_reduce(view(data));
       EXPECT_EQ(handle, nullptr);
       EXPECT_EQ(output.to_vector<int32_t>(), Ints{3});
       WorkPtr work = distributed::all_reduce(view(data));
       EXPECT_EQ(work, nullptr);
     }},
    {"all_reduce.return.async", [](TestWorld& world) {
       Ints data = {world.rank()};
       auto [output, handle] = comm_func::all_reduce(view(data), {.async_op = true});
       ASSERT_NE(handle, nullptr);
       handle->wait();
       EXPECT_EQ(output.to_vector<int32_t>(), Ints{3});
       WorkPtr work = distributed::all_reduce(view(data), {.async_op = true});
       ASSERT_NE(work, nullptr);
       EXPECT_TRUE(work->wait());
       EXPECT_EQ(data, Ints{3});
     }},
    {"all_reduce.return.output", [](TestWorld&) {
       static_assert(std::is_same_v<decltype(distributed::all_reduce(TensorView())), WorkPtr>);
       Floats data(6, 1);
       Tensor output = comm_func::all_reduce(view(data, {2, 3})).first;
       EXPECT_NE(output.data(), data.data());
       EXPECT_EQ(output.shape(), shape_of({2, 3}));
       EXPECT_EQ(output.dtype(), DType::float32);
     }},
};

}  // namespace

std::span<const Row> all_reduce_rows() { return rows; }

}  // namespace unisono::testing
