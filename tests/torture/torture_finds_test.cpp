// What the random programs have found, each as a test of its own that does not need luck, or little of it.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>

#include "tests/support/eventually.hpp"
#include "tests/support/losses.hpp"

namespace unisono::testing {
namespace {

// Rank 2 refuses a call and goes on to the next, where it raises a flag. To the others, still in the first, that flag
// looks as if rank 2 had staged its data long ago; but it has no stage at all.
TEST(Found, a_rank_that_refused_and_went_on_is_not_read_from) {
  const Worlds worlds = ranks(3).with([](Settings& settings) {
    settings.plan = "reduce=two_shot,broadcast=direct_read";
    settings.timeout_s = 10;
  });
  for_each_world(worlds, [](TestWorld& world) {
    for (int round = 0; round < 20; ++round) {
      GroupHandle group = distributed::new_group({0, 1, 2}, {.run_ahead = 3});
      Scratch scratch;
      std::vector<float> data(1000, static_cast<float>(world.rank()));
      WorkPtr next;
      if (world.rank() == 2) {
        EXPECT_THROW(distributed::broadcast(view(data), {.src = -1, .group = group}), ArgumentError);
        next = distributed::broadcast(view(data), {.src = 2, .group = group, .async_op = true});
      }
      distributed::barrier({.group = world.group()});
      if (world.rank() != 2) {
        EXPECT_THROW(make_call(group, scratch, {.kind = Collective::reduce, .count = 1000}), PeerArgumentError);
        next = distributed::broadcast(view(data), {.src = 2, .group = group, .async_op = true});
      }
      EXPECT_TRUE(next->wait());
      EXPECT_TRUE(scratch.is_untouched());
      EXPECT_EQ(data, std::vector<float>(1000, 2));
      distributed::destroy_process_group(group);
    }
  });
}

// Rank 1 is merely late, and it is the first that rank 0 waits for; rank 2, which comes after it, is dead.
void expect_maker_is_told(const std::string& hosts) {
  SCOPED_TRACE(fmt::format("hosts \"{}\"", hosts));
  Outcomes outcomes(3);
  SharedArray<Signs> signs(1);
  WorldChoice choice{.size = 3};
  choice.settings.pretend_hosts = hosts;
  Children children(3, [&](int rank) {
    as_rank(rank, choice, [&](TestWorld&) {
      signs[0].ready += 1;
      EXPECT_TRUE(await([&] { return signs[0].go > rank; }));
      outcomes.note(rank, [&] { distributed::new_group({0, 1, 2}); });
    });
  });
  EXPECT_TRUE(await([&] { return signs[0].ready == 3; }));
  signs[0].go = 1;  // for rank 0 alone
  children.await_asleep(0);
  const int64_t killed_ns = now_ns();
  children.kill(2);
  EXPECT_TRUE(await([&] { return outcomes.of(0).was_made(); }, 2));
  signs[0].go = 2;
  EXPECT_TRUE(children.wait()[0].succeeded());
  for (int rank : {0, 1}) {
    expect_lost(outcomes.of(rank), {2});
    EXPECT_LT(seconds_between(std::max(killed_ns, outcomes.of(rank).entered_ns), outcomes.of(rank).ended_ns), 1.0);
  }
}

TEST(Found, a_death_is_told_to_who_makes_a_group_and_waits_for_another_rank) {
  if (under_thread_sanitizer()) GTEST_SKIP() << "kills processes";
  for (const char* hosts : {"", "2,1", "1,2", "3x1"}) expect_maker_is_told(hosts);
}

// Rank 0 is stopped when it has read rank 1's piece in rank 1's own memory, and not yet rank 2's. Rank 1 dies; rank 2,
// which had all it needed, gives the call up and uses its memory for something else. Rank 0 must not call that a
// result.
void gather_from_memory_that_changes(int rank, TestWorld& world, const Outcomes& outcomes, std::byte* first_of_rank_0,
                                     const std::atomic<int>& was_stopped) {
  constexpr int64_t count = 8 << 20;
  std::vector<uint8_t> input(count, static_cast<uint8_t>(10 + rank)), outputs(3 * count);
  auto* output = rank == 0 ? reinterpret_cast<uint8_t*>(first_of_rank_0) : outputs.data();
  outcomes.note(rank, [&] {
    distributed::all_gather_into_tensor({output, DType::uint8, Shape{3 * count}}, view(input),
                                        {.group = world.group()});
    for (int peer = 0; peer < 3; ++peer) EXPECT_EQ(output[(peer + 1) * count - 1], 10 + peer) << "on rank " << rank;
  });
  std::fill(input.begin(), input.end(), uint8_t{99});
  EXPECT_TRUE(await([&] { return outcomes.of(0).was_made() && was_stopped == 1; }));  // who has ended cannot be stopped
}

// One round of it; false if rank 0 was stopped too late, with its call over.
bool stop_rank_0_while_it_reads() {
  constexpr int piece = 8 << 20;
  Outcomes outcomes(3);
  SharedArray<std::byte> output(3 * piece);
  SharedArray<std::atomic<int>> was_stopped(1);
  WorldChoice choice{.size = 3};
  choice.settings.plan = "all_gather=direct_read";
  choice.settings.peer_reads = "on";
  Children children(3, [&](int rank) {
    as_rank(rank, choice, [&](TestWorld& world) {
      gather_from_memory_that_changes(rank, world, outcomes, &output[0], was_stopped[0]);
    });
  });
  const std::atomic_ref middle(output[piece + piece / 2]);  // of rank 1's piece
  EXPECT_TRUE(eventually([&] { return middle.load() == std::byte{11}; }));
  children.signal(0, SIGSTOP);
  children.await_stopped(0);
  was_stopped[0] = 1;
  const bool in_time = !outcomes.of(0).was_made();
  if (in_time) {
    for (int rank : {1, 2}) children.await_asleep(rank);  // they have read all and wait for rank 0
    children.kill(1);
    EXPECT_TRUE(await([&] { return outcomes.of(2).was_made(); }, 5));
  }
  children.signal(0, SIGCONT);
  const std::vector<Ending> endings = children.wait();
  for (size_t rank : {0u, 2u}) EXPECT_TRUE(endings[rank].succeeded()) << endings[rank].output;
  return in_time;
}

TEST(Found, memory_that_was_given_up_while_it_was_read_is_no_result) {
  if (under_thread_sanitizer()) GTEST_SKIP() << "kills processes";
  const int wanted = small_run() ? 3 : 10;
  int in_time = 0;
  for (int round = 0; round < 10 * wanted && in_time < wanted && !HasFailure(); ++round)
    in_time += stop_rank_0_while_it_reads() ? 1 : 0;
  EXPECT_TRUE(in_time == wanted || HasFailure()) << "only " << in_time << " rounds stopped rank 0 in time";
}

// Rank 0 gives its call up, by destroying the group, and unmaps its data at once, while rank 1 reads them: that rank 0 has left is
// the reason, not that its memory cannot be read any more.
TEST(Found, who_leaves_and_unmaps_its_memory_while_it_is_read_has_left) {
  if (under_thread_sanitizer()) GTEST_SKIP() << "reads the memory of processes";
  constexpr size_t bytes = 16 << 20;
  for_each_world(ranks(2).with(Kind::processes), [](TestWorld& world) {
    for (int round = 0; round < (small_run() ? 10 : 60) && !HasFailure(); ++round) {
      const GroupHandle group = distributed::new_group({0, 1});
      distributed::barrier();
      if (world.rank() == 0) {
        void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        ASSERT_NE(data, MAP_FAILED);
        WorkPtr work = distributed::all_reduce({data, DType::uint8, Shape{bytes}}, {.group = group, .async_op = true});
        for (int turn = 0; turn < 20 * round; ++turn) static_cast<void>(work->is_completed());
        distributed::destroy_process_group(group);
        munmap(data, bytes);
      } else {
        std::vector<uint8_t> data(bytes);
        try {
          distributed::all_reduce(view(data), {.group = group});
        } catch (const PeerLostError& error) {
          EXPECT_EQ(error.status().peer(), 0) << error.what();
        }  // nothing else is caught
        distributed::destroy_process_group(group);
      }
      distributed::barrier();
    }
  });
}

}  // namespace
}  // namespace unisono::testing
