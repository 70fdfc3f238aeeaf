// What the rows share: expectations, a small call of each function, and the rows that every function has.
#include "tests/dialects_rows.hpp"
#include "unisono/communication.hpp"

namespace unisono::testing {
namespace {

constexpr double soon_s = 0.05;         // a deadline that is meant to pass
constexpr double soon_group_s = 0.5;    // likewise, of a group; the group itself must be made within it

int32_t given_by(int rank) { return 10 * rank + 1; }
int root_of(const How& how) { return how.members.front(); }
int64_t size_of(const How& how) { return static_cast<int64_t>(how.members.size()); }

int32_t index_in(const How& how) {
  auto place = std::find(how.members.begin(), how.members.end(), how.me);
  return static_cast<int32_t>(place - how.members.begin());
}

Ints everybody(const How& how) {
  Ints numbers;
  for (int rank : how.members) numbers.push_back(given_by(rank));
  return numbers;
}

// Part i of what a rank gives is its number plus 100 i.
Ints parts_of(const How& how, int rank) {
  Ints parts(how.members.size());
  for (size_t index = 0; index < parts.size(); ++index) parts[index] = given_by(rank) + 100 * static_cast<int32_t>(index);
  return parts;
}

void give(Buffers& buffers, Ints input, int64_t output_count) {
  buffers.input = std::move(input);
  buffers.output = buffers.before = repeated<int32_t>(output_count, -1);
}

std::vector<TensorView> one_by_one(Ints& elements) {
  std::vector<TensorView> list;
  for (int32_t& element : elements) list.push_back(view(std::span(&element, 1)));
  return list;
}

Pending pending(const WorkPtr& work) {
  return {work != nullptr, [work] { EXPECT_TRUE(work->wait()); }};
}
Pending pending(Buffers& buffers, std::pair<Tensor, CommHandlePtr> returned) {
  buffers.result = returned.first;
  return {returned.second != nullptr, [handle = returned.second] { handle->wait(); }};
}
Pending plain(Buffers& buffers, Tensor result) {
  buffers.result = std::move(result);
  return {};
}

Ints reduced(const How& how) { return {total(everybody(how))}; }
Ints my_part_reduced(const How& how) {
  return {total(everybody(how)) + 100 * index_in(how) * static_cast<int32_t>(how.members.size())};
}
Ints my_part_of_root(const How& how) { return {given_by(root_of(how)) + 100 * index_in(how)}; }
Ints nothing(const How&) { return {}; }

How world_of(const TestWorld& world) {
  How how{.me = world.rank()};
  for (int rank = 0; rank < world.ranks(); ++rank) how.members.push_back(rank);
  return how;
}

// Makes the call, waits for it where there is something to wait for, and looks at the result.
void call_and_check(const Sample& sample, const How& how) {
  Buffers buffers;
  Pending pending = sample.call(how, buffers);
  EXPECT_EQ(pending.given, how.async_op);
  if (pending.given) pending.wait();
  const Ints got = buffers.result.storage() ? buffers.result.to_vector<int32_t>() : buffers.output;
  EXPECT_EQ(got, sample.expected(how)) << "rank " << how.me;
}

}  // namespace

namespace samples {

constexpr Sample all_reduce{[](const How& how, Buffers& buffers) {
                              give(buffers, {}, 0);
                              buffers.output = buffers.before = {given_by(how.me)};
                              return pending(distributed::all_reduce(
                                  view(buffers.output),
                                  {.group = how.group, .async_op = how.async_op, .timeout_s = how.timeout_s}));
                            },
                            reduced};

constexpr Sample all_gather{[](const How& how, Buffers& buffers) {
                              give(buffers, {given_by(how.me)}, size_of(how));
                              buffers.list = one_by_one(buffers.output);
                              return pending(distributed::all_gather(
                                  buffers.list, view(buffers.input),
                                  {.group = how.group, .async_op = how.async_op, .timeout_s = how.timeout_s}));
                            },
                            everybody};

constexpr Sample all_gather_into_tensor{
    [](const How& how, Buffers& buffers) {
      give(buffers, {given_by(how.me)}, size_of(how));
      return pending(
          distributed::all_gather_into_tensor(view(buffers.output), view(buffers.input),
                                              {.group = how.group, .async_op = how.async_op, .timeout_s = how.timeout_s}));
    },
    everybody};

constexpr Sample reduce_scatter{[](const How& how, Buffers& buffers) {
                                  give(buffers, parts_of(how, how.me), 1);
                                  buffers.list = one_by_one(buffers.input);
                                  return pending(distributed::reduce_scatter(
                                      view(buffers.output), buffers.list,
                                      {.group = how.group, .async_op = how.async_op, .timeout_s = how.timeout_s}));
                                },
                                my_part_reduced};

constexpr Sample reduce_scatter_tensor{
    [](const How& how, Buffers& buffers) {
      give(buffers, parts_of(how, how.me), 1);
      return pending(
          distributed::reduce_scatter_tensor(view(buffers.output), view(buffers.input),
                                             {.group = how.group, .async_op = how.async_op, .timeout_s = how.timeout_s}));
    },
    my_part_reduced};

constexpr Sample reduce{[](const How& how, Buffers& buffers) {
                          buffers.output = buffers.before = {given_by(how.me)};
                          return pending(distributed::reduce(
                              view(buffers.output), root_of(how),
                              {.group = how.group, .async_op = how.async_op, .timeout_s = how.timeout_s}));
                        },
                        [](const How& how) { return how.me == root_of(how) ? reduced(how) : Ints{given_by(how.me)}; }};

constexpr Sample scatter{
    [](const How& how, Buffers& buffers) {
      give(buffers, parts_of(how, how.me), 1);
      if (how.me == root_of(how)) buffers.list = one_by_one(buffers.input);
      return pending(distributed::scatter(
          view(buffers.output), buffers.list,
          {.src = root_of(how), .group = how.group, .async_op = how.async_op, .timeout_s = how.timeout_s}));
    },
    my_part_of_root};

constexpr Sample broadcast{[](const How& how, Buffers& buffers) {
                             buffers.output = buffers.before = {given_by(how.me)};
                             return pending(distributed::broadcast(
                                 view(buffers.output),
                                 {.src = root_of(how), .group = how.group, .async_op = how.async_op, .timeout_s = how.timeout_s}));
                           },
                           [](const How& how) { return Ints{given_by(root_of(how))}; }};

constexpr Sample barrier{[](const How& how, Buffers&) {
                           return pending(distributed::barrier(
                               {.group = how.group, .async_op = how.async_op, .timeout_s = how.timeout_s}));
                         },
                         nothing};

namespace functional {

constexpr Sample all_reduce{[](const How& how, Buffers& buffers) {
                              buffers.input = {given_by(how.me)};
                              return pending(buffers, comm_func::all_reduce(view(buffers.input),
                                                                            {.group = how.name, .async_op = how.async_op}));
                            },
                            reduced};

constexpr Sample all_gather_into_tensor{
    [](const How& how, Buffers& buffers) {
      buffers.input = {given_by(how.me)};
      return pending(buffers, comm_func::all_gather_into_tensor(view(buffers.input), {how.name, how.async_op}));
    },
    everybody};

constexpr Sample reduce_scatter_tensor{
    [](const How& how, Buffers& buffers) {
      buffers.input = parts_of(how, how.me);
      return pending(buffers, comm_func::reduce_scatter_tensor(view(buffers.input),
                                                               {.group = how.name, .async_op = how.async_op}));
    },
    my_part_reduced};

constexpr Sample reduce{[](const How& how, Buffers& buffers) {
                          buffers.input = {given_by(how.me)};
                          return plain(buffers, comm_func::reduce(view(buffers.input), root_of(how), {.group = how.name}));
                        },
                        [](const How& how) { return how.me == root_of(how) ? reduced(how) : Ints{0}; }};

constexpr Sample scatter_tensor{[](const How& how, Buffers& buffers) {
                                  buffers.input = parts_of(how, how.me);
                                  return plain(buffers, comm_func::scatter_tensor(view(buffers.input), root_of(how), how.name));
                                },
                                my_part_of_root};

constexpr Sample broadcast{[](const How& how, Buffers& buffers) {
                             buffers.input = {given_by(how.me)};
                             return plain(buffers, comm_func::broadcast(view(buffers.input), root_of(how), how.name));
                           },
                           [](const How& how) { return Ints{given_by(root_of(how))}; }};

constexpr Sample barrier{[](const How& how, Buffers&) {
                           comm_func::barrier(how.name);
                           return Pending{};
                         },
                         nothing};

}  // namespace functional
}  // namespace samples

void expect_refusal(TestWorld& world, int refuser, const std::function<void()>& call, const std::string& word) {
  if (world.rank() == refuser)
    expect_error<ArgumentError>(call, {word});
  else
    expect_error<PeerArgumentError>(call, {"rank " + std::to_string(refuser), word});
  distributed::barrier();
}

void expect_all_refuse(const std::function<void()>& call, const std::vector<std::string>& words, const GroupHandle& group) {
  expect_error<ArgumentError>(call, words);
  distributed::barrier({.group = group});
}

void expect_mismatch(const std::function<void()>& call, const std::vector<std::string>& words) {
  expect_error<MismatchError>(call, words);
  distributed::barrier();
}

void expect_group_followed(TestWorld& world, const Samples& samples) {
  How how{.me = world.rank(), .members = {2, 0}, .group = distributed::new_group({2, 0}, {.name = "pair"}), .name = "pair"};
  if (!how.group.is_member()) return;
  for (const Sample* sample : samples) call_and_check(*sample, how);
}

void expect_world_by_default(TestWorld& world, const Samples& samples) {
  EXPECT_TRUE(GroupHandle().is_world());
  EXPECT_EQ(How().name, communication::GlobalComm::WORLD_COMM_GROUP);
  for (const Sample* sample : samples) call_and_check(*sample, world_of(world));
}

void expect_nothing_outside(TestWorld& world, const Sample& in_place) {
  How how{.me = world.rank(), .members = {2, 0}, .group = distributed::new_group({2, 0})};
  EXPECT_EQ(how.group.is_member(), world.rank() != 1);
  if (how.group.is_member()) return;  // the members make no call, so this one could not return if anything happened
  for (bool async_op : {false, true}) {
    how.async_op = async_op;
    Buffers buffers;
    EXPECT_FALSE(in_place.call(how, buffers).given);
    EXPECT_EQ(buffers.output, buffers.before);
  }
}

void expect_refused_outside(TestWorld& world, const Sample& functional) {
  if (world.rank() != 1) return communication::create_group("pair", {2, 0});
  Buffers buffers;
  How how{.me = world.rank(), .members = {2, 0}, .name = "pair"};
  expect_error<ArgumentError>([&] { functional.call(how, buffers); }, {"rank 1", "\"pair\""});
}

void expect_sync_returns_nothing(TestWorld& world, const Samples& samples) {
  for (const Sample* sample : samples) call_and_check(*sample, world_of(world));
}

// The others enter the call only after rank 0 has come back from it.
void expect_async_returns_at_once(TestWorld& world, const Samples& samples) {
  How how = world_of(world);
  how.async_op = true;
  how.name = "others";
  how.group = distributed::new_group({}, {.name = how.name});
  for (const Sample* sample : samples) {
    Buffers buffers;
    if (world.rank() != 0) distributed::barrier();
    Pending pending = sample->call(how, buffers);
    EXPECT_TRUE(pending.given);
    if (world.rank() == 0) distributed::barrier();
    if (pending.given) pending.wait();
    const Ints got = buffers.result.storage() ? buffers.result.to_vector<int32_t>() : buffers.output;
    EXPECT_EQ(got, sample->expected(how));
  }
}

void expect_own_deadline(TestWorld& world, const Sample& in_place) {
  How how = world_of(world);
  how.group = distributed::new_group({});
  how.timeout_s = soon_s;
  Buffers buffers;
  if (world.rank() == 0)
    expect_error<TimeoutError>([&] { in_place.call(how, buffers); }, {"rank 1 has not entered", "rank 2 has not entered"});
  distributed::barrier();  // the world goes on
  expect_error<TimeoutError>([&] { in_place.call(how, buffers); }, {"This group is broken"});
}

void expect_group_deadline(TestWorld& world, const Sample& functional) {
  How how = world_of(world);
  how.name = "hurried";
  distributed::barrier();  // so that all come to make it at the same time
  distributed::new_group({}, {.timeout_s = soon_group_s, .name = how.name});
  Buffers buffers;
  if (world.rank() == 0)
    expect_error<TimeoutError>([&] { functional.call(how, buffers); }, {"rank 1 has not entered", "rank 2 has not entered"});
  distributed::barrier();
}

}  // namespace unisono::testing
