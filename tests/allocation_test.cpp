// Memory that runs out at any allocation: of joining, of making a group, of a call, of a message. The rank that lacks it gets MemoryError and
// lives, the others are told in time, groups beside it go on.
//
// operator new below takes the place of the standard library's in this program and in the library that it uses.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "tests/support/calls.hpp"
#include "tests/support/children.hpp"
#include "tests/support/outcomes.hpp"
#include "unisono/comm_func.hpp"

namespace {

// Of this thread only: the call's own allocations, one after the other, and which of them fail.
thread_local int allocations = 0, fail_from = 0, fail_to = 0;

std::atomic<bool> others_fail = false;  // those of threads that are not the test's own
std::atomic<int> others_failed = 0;
thread_local bool is_of_the_test = false;

void* allocate(size_t bytes, size_t alignment) {
  if (fail_from > 0 && ++allocations >= fail_from && allocations <= fail_to) throw std::bad_alloc();
  if (others_fail && !is_of_the_test) {
    ++others_failed;
    throw std::bad_alloc();
  }
  void* memory = nullptr;
  if (posix_memalign(&memory, std::max(alignment, sizeof(void*)), std::max<size_t>(bytes, 1)) != 0) throw std::bad_alloc();
  return memory;
}

// While it lives, the n-th allocation of this thread fails, and some after it.
class Failing {
 public:
  Failing(int nth, int count) {
    allocations = 0;
    fail_to = nth + count - 1;
    fail_from = nth;
  }
  ~Failing() { fail_from = 0; }
  Failing(const Failing&) = delete;
};

}  // namespace

