// The rows of docs/dialects.md on errors: which type, when, and what is left of the group.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/dialects_rows.hpp"
#include "tests/support/calls.hpp"
#include "tests/support/children.hpp"
#include "unisono/communication.hpp"

namespace unisono::testing {
namespace {

template <typename... Types>
constexpr bool all_are_errors = (std::is_base_of_v<Error, Types> && ...);

void base_of_all() {
  static_assert(std::is_base_of_v<std::runtime_error, Error>);
  static_assert(all_are_errors<ArgumentError, ArgumentTypeError, PeerArgumentError, MismatchError, PeerLostError, TimeoutError,
                               RevokedError, InitError, AuthError, VersionError, ResourceError, MemoryError, ProtocolError,
                               CorruptionError, StateError, StoreLostError, InternalError>);
  expect_error<MismatchError>([] { throw_if_error(Status(ErrorCode::mismatch, "what differs", 3)); }, {"MismatchError: what differs"});
  try {
    throw_if_error(Status(ErrorCode::peer_lost, "gone", 3));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::peer_lost);
    EXPECT_EQ(error.peer(), 3);
  }
}

// Rank 1's arguments are bad. `call` is number 1 on this group everywhere, and the next call is number 2 everywhere.
void takes_its_number(TestWorld& world) {
  GroupHandle second = distributed::new_group({});
  Ints data = {1};
  TensorView none{nullptr, DType::int32, Shape{1}};
  if (world.rank() == 1)
    expect_error<ArgumentError>([&] { distributed::all_reduce(none, {.group = second}); }, {"tensor of shape (1) is a null pointer"});
  else
    expect_error<PeerArgumentError>([&] { distributed::all_reduce(view(data), {.group = second}); }, {numbered("call #1")});
  EXPECT_EQ(data, Ints{1});
  Ints uneven(world.rank() == 0 ? 2 : 1);
  expect_error<MismatchError>([&] { distributed::all_reduce(view(uneven), {.group = second}); }, {numbered("call #2")});
  distributed::all_reduce(view(data), {.group = second});
  EXPECT_EQ(data, Ints{3});
}

void names_whom(TestWorld& world) {
  Ints data = {1};
  TensorView none{nullptr, DType::int32, Shape{1}};
  try {
    distributed::all_reduce(world.rank() == 1 ? none : view(data));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const PeerArgumentError& error) {
    EXPECT_NE(world.rank(), 1);
    EXPECT_EQ(error.peer(), 1);
    EXPECT_NE(std::string(error.what()).find("rank 1 refused its all_reduce: tensor of shape (1) is a null pointer"), std::string::npos);
  } catch (const ArgumentError&) {
    EXPECT_EQ(world.rank(), 1);
  }
  distributed::barrier();
}

void names_both_calls(TestWorld& world) {
  Ints data = {1}, other = {1, 2};
  auto call = [&] {
    if (world.rank() == 1)
      distributed::broadcast(view(other));
    else
      distributed::all_reduce(view(data));
  };
  expect_mismatch(call, {"rank 1 called broadcast int32[2] root 0", "called all_reduce int32[1] sum", "No output was written"});
  EXPECT_EQ(data, Ints{1});
  auto roots = [&] { distributed::broadcast(view(data), {.src = world.rank() == 2 ? 1 : 0}); };
  expect_mismatch(roots, {"broadcast root", "= 0", "rank 2 = 1"});
}

void leaving(TestWorld& world) {
  GroupHandle second = distributed::new_group({});
  Ints data = {1};
  if (world.rank() == 1) {
    distributed::destroy_process_group(second);
  } else {
    for (int time = 0; time < 2; ++time)
      expect_error<PeerLostError>([&] { distributed::all_reduce(view(data), {.group = second}); }, {"rank 1", "left the group"});
  }
  distributed::barrier();
}

void dying() {
  auto endings = run_processes(3, Worlds::test_settings(), [](TestWorld& world) {
    Ints data = {1};
    distributed::barrier();
    if (world.rank() == 1) raise(SIGKILL);
    try {
      distributed::all_reduce(view(data));
      ADD_FAILURE() << "nothing was thrown";
    } catch (const PeerLostError& error) {
      EXPECT_EQ(error.peer(), 1);
    }
    expect_error<PeerLostError>([&] { comm_func::all_reduce(view(data)); }, {"rank 1"});
  });
  EXPECT_TRUE(endings[0].succeeded()) << endings[0].output;
  EXPECT_TRUE(endings[1].killed_by(SIGKILL));
  EXPECT_TRUE(endings[2].succeeded()) << endings[2].output;
}

void deadline(TestWorld& world) {
  EXPECT_EQ(Settings().timeout_s, 30 * 60);
  GroupHandle second = distributed::new_group({});
  Ints data = {1};
  auto call = [&] { distributed::all_reduce(view(data), {.group = second, .timeout_s = 0.05}); };
  if (world.rank() == 0) expect_error<TimeoutError>(call, {numbered("rank 1 has not entered call #1 (last finished call #0)"), "rank 2 has not"});
  distributed::barrier();
  expect_error<TimeoutError>(call, {"on rank 0", "This group is broken"});
}

void aborting(TestWorld& world) {
  GroupHandle second = distributed::new_group({});
  Ints data = {1};
  if (world.rank() == 0)
    distributed::abort(second, "enough");
  else
    expect_error<RevokedError>([&] { distributed::all_reduce(view(data), {.group = second}); }, {"rank 0 aborted", "enough"});
  distributed::barrier();
}

void the_rest_goes_on(TestWorld& world) {
  GroupHandle second = distributed::new_group({});
  Ints data = {1};
  if (world.rank() == 0) distributed::abort(second);
  distributed::all_reduce(view(data));
  expect_error<RevokedError>([&] { distributed::all_reduce(view(data), {.group = second}); });
  GroupHandle third = distributed::new_group({});
  distributed::all_reduce(view(data), {.group = third});
  EXPECT_EQ(data, Ints{9});
}

// Tiles do not fit into this arena; the slots of small calls do.
void no_room() {
  Worlds small = ranks(3).with([](Settings& settings) { settings.arena_bytes = 1 << 20; });
  for_each_world(small, [](TestWorld&) {
    Floats large(1'000'000, 1), little(4, 1);
    expect_error<MemoryError>([&] { distributed::all_reduce(view(large)); }, {"UNISONO_ARENA"});
    expect_error<ResourceError>([&] { distributed::all_reduce(view(large)); }, {"MemoryError"});
    distributed::all_reduce(view(little));
    EXPECT_EQ(little, Floats(4, 3));
  });
}

// AddressSanitizer ends a program that asks for so much; what cannot be addressed at all is refused before that.
void no_memory_for_the_result(TestWorld& world) {
  Ints data = {1};
#ifndef __SANITIZE_ADDRESS__
  auto call = [&] { comm_func::all_reduce(TensorView{data.data(), DType::int32, {world.rank() == 1 ? int64_t{1} << 55 : 1}}); };
  if (world.rank() == 1)
    expect_error<MemoryError>(call, {"no memory for a tensor"});
  else
    expect_error<PeerArgumentError>(call, {"rank 1", "no memory for a tensor"});
#endif
  auto gather = [&] { comm_func::all_gather_into_tensor(TensorView{data.data(), DType::int32, {world.rank() == 1 ? int64_t{1} << 60 : 1}}); };
  expect_refusal(world, 1, gather, "cannot be");
}

void forked() {
  for_each_world(ranks(2).with(Kind::processes), [](TestWorld&) {
    Ints data = {1};
    pid_t child = fork();
    if (child == 0) {
      const FailuresSince start;
      expect_error<StateError>([&] { distributed::all_reduce(view(data)); }, {"forked child"});
      _exit(start.any() ? 1 : 0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    distributed::all_reduce(view(data));
    EXPECT_EQ(data, Ints{2});
  });
}

constexpr Row rows[] = {
    {"error.base", nullptr, base_of_all},
    {"error.argument", takes_its_number},
    {"error.argument_type", nullptr, [] {
       expect_error<ArgumentTypeError>([] { Tensor::from(Floats{1}).to_vector<int32_t>(); }, {"float32", "int32"});
     }},
    {"error.peer_argument", names_whom},
    {"error.mismatch", names_both_calls},
    {"error.peer_lost.left", leaving},
    {"error.peer_lost.died", nullptr, dying},
    {"error.timeout", deadline},
    {"error.revoked", aborting},
    {"error.other_groups", the_rest_goes_on},
    {"error.resource", nullptr, no_room},
    {"error.memory", no_memory_for_the_result},
    {"error.init", nullptr, [] {
       expect_error<InitError>([] { distributed::init_process_group({.rank = 5, .world_size = 2, .job = unique_job()}); },
                               {"rank 5 is out of range: the world has 2 ranks"});
       EXPECT_FALSE(distributed::is_initialized());
     }},
    {"error.joining", nullptr, [] {
       expect_error<AuthError>([] { throw_if_error(Status(ErrorCode::auth, "")); }, {"AuthError"});
       expect_error<VersionError>([] { throw_if_error(Status(ErrorCode::version, "")); }, {"VersionError"});
     }},
    {"error.state.before_joining", nullptr, [] {
       Ints data = {1};
       for (const char* words : {"init_process_group()", "communication.init()"}) {
         expect_error<StateError>([&] { distributed::all_reduce(view(data)); }, {"all_reduce", words});
         expect_error<StateError>([&] { comm_func::scatter_tensor(view(data)); }, {"scatter_tensor", words});
       }
     }},
    {"error.state.destroyed", [](TestWorld&) {
       GroupHandle second = distributed::new_group({}, {.name = "second"});
       Ints data = {1};
       distributed::destroy_process_group(second);
       expect_error<StateError>([&] { distributed::all_reduce(view(data), {.group = second}); }, {"\"second\" was destroyed"});
       expect_error<ArgumentError>([&] { comm_func::all_reduce(view(data), {.group = "second"}); }, {"\"second\""});
     }},
    {"error.state.forked", nullptr, forked},
    {"error.protocol", nullptr, [] {
       expect_error<ProtocolError>([] { throw_if_error(Status(ErrorCode::protocol, "")); }, {"ProtocolError"});
       EXPECT_TRUE(breaks_group(ErrorCode::protocol));
     }},
    {"error.unused", nullptr, [] {
       expect_error<CorruptionError>([] { throw_if_error(Status(ErrorCode::corruption, "")); }, {"CorruptionError"});
       expect_error<StoreLostError>([] { throw_if_error(Status(ErrorCode::store_lost, "")); }, {"StoreLostError"});
     }},
};

}  // namespace

std::span<const Row> error_rows() { return rows; }

}  // namespace unisono::testing
