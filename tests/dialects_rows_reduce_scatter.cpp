// The rows of docs/dialects.md on reduce_scatter and reduce_scatter_tensor.
#include "tests/dialects_rows.hpp"

namespace unisono::testing {
namespace {

const Samples both = {&samples::reduce_scatter_tensor, &samples::functional::reduce_scatter_tensor};

std::vector<TensorView> one_by_one(Ints& elements) {
  std::vector<TensorView> list;
  for (int32_t& element : elements) list.push_back(view(std::span(&element, 1)));
  return list;
}

// Element i has i + 1 numbers on every rank.
void uneven_sizes(TestWorld& world) {
  std::vector<Ints> inputs = {{1}, {2, 2}, {3, 3, 3}};
  std::vector<TensorView> list = {view(inputs[0]), view(inputs[1]), view(inputs[2])};
  Ints output(size_t(world.rank() + 1));
  distributed::reduce_scatter(view(output), list);
  EXPECT_EQ(output, Ints(output.size(), 3 * (world.rank() + 1)));
  Ints wrong(size_t(world.rank() + 2));
  expect_all_refuse([&] { distributed::reduce_scatter(view(wrong), list); }, {"output has"});
}

constexpr Row rows[] = {
    {"reduce_scatter.output", [](TestWorld& world) {
       Ints input = {10 + world.rank(), 20, 30}, output = {-1};
       distributed::reduce_scatter(view(output), one_by_one(input));
       EXPECT_EQ(output, Ints{world.rank() == 0 ? 33 : 30 * (world.rank() + 1)});
       const Ints fixed = {0};
       expect_all_refuse([&] { distributed::reduce_scatter(view(fixed), one_by_one(input)); }, {"output", "const memory"});
       distributed::reduce_scatter(one_by_one(input)[size_t(world.rank())], one_by_one(input));  // its own element as output
       EXPECT_EQ(input[size_t(world.rank())], output[0]);
     }},
    {"reduce_scatter.input_list", [](TestWorld& world) {
       const Ints first = {world.rank()}, second = {10}, third = {100};
       Ints output = {-1};
       std::vector<TensorView> list = {view(first), view(second), view(third)};
       distributed::reduce_scatter(view(output), list);
       EXPECT_EQ(output, Ints{(Ints{3, 30, 300})[size_t(world.rank())]});
       EXPECT_EQ(first, Ints{world.rank()});
     }},
    {"reduce_scatter.input_list.length", [](TestWorld& world) {
       Ints input(world.rank() == 1 ? 4 : 3), output(1);
       expect_refusal(world, 1, [&] { distributed::reduce_scatter(view(output), one_by_one(input)); }, "input_list has 4 tensors");
     }},
    {"reduce_scatter.input_list.sizes", uneven_sizes},
    {"reduce_scatter.input_list.dtype", [](TestWorld& world) {
       Ints input(3), output(1);
       Floats other(1);
       std::vector<TensorView> list = one_by_one(input);
       if (world.rank() == 1) list[0] = view(other);
       expect_refusal(world, 1, [&] { distributed::reduce_scatter(view(output), list); }, "input_list is float32");
     }},
    {"reduce_scatter.op", [](TestWorld& world) {
       Ints input(3, world.rank() + 1), output(1);
       distributed::reduce_scatter(view(output), one_by_one(input), {.op = ReduceOp::product});
       EXPECT_EQ(output, Ints{6});
     }},
    {"reduce_scatter.op.default", [](TestWorld&) {
       EXPECT_EQ(distributed::ReduceOptions().op, ReduceOp::sum);
       Ints input(3, 2), output(1);
       distributed::reduce_scatter(view(output), one_by_one(input));
       EXPECT_EQ(output, Ints{6});
     }},
    {"reduce_scatter.group", [](TestWorld& world) { expect_group_followed(world, {&samples::reduce_scatter}); }},
    {"reduce_scatter.group.default", [](TestWorld& world) {
       EXPECT_TRUE(distributed::ReduceOptions().group.is_world());
       expect_world_by_default(world, {&samples::reduce_scatter});
     }},
    {"reduce_scatter.group.outside", [](TestWorld& world) { expect_nothing_outside(world, samples::reduce_scatter); }},
    {"reduce_scatter.async_op", [](TestWorld& world) { expect_async_returns_at_once(world, {&samples::reduce_scatter}); }},
    {"reduce_scatter.async_op.default", [](TestWorld& world) {
       EXPECT_FALSE(distributed::ReduceOptions().async_op);
       expect_sync_returns_nothing(world, {&samples::reduce_scatter});
     }},
    {"reduce_scatter.timeout_s", [](TestWorld& world) {
       EXPECT_EQ(distributed::ReduceOptions().timeout_s, std::nullopt);
       expect_own_deadline(world, samples::reduce_scatter);
     }},
    {"reduce_scatter.return", [](TestWorld&) {
       Ints input(3, 1), output(1);
       EXPECT_EQ(distributed::reduce_scatter(view(output), one_by_one(input)), nullptr);
       std::vector<TensorView> list = one_by_one(input);
       WorkPtr work = distributed::reduce_scatter(view(output), list, {.async_op = true});
       ASSERT_NE(work, nullptr);
       EXPECT_TRUE(work->wait());
       EXPECT_EQ(output, Ints{3});
     }},

    {"reduce_scatter_tensor.output", [](TestWorld& world) {
       Ints input = {1, 1, 2, 2, 3, 3}, output(2);
       distributed::reduce_scatter_tensor(view(output), view(input));
       EXPECT_EQ(output, Ints(2, 3 * (world.rank() + 1)));
       Ints in_place = input;
       distributed::reduce_scatter_tensor(view(std::span(in_place).subspan(size_t(world.rank()) * 2, 2)), view(in_place));
       EXPECT_EQ(in_place[size_t(world.rank()) * 2], output[0]);
       static_assert(std::is_same_v<decltype(comm_func::reduce_scatter_tensor),
                                    comm_func::TensorAndHandle(const TensorView&, const comm_func::ReduceOptions&)>);
     }},
    {"reduce_scatter_tensor.input", [](TestWorld& world) {
       const Ints input = {1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
       const Ints expected(4, 3 * (world.rank() + 1));
       for (const Shape& shape : {shape_of({6, 2}), shape_of({3, 2, 2})}) {
         Ints output(4);
         distributed::reduce_scatter_tensor(view(output, {2, 2}), view(input, shape));
         EXPECT_EQ(output, expected) << shape.text();
       }
       EXPECT_EQ(comm_func::reduce_scatter_tensor(view(input, {6, 2})).first.to_vector<int32_t>(), expected);
       EXPECT_EQ(input, (Ints{1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3}));
     }},
    {"reduce_scatter_tensor.input.divisible", [](TestWorld& world) {
       Ints input(world.rank() == 1 ? 4 : 3), output(1);
       expect_refusal(world, 1, [&] { distributed::reduce_scatter_tensor(view(output), view(input)); }, "input has 4 elements");
       expect_refusal(world, 1, [&] { comm_func::reduce_scatter_tensor(view(input)); },
                      "dim 0 of tensor is 4, which is not divisible by the group's 3 ranks");
       Ints twelve(12);  // the count is divisible by 3, and dim 0 is not
       expect_all_refuse([&] { comm_func::reduce_scatter_tensor(view(twelve, {4, 3})); }, {"dim 0"});
       expect_all_refuse([&] { comm_func::reduce_scatter_tensor(view(output, {})); }, {"no dim 0"});
     }},
    {"reduce_scatter_tensor.op", [](TestWorld& world) {
       Ints input(3, world.rank() + 1), output(1);
       distributed::reduce_scatter_tensor(view(output), view(input), {.op = ReduceOp::max});
       EXPECT_EQ(output, Ints{3});
       EXPECT_EQ(comm_func::reduce_scatter_tensor(view(input), {.op = ReduceOp::max}).first.to_vector<int32_t>(), output);
     }},
    {"reduce_scatter_tensor.op.default", [](TestWorld&) {
       EXPECT_EQ(distributed::ReduceOptions().op, ReduceOp::sum);
       EXPECT_EQ(comm_func::ReduceOptions().op, ReduceOp::sum);
       Ints input(3, 2), output(1);
       distributed::reduce_scatter_tensor(view(output), view(input));
       EXPECT_EQ(output, Ints{6});
       EXPECT_EQ(comm_func::reduce_scatter_tensor(view(input)).first.to_vector<int32_t>(), output);
     }},
    {"reduce_scatter_tensor.group", [](TestWorld& world) { expect_group_followed(world, both); }},
    {"reduce_scatter_tensor.group.default", [](TestWorld& world) {
       EXPECT_EQ(comm_func::ReduceOptions().group, comm_func::world);
       expect_world_by_default(world, both);
     }},
    {"reduce_scatter_tensor.group.outside", [](TestWorld& world) {
       expect_nothing_outside(world, samples::reduce_scatter_tensor);
       expect_refused_outside(world, samples::functional::reduce_scatter_tensor);
     }},
    {"reduce_scatter_tensor.async_op", [](TestWorld& world) { expect_async_returns_at_once(world, both); }},
    {"reduce_scatter_tensor.async_op.default", [](TestWorld& world) {
       EXPECT_FALSE(comm_func::ReduceOptions().async_op);
       expect_sync_returns_nothing(world, both);
     }},
    {"reduce_scatter_tensor.timeout_s", [](TestWorld& world) {
       static_assert(!HasTimeout<comm_func::ReduceOptions>);
       expect_own_deadline(world, samples::reduce_scatter_tensor);
       expect_group_deadline(world, samples::functional::reduce_scatter_tensor);
     }},
    {"reduce_scatter_tensor.return.sync", [](TestWorld&) {
       Ints input(3, 1), output(1);
       EXPECT_EQ(distributed::reduce_scatter_tensor(view(output), view(input)), nullptr);
       auto [result, handle] = comm_func::reduce_scatter_tensor(view(input));
       EXPECT_EQ(handle, nullptr);
       EXPECT_EQ(result.to_vector<int32_t>(), Ints{3});
     }},
    {"reduce_scatter_tensor.return.async", [](TestWorld&) {
       Ints input(3, 1), output(1);
       WorkPtr work = distributed::reduce_scatter_tensor(view(output), view(input), {.async_op = true});
       ASSERT_NE(work, nullptr);
       EXPECT_TRUE(work->wait());
       auto [result, handle] = comm_func::reduce_scatter_tensor(view(input), {.async_op = true});
       ASSERT_NE(handle, nullptr);
       handle->wait();
       EXPECT_EQ(result.to_vector<int32_t>(), output);
     }},
    {"reduce_scatter_tensor.return.output", [](TestWorld&) {
       Floats input(24, 1);
       Tensor output = comm_func::reduce_scatter_tensor(view(input, {6, 4})).first;
       EXPECT_EQ(output.shape(), shape_of({2, 4}));
       EXPECT_EQ(output.dtype(), DType::float32);
       EXPECT_EQ(output.to_vector<float>(), Floats(8, 3));
     }},
    {"reduce_scatter_single", [](TestWorld&) {
       Ints input(3, 1), output(1);
       distributed::reduce_scatter_single(view(output), view(input));
       EXPECT_EQ(output, Ints{3});
     }},
};

}  // namespace

std::span<const Row> reduce_scatter_rows() { return rows; }

}  // namespace unisono::testing
