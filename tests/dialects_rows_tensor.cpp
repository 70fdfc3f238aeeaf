// The rows of docs/dialects.md on tensors and groups as arguments.
#include "tests/dialects_rows.hpp"
#include "unisono/communication.hpp"

namespace unisono::testing {
namespace {

// Every collective of both dialects on tensors without elements.
void empty_tensors(TestWorld&) {
  Ints none;
  std::vector<TensorView> list(3, view(none));
  distributed::all_reduce(view(none));
  distributed::all_gather(list, view(none));
  distributed::all_gather_into_tensor(view(none), view(none));
  distributed::reduce_scatter(view(none), list);
  distributed::reduce_scatter_tensor(view(none), view(none));
  distributed::reduce(view(none), 0);
  distributed::scatter(view(none), distributed::get_rank() == 0 ? list : std::vector<TensorView>());
  distributed::broadcast(view(none));
  EXPECT_EQ(comm_func::all_reduce(view(none, {0, 4})).first.shape(), shape_of({0, 4}));
  EXPECT_EQ(comm_func::all_gather_into_tensor(view(none, {0, 4})).first.shape(), shape_of({0, 4}));
  EXPECT_EQ(comm_func::reduce_scatter_tensor(view(none, {3, 0})).first.shape(), shape_of({1, 0}));
  EXPECT_EQ(comm_func::reduce(view(none), 0).count(), 0);
  EXPECT_EQ(comm_func::scatter_tensor(view(none)).count(), 0);
  EXPECT_EQ(comm_func::broadcast(view(none)).count(), 0);
}

// Whole collectives in a world of one: everything is its own result.
void one_rank() {
  for_each_world(ranks(1), [](TestWorld& world) {
    for (const Sample* sample : {&samples::all_reduce, &samples::all_gather, &samples::all_gather_into_tensor,
                                 &samples::reduce_scatter, &samples::reduce_scatter_tensor, &samples::reduce, &samples::scatter,
                                 &samples::broadcast, &samples::barrier, &samples::functional::all_reduce,
                                 &samples::functional::all_gather_into_tensor, &samples::functional::reduce_scatter_tensor,
                                 &samples::functional::reduce, &samples::functional::scatter_tensor,
                                 &samples::functional::broadcast, &samples::functional::barrier})
      expect_world_by_default(world, {sample});
  });
}

constexpr Row rows[] = {
    {"tensor.view", [](TestWorld&) {
       Floats vector(6, 1);
       TensorView flat = view(vector), shaped = view(vector, {2, 3}), part = view(std::span(vector).first(2));
       EXPECT_EQ(flat.shape, shape_of({6}));
       EXPECT_EQ(shaped.shape, shape_of({2, 3}));
       EXPECT_EQ(part.count(), 2);
       EXPECT_EQ(flat.data, vector.data());
       distributed::all_reduce(part);
       EXPECT_EQ(vector, (Floats{3, 3, 1, 1, 1, 1}));
       static_assert(dtype_of<float>() == DType::float32 && dtype_of<bool>() == DType::boolean);
       EXPECT_TRUE(view(std::as_const(vector)).read_only);
     }},
    {"tensor.owned", [](TestWorld&) {
       Tensor tensor = Tensor::from(Floats{1, 2}), same = tensor, other = tensor.clone();
       distributed::all_reduce(tensor);
       EXPECT_EQ(same.to_vector<float>(), (Floats{3, 6}));
       EXPECT_EQ(other.to_vector<float>(), (Floats{1, 2}));
       EXPECT_EQ(comm_func::all_reduce(other).first.to_vector<float>(), (Floats{3, 6}));
     }},
    {"tensor.dims", nullptr, [] {
       EXPECT_EQ(Shape({1, 1, 1, 1, 1, 1, 1, 1}).dims(), 8);
       expect_error<ArgumentError>([] { Shape({1, 1, 1, 1, 1, 1, 1, 1, 1}); }, {"9 dimensions", "at most 8"});
     }},
    {"tensor.empty", empty_tensors},
    {"tensor.zero_dims", [](TestWorld& world) {
       Ints data = {world.rank()};
       Tensor output = comm_func::all_reduce(view(data, {})).first;
       EXPECT_EQ(output.shape().dims(), 0);
       EXPECT_EQ(output.to_vector<int32_t>(), Ints{3});
       EXPECT_EQ(comm_func::reduce(view(data, {}), 0).count(), 1);
       EXPECT_EQ(comm_func::broadcast(view(data, {})).shape().dims(), 0);
       distributed::all_reduce(view(data, {}));
       EXPECT_EQ(data, Ints{3});
     }},
    {"tensor.small", [](TestWorld&) {
       for (int64_t count : {1, 2, 4, 5, 1000, 4001}) {
         Ints data = repeated<int32_t>(count, 1);
         EXPECT_EQ(comm_func::all_reduce(view(data)).first.to_vector<int32_t>(), repeated<int32_t>(count, 3));
         distributed::all_reduce(view(data));
         EXPECT_EQ(data, repeated<int32_t>(count, 3));
       }
     }},
    {"tensor.one_rank", nullptr, one_rank},
    {"tensor.null", [](TestWorld& world) {
       Ints data = {1};
       TensorView none{nullptr, DType::int32, Shape{1}};
       expect_refusal(world, 1, [&] { distributed::all_reduce(world.rank() == 1 ? none : view(data)); }, "null pointer");
       expect_refusal(world, 1, [&] { comm_func::all_reduce(world.rank() == 1 ? none : view(data)); }, "null pointer");
       EXPECT_EQ(data, Ints{1});
     }},
    {"tensor.impossible", [](TestWorld& world) {
       Ints data = {1};
       auto shaped = [&](const Shape& shape) { return world.rank() == 1 ? TensorView{data.data(), DType::int32, shape} : view(data); };
       expect_refusal(world, 1, [&] { distributed::all_reduce(shaped({-1})); }, "which cannot be");
       expect_refusal(world, 1, [&] { comm_func::all_reduce(shaped({INT64_MAX, 2})); }, "which cannot be");
       expect_error<ArgumentError>([&] { view(data, {2}); }, {"a view of shape (2) does not fit 1 elements"});
       const TensorView odd{data.data(), static_cast<DType>(200), Shape{1}};
       expect_refusal(world, 1, [&] { distributed::all_reduce(world.rank() == 1 ? odd : view(data)); }, "dtype number 200");
       expect_refusal(world, 1, [&] { comm_func::all_reduce(world.rank() == 1 ? odd : view(data)); }, "dtype number 200");
     }},
    {"tensor.overlap", [](TestWorld&) {
       Ints data(8);
       auto part = [&](size_t from, size_t count) { return view(std::span(data).subspan(from, count)); };
       expect_all_refuse([&] { distributed::all_gather_into_tensor(part(0, 6), part(5, 2)); }, {"overlap"});
       expect_all_refuse([&] { distributed::reduce_scatter_tensor(part(5, 2), part(0, 6)); }, {"overlap"});
     }},

    {"group.handle", [](TestWorld& world) {
       GroupHandle pair = distributed::new_group({2, 0});
       EXPECT_EQ(pair.is_member(), world.rank() != 1);
       EXPECT_EQ(distributed::get_rank(pair), world.rank() == 2 ? 0 : world.rank() == 0 ? 1 : -1);
       EXPECT_EQ(distributed::get_world_size(pair), world.rank() == 1 ? -1 : 2);
     }},
    {"group.name", [](TestWorld& world) {
       if (world.rank() != 1) communication::create_group("pair", {2, 0});
       Ints data = {world.rank()};
       if (world.rank() != 1) {
         EXPECT_EQ(communication::get_rank("pair"), world.rank() == 2 ? 0 : 1);
         EXPECT_EQ(comm_func::all_gather_into_tensor(view(data), {.group = "pair"}).first.to_vector<int32_t>(), (Ints{2, 0}));
         communication::destroy_group("pair");
       }
       expect_error<ArgumentError>([&] { comm_func::all_reduce(view(data), {.group = "pair"}); }, {"\"pair\""});
     }},
    {"group.world_names", [](TestWorld&) {
       EXPECT_EQ(comm_func::world, "hccl_world_group");
       for (const char* name : {"", "hccl_world_group", "nccl_world_group", "mccl_world_group"}) {
         Ints data = {1};
         EXPECT_EQ(comm_func::all_reduce(view(data), {.group = name}).first.to_vector<int32_t>(), Ints{3}) << name;
       }
     }},
    {"group.shared", [](TestWorld& world) {
       EXPECT_TRUE(distributed::is_initialized() && communication::GlobalComm::INITED());
       GroupHandle pair = distributed::new_group({0, 2}, {.name = "pair"});
       if (!pair.is_member()) return;
       Ints data = {world.rank()};
       EXPECT_EQ(comm_func::all_reduce(view(data), {.group = "pair"}).first.to_vector<int32_t>(), Ints{2});
     }},
    {"group.run_ahead", [](TestWorld& world) {
       EXPECT_EQ(distributed::NewGroupOptions().run_ahead, 0);
       GroupHandle ahead = distributed::new_group({}, {.name = "ahead", .run_ahead = 4});
       for (int call = 0; call < 20; ++call) {
         Ints data = {world.rank() == 0 ? call : -1}, given = {1};
         distributed::broadcast(view(data), {.group = ahead});
         EXPECT_EQ(data, Ints{call});
         EXPECT_EQ(comm_func::reduce(view(given), 1, {.group = "ahead"}).to_vector<int32_t>(), Ints{world.rank() == 1 ? 3 : 0});
       }
       distributed::barrier({.group = ahead});
     }},
    {"group.mixed", [](TestWorld& world) {
       Ints data = {1}, room(3);
       if (world.rank() == 1)
         comm_func::all_gather_into_tensor(view(data));
       else
         distributed::all_gather_into_tensor(view(room), view(data));
       if (world.rank() == 1)
         comm_func::reduce(view(data), 0);
       else
         distributed::reduce(view(data), 0);
       EXPECT_EQ(data, Ints{world.rank() == 0 ? 3 : 1});
       for (int64_t count : {int64_t{2}, int64_t{100'000}}) {  // a list here, one tensor there
         Ints input(static_cast<size_t>(3 * count), 1), output(static_cast<size_t>(count));
         std::vector<TensorView> list;
         for (int part = 0; part < 3; ++part) list.push_back(view(std::span(input).subspan(static_cast<size_t>(part * count), output.size())));
         if (world.rank() == 1)
           distributed::reduce_scatter(view(output), list);
         else
           distributed::reduce_scatter_tensor(view(output), view(input));
         EXPECT_EQ(output, repeated<int32_t>(count, 3));
       }
       expect_mismatch(
           [&] {
             if (world.rank() == 1)
               comm_func::all_reduce(view(data));
             else
               distributed::all_reduce(view(data));
           },
           {"all_reduce shape"});
     }},
};

}  // namespace

std::span<const Row> tensor_rows() { return rows; }

}  // namespace unisono::testing