[[gnu::noinline]] void* operator new(size_t bytes) { return allocate(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__); }
[[gnu::noinline]] void* operator new(size_t bytes, std::align_val_t alignment) { return allocate(bytes, static_cast<size_t>(alignment)); }
[[gnu::noinline]] void operator delete(void* memory) noexcept { free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept { free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t, std::align_val_t) noexcept { free(memory); }

namespace unisono::testing {
namespace {

constexpr double deadline_s = 3, told_s = 1;
constexpr int most_allocations = 2000, for_good = 1'000'000;

struct Story {
  std::atomic<int> made, bad_alloc;  // allocations in the window; whether std::bad_alloc came out instead of an error of ours
  bool was_struck(int nth) const { return made >= nth; }
};

// Makes the call with its n-th allocation failing, and writes down how it ended.
void call_without_memory(int nth, int count, const Outcomes& outcomes, Story& story, const std::function<void()>& call) {
  int made = 0;
  outcomes.note(1, [&] {
    try {
      const Failing failing(nth, count);
      try {
        call();
      } catch (...) {
        made = allocations;
        throw;
      }
      made = allocations;
    } catch (const std::bad_alloc&) {
      story.bad_alloc = 1;
    }
  });
  story.made = made;
}

using GroupCall = std::function<void(const GroupHandle&)>;

// What happens to rank 1 when so many allocations fail from its n-th on, and to rank 0 in the same call. False: there was no n-th.
// Afterwards the ranks are in step: groups are left and made as if nothing had been.
bool call_fails_at(int nth, int count, const GroupCall& call) {
  SCOPED_TRACE(fmt::format("{} allocations from {} on", count, nth));
  Outcomes outcomes(2);
  SharedArray<Story> stories(1);
  WorldChoice choice{.size = 2};
  choice.settings.timeout_s = deadline_s;
  expect_all_succeeded(Children(2, [&](int rank) {
    as_rank(rank, choice, [&](TestWorld& world) {
      const GroupHandle group = distributed::new_group({0, 1});
      expect_works(world);
      if (rank == 1) call_without_memory(nth, count, outcomes, stories[0], [&] { call(group); });
      if (rank == 0) outcomes.note(0, [&] { call(group); });
      expect_works(world);
      distributed::destroy_process_group(group);
      expect_works(world, distributed::new_group({0, 1}));
      expect_works(world);
    });
  }).wait());
  if (!stories[0].was_struck(nth)) {
    for (int rank : {0, 1}) EXPECT_EQ(outcomes.of(rank).code, ErrorCode::ok) << outcomes.of(rank).text();
    return false;
  }
  if (count == 1) {
    EXPECT_EQ(stories[0].bad_alloc, 0) << "std::bad_alloc came out of the call instead of MemoryError";
  }
  const Outcome &lacking = outcomes.of(1), &other = outcomes.of(0);
  if (lacking.code != ErrorCode::ok || stories[0].bad_alloc) {  // where the library does without what it wanted, nothing needs to fail
    if (!stories[0].bad_alloc) {
      EXPECT_EQ(lacking.code, ErrorCode::memory) << lacking.text();
    }
    if (!spans_hosts()) { EXPECT_NE(other.code, ErrorCode::ok) << "rank 0 succeeded, while rank 1 got " << lacking.text(); }
  }
  EXPECT_NE(other.code, ErrorCode::timeout) << other.text();
  EXPECT_LT(other.took_s(), told_s) << other.text();
  return true;
}

void try_every_allocation(const GroupCall& call, int count = 1) {
  int struck = 0;
  while (struck < most_allocations && !::testing::Test::HasFailure() && call_fails_at(struck + 1, count, call)) ++struck;
  EXPECT_GT(struck, 0) << "the library's operator new is not the one of this test";
  EXPECT_LT(struck, most_allocations);
}

// The group is used at once: where one rank has it and the other has not, the first call tells.
TEST(Allocation, that_fails_while_making_a_group) {
  const std::vector<int> members = {0, 1};
  for (const distributed::NewGroupOptions& options : {distributed::NewGroupOptions{.name = "another"}, {}})
    try_every_allocation([&](const GroupHandle&) { distributed::barrier({.group = distributed::new_group(members, options)}); });
}

TEST(Allocation, that_fails_in_the_first_large_call) {
  auto data = std::vector<float>(300'000, 1);
  for (int count : {1, 2, for_good})
    try_every_allocation([&](const GroupHandle& group) { distributed::all_reduce(view(data), {.group = group}); }, count);
}

TEST(Allocation, that_fails_in_an_asynchronous_call) {
  auto data = std::vector<float>(1000, 1);
  for (int count : {1, 2, 3, for_good})
    try_every_allocation([&](const GroupHandle& group) {
      distributed::all_reduce(view(data), {.group = group, .async_op = true})->wait();
    }, count);
}

TEST(Allocation, that_fails_on_a_broken_group_leaves_nothing_held) {
  auto data = std::vector<float>(1000, 1);
  auto call = [&](const GroupHandle& group) {
    distributed::abort(group, "enough");
    distributed::all_reduce(view(data), {.group = group});
  };
  int struck = 0;
  while (!::testing::Test::HasFailure()) {
    Outcomes outcomes(1);
    SharedArray<Story> stories(1);
    expect_all_succeeded(Children(1, [&](int rank) {
      as_rank(rank, {.size = 1}, [&](TestWorld& world) {
        const GroupHandle group = distributed::new_group({0});
        const Failing failing(struck + 1, 1);
        try {
          call(group);
        } catch (const std::exception&) {  // which one is not the point here
        }
        stories[0].made = allocations;
        fail_from = 0;
        distributed::destroy_process_group(group);
        expect_works(world);
      });
    }).wait());
    if (!stories[0].was_struck(struck + 1)) break;
    ++struck;
  }
  EXPECT_GT(struck, 5);
}

TEST(Allocation, that_fails_in_threads_of_the_library_ends_none_of_them) {
  Outcomes outcomes(2);
  SharedArray<std::atomic<bool>> may_die(1);
  const WorldChoice choice{.size = 2};
  std::vector<Ending> endings = Children(2, [&](int rank) {
    is_of_the_test = true;
    as_rank(rank, choice, [&](TestWorld& world) {
      expect_works(world);
      if (rank == 0) {
        EXPECT_TRUE(await([&] { return may_die[0].load(); }));
        _exit(3);
      }
      others_fail = true;
      may_die[0] = true;
      EXPECT_TRUE(await([&] { return others_failed > 3; }));
      others_fail = false;
      outcomes.note(1, [&] { distributed::barrier(); });
    });
  }).wait();
  EXPECT_TRUE(endings[1].succeeded()) << endings[1].output;
  EXPECT_EQ(outcomes.of(1).code, ErrorCode::peer_lost) << outcomes.of(1).text();
  EXPECT_LT(outcomes.of(1).took_s(), told_s) << outcomes.of(1).text();
}

TEST(Allocation, that_fails_in_a_call_on_lists) {
  auto input = std::vector<float>(1000, 1), first = input, second = input;
  const TensorView outputs[] = {view(first), view(second)};
  for (int count : {1, 2, for_good})
    try_every_allocation([&](const GroupHandle& group) { distributed::all_gather(outputs, view(input), {.group = group}); }, count);
}

TEST(Allocation, that_fails_in_calls_that_return_new_tensors) {
  auto input = std::vector<float>(1000, 1);
  const TensorView inputs[] = {{input.data(), DType::float32, Shape{300}}, {input.data() + 300, DType::float32, Shape{700}}};
  try_every_allocation([&](const GroupHandle& group) {
    comm_func::all_gather_into_tensor(view(input), {.group = distributed::group_name(group)});
  });
  try_every_allocation([&](const GroupHandle& group) {
    const int64_t mine = inputs[distributed::get_rank(group)].shape[0];
    const Shape shapes[] = {Shape{mine}, Shape{mine}};
    comm_func::all_to_all_with_output_shape(shapes, inputs, {.group = distributed::group_name(group)});
  });
}

// Only the sender knows: it sends again, and the receiver, which has heard of nothing, takes that one.
bool sending_fails_at(int nth, size_t count) {
  SCOPED_TRACE(fmt::format("allocation {}, {} elements", nth, count));
  Outcomes outcomes(2, 2);
  SharedArray<Story> stories(1);
  WorldChoice choice{.size = 2};
  choice.settings.timeout_s = deadline_s;
  auto data = std::vector<float>(count, 1);
  expect_all_succeeded(Children(2, [&](int rank) {
    as_rank(rank, choice, [&](TestWorld& world) {
      const GroupHandle group = distributed::new_group({0, 1});
      expect_works(world);
      if (rank == 1) {
        call_without_memory(nth, 1, outcomes, stories[0], [&] { distributed::send(view(data), 0, {.group = group}); });
        if (stories[0].was_struck(nth) && outcomes.of(1).code != ErrorCode::ok)
          outcomes.note(1, 1, [&] { distributed::send(view(data), 0, {.group = group}); });
      } else {
        outcomes.note(0, [&] { distributed::recv(view(data), 1, {.group = group}); });
      }
      expect_works(world);
    });
  }).wait());
  EXPECT_EQ(stories[0].bad_alloc, 0) << "std::bad_alloc came out of the call instead of MemoryError";
  if (stories[0].was_struck(nth) && outcomes.of(1).code != ErrorCode::ok) {
    EXPECT_EQ(outcomes.of(1).code, ErrorCode::memory) << outcomes.of(1).text();
    EXPECT_EQ(outcomes.of(1, 1).code, outcomes.of(0).code) << outcomes.of(1, 1).text() << "\n" << outcomes.of(0).text();
  }
  EXPECT_NE(outcomes.of(0).code, ErrorCode::timeout) << outcomes.of(0).text();
  return stories[0].was_struck(nth);
}

TEST(Allocation, that_fails_in_a_message) {
  for (size_t count : {8u, 600'000u}) {
    int struck = 0;
    while (struck < most_allocations && !::testing::Test::HasFailure() && sending_fails_at(struck + 1, count)) ++struck;
    EXPECT_GT(struck, 0);
  }
}

bool joining_fails_at(int nth) {
  SCOPED_TRACE(fmt::format("allocation {}", nth));
  Outcomes outcomes(2);
  SharedArray<Story> stories(1);
  const std::string job = unique_job();
  expect_all_succeeded(Children(2, [&](int rank) {
    const distributed::InitOptions options = {.rank = rank, .world_size = 2, .job = job, .timeout_s = deadline_s};
    auto join = [&] {
      distributed::init_process_group(options);
      distributed::barrier();
    };
    if (rank == 1) call_without_memory(nth, 1, outcomes, stories[0], join);
    if (rank == 0) outcomes.note(0, join);
  }).wait());
  if (!stories[0].was_struck(nth)) return false;
  EXPECT_EQ(stories[0].bad_alloc, 0) << "std::bad_alloc came out of joining instead of MemoryError";
  if (outcomes.of(1).code != ErrorCode::ok) {
    EXPECT_EQ(outcomes.of(1).code, ErrorCode::memory) << outcomes.of(1).text();
    EXPECT_NE(outcomes.of(0).code, ErrorCode::ok) << "rank 0 joined a world without rank 1";
  }
  EXPECT_LT(outcomes.of(0).took_s(), deadline_s + told_s) << outcomes.of(0).text();
  return true;
}

TEST(Allocation, that_fails_while_joining) {
  int struck = 0;
  while (struck < most_allocations && !::testing::Test::HasFailure() && joining_fails_at(struck + 1)) ++struck;
  EXPECT_GT(struck, 0);
  EXPECT_LT(struck, most_allocations);
}

}  // namespace
}  // namespace unisono::testing
