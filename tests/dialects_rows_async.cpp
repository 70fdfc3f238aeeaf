// The rows of docs/dialects.md on asynchronous calls.
#include "tests/dialects_rows.hpp"

namespace unisono::testing {
namespace {

constexpr double soon_s = 0.02;

// A group of all ranks besides the world, so that ranks can be made to wait for each other in one and not in the other.
GroupHandle second_group(const std::string& name = "second") { return distributed::new_group({}, {.name = name}); }

void wait_that_expires(TestWorld& world) {
  GroupHandle second = second_group();
  Ints data = {1};
  if (world.rank() != 0) distributed::barrier();
  WorkPtr work = distributed::all_reduce(view(data), {.group = second, .async_op = true});
  if (world.rank() == 0) {
    expect_error<TimeoutError>([&] { work->wait(soon_s); }, {"still running and may be waited for again"});
    EXPECT_FALSE(work->is_completed());
    distributed::barrier();
  }
  EXPECT_TRUE(work->wait());
  EXPECT_EQ(data, Ints{3});
  if (world.rank() != 0) distributed::barrier();
  auto [output, handle] = comm_func::all_reduce(view(data), {.group = "second", .async_op = true});
  if (world.rank() == 0) {
    expect_error<TimeoutError>([&, waited = handle] { waited->wait(soon_s); });
    distributed::barrier();
  }
  handle->wait();
  EXPECT_EQ(output.to_vector<int32_t>(), Ints{9});
}

void error_of_a_call(TestWorld& world) {
  Ints data(world.rank() == 1 ? 4 : 3, 1);
  WorkPtr work = distributed::all_reduce(view(data), {.async_op = true});
  auto [output, handle] = comm_func::all_reduce(view(data), {.async_op = true});
  for (int time = 0; time < 2; ++time) expect_error<MismatchError>([&] { work->wait(); }, {"all_reduce count"});
  EXPECT_TRUE(work->is_completed());
  EXPECT_FALSE(work->is_success());
  EXPECT_EQ(work->exception().code(), ErrorCode::mismatch);
  expect_error<MismatchError>([&, waited = handle] { waited->wait(); }, {"all_reduce count"});
  EXPECT_EQ(handle->exception().code(), ErrorCode::mismatch);
  EXPECT_EQ(data, Ints(data.size(), 1));
  distributed::barrier();
}

void broken_group(TestWorld& world) {
  GroupHandle second = second_group();
  Ints data = {1};
  WorkPtr pending;
  if (world.rank() != 0) pending = distributed::all_reduce(view(data), {.group = second, .async_op = true});
  distributed::barrier();
  if (world.rank() == 0) distributed::abort(second, "for the test");
  if (pending) expect_error<RevokedError>([&] { pending->wait(); }, {"rank 0 aborted", "for the test"});
  distributed::barrier();
  expect_error<RevokedError>([&] { distributed::all_reduce(view(data), {.group = second}); }, {"for the test"});
  WorkPtr late = distributed::all_reduce(view(data), {.group = second, .async_op = true});
  ASSERT_NE(late, nullptr);
  EXPECT_TRUE(late->is_completed());
  expect_error<RevokedError>([&] { late->wait(); }, {"for the test"});
}

constexpr Row rows[] = {
    {"async.at_once", [](TestWorld& world) {
       GroupHandle second = second_group();
       Ints data = {1};
       if (world.rank() != 0) distributed::barrier();
       WorkPtr work = distributed::all_reduce(view(data), {.group = second, .async_op = true});
       auto [output, handle] = comm_func::all_gather_into_tensor(view(data), {.group = "second", .async_op = true});
       if (world.rank() == 0) {
         EXPECT_FALSE(work->is_completed());  // nobody else has entered
         EXPECT_FALSE(handle->is_completed());
         distributed::barrier();
       }
       handle->wait();
       EXPECT_EQ(output.to_vector<int32_t>(), Ints(3, 3));
     }},
    {"async.result", [](TestWorld& world) {
       Floats data(50'000, float(world.rank()));
       WorkPtr work = distributed::all_reduce(view(data), {.async_op = true});
       EXPECT_TRUE(work->wait());
       EXPECT_EQ(data, Floats(50'000, 3));
       auto [output, handle] = comm_func::all_reduce(view(data), {.async_op = true});
       handle->wait();
       EXPECT_EQ(output.to_vector<float>(), Floats(50'000, 9));
     }},
    {"async.order", [](TestWorld&) {
       std::vector<Ints> data(4, Ints{1});
       std::vector<WorkPtr> works;
       for (Ints& one : data) works.push_back(distributed::all_reduce(view(one), {.async_op = true}));
       EXPECT_TRUE(works.back()->wait());
       for (const WorkPtr& work : works) EXPECT_TRUE(work->is_completed());
       EXPECT_EQ(data, std::vector<Ints>(4, Ints{3}));
     }},
    {"async.sync_behind", [](TestWorld&) {
       Ints data = {1};
       WorkPtr work = distributed::all_reduce(view(data), {.async_op = true});
       distributed::all_reduce(view(data));
       EXPECT_TRUE(work->is_completed());
       EXPECT_EQ(data, Ints{9});
       auto [output, handle] = comm_func::all_reduce(view(data), {.async_op = true});
       comm_func::barrier();
       EXPECT_TRUE(handle->is_completed());
       EXPECT_EQ(output.to_vector<int32_t>(), Ints{27});
     }},
    {"async.groups", [](TestWorld& world) {
       GroupHandle first = second_group("first"), second = second_group();
       Ints one = {1}, other = {2};
       auto start = [](Ints& data, const GroupHandle& group) { return distributed::all_reduce(view(data), {.group = group, .async_op = true}); };
       WorkPtr work;
       if (world.rank() == 1) {  // the other way round
         work = start(other, second);
         EXPECT_TRUE(start(one, first)->wait());
       } else {
         work = start(one, first);
         EXPECT_TRUE(start(other, second)->wait());
       }
       EXPECT_TRUE(work->wait());
       EXPECT_EQ(one, Ints{3});
       EXPECT_EQ(other, Ints{6});
     }},
    {"async.memory", [](TestWorld&) {
       Ints input = {1};
       auto [output, handle] = comm_func::all_reduce(view(input), {.async_op = true});
       std::weak_ptr<std::byte> storage = output.storage();
       output = Tensor();  // the call still writes there
       handle->wait();
       EXPECT_TRUE(storage.expired());
       distributed::barrier();
     }},
    {"async.dropped", [](TestWorld&) {
       Ints input = {1}, data = {1};
       Tensor kept = comm_func::all_reduce(view(input), {.async_op = true}).first;
       distributed::all_reduce(view(data), {.async_op = true});
       distributed::barrier();  // both calls are over
       EXPECT_EQ(kept.to_vector<int32_t>(), Ints{3});
       EXPECT_EQ(data, Ints{3});
     }},
    {"async.wait_timeout", wait_that_expires},
    {"async.error", error_of_a_call},
    {"async.argument_error", [](TestWorld& world) {
       Ints data = {1};
       TensorView none{nullptr, DType::int32, Shape{1}};
       if (world.rank() == 1) {
         expect_error<ArgumentError>([&] { distributed::all_reduce(none, {.async_op = true}); }, {"null pointer"});
         expect_error<ArgumentError>([&] { comm_func::all_reduce(none, {.async_op = true}); }, {"null pointer"});
       } else {
         WorkPtr work = distributed::all_reduce(view(data), {.async_op = true});
         expect_error<PeerArgumentError>([&] { work->wait(); }, {"rank 1", "null pointer"});
         CommHandlePtr handle = comm_func::all_reduce(view(data), {.async_op = true}).second;
         expect_error<PeerArgumentError>([&] { handle->wait(); }, {"rank 1", "null pointer"});
       }
       distributed::barrier();
     }},
    {"async.broken_group", broken_group},
    {"async.work", [](TestWorld&) {
       Ints data = {1};
       WorkPtr work = distributed::all_reduce(view(data), {.async_op = true});
       static_assert(std::is_same_v<decltype(work->wait()), bool>);
       EXPECT_TRUE(work->wait());
       EXPECT_TRUE(work->wait(1.0));
       EXPECT_TRUE(work->is_completed());
       EXPECT_TRUE(work->is_success());
       EXPECT_TRUE(work->exception().ok());
     }},
    {"async.handle", [](TestWorld&) {
       Ints data = {1};
       CommHandlePtr handle = comm_func::all_reduce(view(data), {.async_op = true}).second;
       static_assert(std::is_void_v<decltype(handle->wait())>);
       handle->wait();
       handle->wait(1.0);
       EXPECT_TRUE(handle->is_completed());
       EXPECT_TRUE(handle->exception().ok());
     }},
};

}  // namespace

std::span<const Row> async_rows() { return rows; }

}  // namespace unisono::testing
