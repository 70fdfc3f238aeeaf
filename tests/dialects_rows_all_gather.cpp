// The rows of docs/dialects.md on all_gather and all_gather_into_tensor.
#include "tests/dialects_rows.hpp"

namespace unisono::testing {
namespace {

const Samples both = {&samples::all_gather_into_tensor, &samples::functional::all_gather_into_tensor};

// Rank i gives i + 1 elements; every rank brings a list with room for that.
void uneven_sizes(TestWorld& world) {
  std::vector<Ints> gathered(3);
  std::vector<TensorView> list;
  for (int rank = 0; rank < 3; ++rank) {
    gathered[size_t(rank)].resize(size_t(rank + 1));
    list.push_back(view(gathered[size_t(rank)]));
  }
  Ints data(size_t(world.rank() + 1), world.rank());
  distributed::all_gather(list, view(data));
  EXPECT_EQ(gathered, (std::vector<Ints>{{0}, {1, 1}, {2, 2, 2}}));

  Ints wrong(size_t(world.rank() + 2), 0);
  expect_all_refuse([&] { distributed::all_gather(list, view(wrong)); }, {"tensor has", "tensor_list"});
  expect_mismatch([&] { comm_func::all_gather_into_tensor(view(data)); }, {"all_gather count"});
}

void overlapping(TestWorld& world) {
  Ints data = {world.rank(), 7, -1, -1, -1, -1, -1};
  size_t mine = size_t(world.rank());
  data[mine * 2] = world.rank();
  data[mine * 2 + 1] = 7;
  auto part = [&](size_t from) { return view(std::span(data).subspan(from, 2)); };
  std::vector<TensorView> list = {part(0), part(2), part(4)};
  distributed::all_gather(list, part(mine * 2));
  EXPECT_EQ(data, (Ints{0, 7, 1, 7, 2, 7, -1}));
  auto refused = [&](TensorView tensor) {
    expect_all_refuse([&] { distributed::all_gather(list, tensor); }, {"overlap"});
  };
  refused(part((mine + 1) % 3 * 2));  // another rank's element
  refused(part(mine * 2 + 1));        // a part of its own, and of the next
  list[0] = list[1];
  Ints apart = {1, 2};
  refused(view(apart));
}

constexpr Row rows[] = {
    {"all_gather.tensor_list", [](TestWorld& world) {
       Ints data = {world.rank(), 5};
       std::vector<Ints> gathered(3, Ints(2));
       std::vector<TensorView> list = {view(gathered[0]), view(gathered[1]), view(gathered[2])};
       distributed::all_gather(list, view(data));
       EXPECT_EQ(gathered, (std::vector<Ints>{{0, 5}, {1, 5}, {2, 5}}));
       EXPECT_EQ(comm_func::all_gather_into_tensor(view(data)).first.to_vector<int32_t>(), (Ints{0, 5, 1, 5, 2, 5}));
     }},
    {"all_gather.tensor_list.length", [](TestWorld& world) {
       Ints data = {1}, room(3);
       std::vector<TensorView> list(world.rank() == 1 ? 2 : 3);
       for (size_t index = 0; index < list.size(); ++index) list[index] = view(std::span(room).subspan(index, 1));
       expect_refusal(world, 1, [&] { distributed::all_gather(list, view(data)); }, "tensor_list has 2 tensors");
     }},
    {"all_gather.tensor_list.dtype", [](TestWorld& world) {
       Ints data = {1}, room(3);
       Floats other(1);
       std::vector<TensorView> list;
       for (size_t index = 0; index < 3; ++index) list.push_back(view(std::span(room).subspan(index, 1)));
       if (world.rank() == 1) list[2] = view(other);
       expect_refusal(world, 1, [&] { distributed::all_gather(list, view(data)); }, "tensor_list is float32");
       EXPECT_EQ(comm_func::all_gather_into_tensor(view(data)).first.dtype(), DType::int32);
     }},
    {"all_gather.tensor_list.sizes", uneven_sizes},
    {"all_gather.tensor_list.overlap", overlapping},
    {"all_gather.tensor", [](TestWorld& world) {
       const Ints data = {world.rank()};
       Ints room(3);
       std::vector<TensorView> list;
       for (size_t index = 0; index < 3; ++index) list.push_back(view(std::span(room).subspan(index, 1)));
       distributed::all_gather(list, view(data));
       EXPECT_EQ(room, (Ints{0, 1, 2}));
       EXPECT_EQ(comm_func::all_gather_into_tensor(view(data)).first.to_vector<int32_t>(), room);
       EXPECT_EQ(data, Ints{world.rank()});
     }},
    {"all_gather.group", [](TestWorld& world) { expect_group_followed(world, {&samples::all_gather}); }},
    {"all_gather.group.default", [](TestWorld& world) {
       EXPECT_TRUE(distributed::Options().group.is_world());
       expect_world_by_default(world, {&samples::all_gather});
     }},
    {"all_gather.group.outside", [](TestWorld& world) { expect_nothing_outside(world, samples::all_gather); }},
    {"all_gather.async_op", [](TestWorld& world) { expect_async_returns_at_once(world, {&samples::all_gather}); }},
    {"all_gather.async_op.default", [](TestWorld& world) {
       EXPECT_FALSE(distributed::Options().async_op);
       expect_sync_returns_nothing(world, {&samples::all_gather});
     }},
    {"all_gather.timeout_s", [](TestWorld& world) {
       EXPECT_EQ(distributed::Options().timeout_s, std::nullopt);
       expect_own_deadline(world, samples::all_gather);
     }},
    {"all_gather.return", [](TestWorld& world) {
       Ints data = {world.rank()}, room(3);
       std::vector<TensorView> list;
       for (size_t index = 0; index < 3; ++index) list.push_back(view(std::span(room).subspan(index, 1)));
       EXPECT_EQ(distributed::all_gather(list, view(data)), nullptr);
       WorkPtr work = distributed::all_gather(list, view(data), {.async_op = true});
       ASSERT_NE(work, nullptr);
       EXPECT_TRUE(work->wait());
     }},

    {"all_gather_into_tensor.output", [](TestWorld& world) {
       Ints data = {world.rank(), 4, 5, 6};
       Ints expected = {0, 4, 5, 6, 1, 4, 5, 6, 2, 4, 5, 6};
       for (const Shape& shape : {shape_of({6, 2}), shape_of({3, 2, 2}), shape_of({12})}) {
         Ints room(12);
         distributed::all_gather_into_tensor(view(room, shape), view(data, {2, 2}));
         EXPECT_EQ(room, expected) << shape.text();
       }
       static_assert(std::is_same_v<decltype(comm_func::all_gather_into_tensor),
                                    comm_func::TensorAndHandle(const TensorView&, const comm_func::Options&)>);
     }},
    {"all_gather_into_tensor.output.size", [](TestWorld& world) {
       Ints data = {1, 2}, room(world.rank() == 1 ? 5 : 6);
       expect_refusal(world, 1, [&] { distributed::all_gather_into_tensor(view(room), view(data)); }, "output has 5 elements");
       Floats other(6);
       expect_all_refuse([&] { distributed::all_gather_into_tensor(view(other), view(data)); }, {"output is float32"});
     }},
    {"all_gather_into_tensor.input", [](TestWorld& world) {
       const Ints data = {world.rank()};
       Ints room = {-1, -1, -1};
       distributed::all_gather_into_tensor(view(room), view(data));
       EXPECT_EQ(room, (Ints{0, 1, 2}));
       Ints in_place = {-1, -1, -1};
       in_place[size_t(world.rank())] = world.rank();
       distributed::all_gather_into_tensor(view(in_place), view(std::span(in_place).subspan(size_t(world.rank()), 1)));
       EXPECT_EQ(in_place, room);
       EXPECT_EQ(comm_func::all_gather_into_tensor(view(data)).first.to_vector<int32_t>(), room);
       EXPECT_EQ(data, Ints{world.rank()});
       Ints uneven(world.rank() == 1 ? 2 : 1);
       expect_mismatch([&] { comm_func::all_gather_into_tensor(view(uneven)); }, {"all_gather count", "= 1", "= 2"});
     }},
    {"all_gather_into_tensor.group", [](TestWorld& world) { expect_group_followed(world, both); }},
    {"all_gather_into_tensor.group.default", [](TestWorld& world) {
       EXPECT_TRUE(distributed::Options().group.is_world());
       EXPECT_EQ(comm_func::Options().group, comm_func::world);
       expect_world_by_default(world, both);
     }},
    {"all_gather_into_tensor.group.outside", [](TestWorld& world) {
       expect_nothing_outside(world, samples::all_gather_into_tensor);
       expect_refused_outside(world, samples::functional::all_gather_into_tensor);
     }},
    {"all_gather_into_tensor.async_op", [](TestWorld& world) { expect_async_returns_at_once(world, both); }},
    {"all_gather_into_tensor.async_op.default", [](TestWorld& world) {
       EXPECT_FALSE(distributed::Options().async_op);
       EXPECT_FALSE(comm_func::Options().async_op);
       expect_sync_returns_nothing(world, both);
     }},
    {"all_gather_into_tensor.timeout_s", [](TestWorld& world) {
       static_assert(!HasTimeout<comm_func::Options>);
       expect_own_deadline(world, samples::all_gather_into_tensor);
       expect_group_deadline(world, samples::functional::all_gather_into_tensor);
     }},
    {"all_gather_into_tensor.return.sync", [](TestWorld& world) {
       Ints data = {world.rank()}, room(3);
       EXPECT_EQ(distributed::all_gather_into_tensor(view(room), view(data)), nullptr);
       auto [output, handle] = comm_func::all_gather_into_tensor(view(data));
       EXPECT_EQ(handle, nullptr);
       EXPECT_EQ(output.to_vector<int32_t>(), room);
     }},
    {"all_gather_into_tensor.return.async", [](TestWorld& world) {
       Ints data = {world.rank()}, room(3);
       WorkPtr work = distributed::all_gather_into_tensor(view(room), view(data), {.async_op = true});
       ASSERT_NE(work, nullptr);
       EXPECT_TRUE(work->wait());
       auto [output, handle] = comm_func::all_gather_into_tensor(view(data), {.async_op = true});
       ASSERT_NE(handle, nullptr);
       handle->wait();
       EXPECT_EQ(output.to_vector<int32_t>(), room);
     }},
    {"all_gather_into_tensor.return.output", [](TestWorld& world) {
       Ints data(6, world.rank());
       Tensor output = comm_func::all_gather_into_tensor(view(data, {2, 3})).first;
       EXPECT_EQ(output.shape(), shape_of({6, 3}));
       Ints expected(18);
       for (size_t index = 0; index < expected.size(); ++index) expected[index] = int32_t(index / 6);
       EXPECT_EQ(output.to_vector<int32_t>(), expected);
     }},
    {"all_gather_into_tensor.return.output.zero_dims", [](TestWorld& world) {
       Ints data = {world.rank()}, room(3);
       Tensor output = comm_func::all_gather_into_tensor(view(data, {})).first;
       EXPECT_EQ(output.shape(), shape_of({3}));
       EXPECT_EQ(output.to_vector<int32_t>(), (Ints{0, 1, 2}));
       distributed::all_gather_into_tensor(view(room), view(data, {}));
       EXPECT_EQ(room, (Ints{0, 1, 2}));
     }},
    {"all_gather_single", [](TestWorld& world) {
       Ints data = {world.rank()}, room(3);
       distributed::all_gather_single(view(room), view(data));
       EXPECT_EQ(room, (Ints{0, 1, 2}));
     }},
};

}  // namespace

std::span<const Row> all_gather_rows() { return rows; }

}  // namespace unisono::testing
