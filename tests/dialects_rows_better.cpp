// The rows of docs/dialects.md on what the reference implementations do wrong on CPU.
#include "tests/dialects_rows.hpp"

namespace unisono::testing {
namespace {

// One in each of these formats, whose types C++ has not.
void small_floats_add() {
  struct Case {
    DType dtype;
    uint8_t one, three;
  };
  for (const Case& format : {Case{DType::float8_e4m3fn, 0x38, 0x44}, Case{DType::float8_e5m2, 0x3c, 0x42}}) {
    std::vector<uint8_t> data(5, format.one);
    distributed::all_reduce({data.data(), format.dtype, Shape{5}});
    EXPECT_EQ(data, std::vector<uint8_t>(5, format.three)) << name_of(format.dtype);
  }
}

template <typename T>
void integers_add() {
  std::vector<T> data(5, T{7});
  distributed::all_reduce(view(data));
  EXPECT_EQ(data, std::vector<T>(5, T{21}));
}

constexpr Row rows[] = {
    {"better.comm_func_on_cpu", [](TestWorld& world) {
       expect_world_by_default(world, {&samples::functional::all_reduce, &samples::functional::all_gather_into_tensor,
                                       &samples::functional::reduce_scatter_tensor, &samples::functional::reduce,
                                       &samples::functional::scatter_tensor});
     }},
    {"better.reduce_keeps", [](TestWorld& world) {
       for (int64_t count : {2, 1000, 300'000}) {
         Floats data = repeated<float>(count, 1.0f + float(world.rank()));
         const Floats before = data;
         distributed::reduce(view(data), 0);
         EXPECT_EQ(data, world.rank() == 0 ? repeated<float>(count, 6) : before) << count;
       }
     }},
    {"better.shape_mismatch", [](TestWorld& world) {
       Floats data(world.rank() == 2 ? 11 : 10, 1);
       const Floats before = data;
       expect_mismatch([&] { distributed::all_reduce(view(data)); }, {"all_reduce count: rank ", "= 10", "rank 2 = 11"});
       EXPECT_EQ(data, before);
     }},
    {"better.dtype_mismatch", [](TestWorld& world) {
       Floats floats(4, 1);
       Ints ints(4, 1);
       expect_mismatch([&] { distributed::all_reduce(world.rank() == 0 ? view(floats) : view(ints)); },
                       {"all_reduce dtype: rank 0 = float32", "= int32"});
       EXPECT_EQ(floats, Floats(4, 1));
       EXPECT_EQ(ints, Ints(4, 1));
     }},
    {"better.op_mismatch", [](TestWorld& world) {
       Floats data(4, 1);
       expect_mismatch([&] { distributed::all_reduce(view(data), {.op = world.rank() == 1 ? ReduceOp::max : ReduceOp::sum}); },
                       {"all_reduce op", "rank 1 = max", "= sum"});
       EXPECT_EQ(data, Floats(4, 1));
     }},
    {"better.scatter_list", [](TestWorld& world) {
       Ints got = {-1}, numbers = {1, 2};
       std::vector<TensorView> list;
       if (world.rank() == 0) list = {view(std::span(&numbers[0], 1)), view(std::span(&numbers[1], 1))};
       expect_refusal(world, 0, [&] { distributed::scatter(view(got), list); }, "scatter_list has 2 tensors");
       EXPECT_EQ(got, Ints{-1});
     }},
    {"better.dtypes", [](TestWorld&) {
       integers_add<int16_t>();
       integers_add<uint16_t>();
       integers_add<uint32_t>();
       integers_add<uint64_t>();
       small_floats_add();
     }},
    {"better.avg_of_integers", [](TestWorld& world) {
       Ints data = {world.rank(), -10};
       distributed::all_reduce(view(data), {.op = ReduceOp::avg});
       EXPECT_EQ(data, (Ints{1, -10}));
     }},
    {"better.premul_sum", [](TestWorld& world) {
       Floats data = {float(world.rank())};
       distributed::all_reduce(view(data), {.op = ReduceOp::premul_sum(0.5)});
       EXPECT_EQ(data, Floats{1.5f});
     }},
    {"better.stacked", [](TestWorld& world) {
       Ints data(4, world.rank()), room(12);
       distributed::all_gather_into_tensor(view(room, {3, 2, 2}), view(data, {2, 2}));
       EXPECT_EQ(room, (Ints{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2}));
     }},
};

}  // namespace

std::span<const Row> better_rows() { return rows; }

}  // namespace unisono::testing
