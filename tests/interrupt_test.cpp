// A thread that waits in the library can be interrupted, whatever it waits for; the other ranks are told.
//
// Who writes: a test says which thread is to be interrupted, before it makes that thread wait. Order: sequential, for
// nothing here is fast.
#include "unisono/binding.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "tests/support/children.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/raw_store_client.hpp"
#include "tests/support/test_world.hpp"
#include "unisono/distributed.hpp"
#include "unisono/store.hpp"

namespace unisono::testing {
namespace {

std::atomic<std::thread::id> interrupted_thread;
std::atomic<int> asked{0};

bool is_interrupted() {
  if (std::this_thread::get_id() != interrupted_thread.load()) return false;
  ++asked;
  return true;
}

class Interrupt : public ::testing::Test {
 protected:
  Interrupt() { set_interrupt_check(is_interrupted); }
  ~Interrupt() override {
    set_interrupt_check(nullptr);
    interrupted_thread = std::thread::id();
  }
};

void interrupt_me() { interrupted_thread = std::this_thread::get_id(); }

void expect_interrupted(const std::function<void()>& call) { expect_error<RevokedError>({"rank 1 was interrupted"}, call); }

// Rank 0 does not come, and rank 1 is interrupted while it waits; rank 2 is in the same call.
void in_a_call_with_rank_0_missing(const std::function<void(GroupHandle)>& call) {
  for_each_world(ranks(3), [&](TestWorld& world) {
    GroupHandle doomed = distributed::new_group({0, 1, 2}), other = distributed::new_group({0, 1, 2});
    if (world.rank() == 1) interrupt_me();
    if (world.rank() == 0) {
      EXPECT_TRUE(eventually([&] { return !doomed.group()->usable().ok(); }));
    } else {
      expect_interrupted([&] { call(doomed); });
    }
    if (world.rank() == 1) interrupted_thread = std::thread::id();
    distributed::barrier({.group = other});
  });
}

TEST_F(Interrupt, ends_a_call_and_tells_the_others) {
  for (size_t count : {4, 100'000})
    in_a_call_with_rank_0_missing([&](GroupHandle group) {
      std::vector<float> data(count, 1);
      distributed::all_reduce(view(data), {.group = group});
    });
}

TEST_F(Interrupt, ends_waiting_for_a_work) {
  in_a_call_with_rank_0_missing([&](GroupHandle group) {
    std::vector<float> data(4, 1);
    WorkPtr work = distributed::all_reduce(view(data), {.group = group, .async_op = true});
    work->wait();
  });
}

// The thread that turns the engine is another one than the one that is interrupted.
TEST_F(Interrupt, ends_waiting_for_a_work_that_another_thread_turns) {
  in_a_call_with_rank_0_missing([&](GroupHandle group) {
    std::vector<float> data(4, 1);
    WorkPtr work = distributed::all_reduce(view(data), {.group = group, .async_op = true});
    std::thread other([&] { EXPECT_THROW(work->wait(), RevokedError); });
    try {
      work->wait();
    } catch (...) {
      other.join();
      throw;
    }
    other.join();
  });
}

TEST_F(Interrupt, ends_receiving) {
  in_a_call_with_rank_0_missing([&](GroupHandle group) {
    std::vector<float> data(4, 1);
    distributed::recv(view(data), 0, {.group = group});
  });
  in_a_call_with_rank_0_missing([&](GroupHandle group) {
    std::vector<float> data(4, 1);
    distributed::irecv(view(data), 0, {.group = group})->wait();
  });
}

TEST_F(Interrupt, ends_agreeing_and_breaks_nothing) {
  for_each_world(ranks(2), [&](TestWorld& world) {
    if (world.rank() == 1) {
      interrupt_me();
      expect_interrupted([] { distributed::agree(true); });
      interrupted_thread = std::thread::id();
    }
    distributed::barrier();
    EXPECT_TRUE(distributed::agree(true)) << "the question that was interrupted, on all";
    EXPECT_FALSE(distributed::agree(world.rank() != 0));
  });
}

TEST_F(Interrupt, ends_making_a_group_and_tells_the_others) {
  for_each_world(ranks(3), [&](TestWorld& world) {
    if (world.rank() == 1) interrupt_me();
    if (world.rank() == 1) expect_interrupted([] { distributed::new_group({0, 1, 2}); });
    if (world.rank() == 2) expect_error<RevokedError>({"rank 1 was interrupted"}, [] { distributed::new_group({0, 1, 2}); });
    if (world.rank() == 1) interrupted_thread = std::thread::id();
    distributed::barrier();
  });
}

TEST_F(Interrupt, ends_joining) {
  interrupt_me();
  for (int rank : {0, 1}) {
    asked = 0;
    const Status status = join_as(rank, 2, unique_job(), Worlds::test_settings()).status();
    EXPECT_EQ(status.code(), ErrorCode::revoked) << status.text();
    EXPECT_NE(status.message().find("was interrupted while joining"), std::string::npos) << status.text();
  }
}

// A signal's handler in Python, say, which tidies up while its thread waits in a call: it would wait for that call's end.
TEST_F(Interrupt, checks_that_call_the_library_are_told_not_to) {
  static thread_local GroupHandle waiting_in;
  static thread_local WorkPtr posted;
  set_interrupt_check([] {
    if (std::this_thread::get_id() != interrupted_thread.load()) return false;
    std::vector<int32_t> numbers(1);
    const TensorView data = view(numbers);
    const std::vector<std::function<void()>> calls = {
        [] { distributed::barrier({.group = waiting_in}); },
        [&] { distributed::all_reduce(data, {.group = waiting_in, .async_op = true})->wait(); },
        [&] { distributed::send(data, 0, {.group = waiting_in}); },
        [] { posted->wait(); },
        [] { distributed::agree(true, waiting_in); },
        [] { distributed::new_group({0, 1}); },
        [] { distributed::destroy_process_group(waiting_in); },
        [] { distributed::destroy_process_group(); },
        [] { distributed::init_process_group({.rank = 0, .world_size = 1}); },
    };
    for (const auto& call : calls) expect_error<StateError>({"signal's handler"}, call);
    EXPECT_EQ(outside_interrupt_check().code(), ErrorCode::state);
    EXPECT_EQ(distributed::get_world_size(waiting_in), 2);
    distributed::abort(waiting_in, "the handler said so");
    ++asked;
    return false;
  });
  asked = 0;
  EXPECT_TRUE(outside_interrupt_check().ok());
  for (const bool is_letter : {false, true})
    for_each_world(ranks(2).with(Kind::processes), [&](TestWorld& world) {
      const GroupHandle group = distributed::new_group({0, 1});
      std::vector<float> data(4, 1);
      if (world.rank() == 1) {
        waiting_in = group;
        posted = distributed::irecv(view(data), 0);
        interrupt_me();
      }
      if (world.rank() == 1)
        expect_error<RevokedError>({"rank 1 aborted", "the handler said so"}, [&] {
          is_letter ? void(distributed::recv(view(data), 0, {.group = group})) : void(distributed::barrier({.group = group}));
        });
      else
        EXPECT_TRUE(eventually([&] { return !group.group()->usable().ok(); }));
      EXPECT_EQ(asked, world.rank());
      interrupted_thread = std::thread::id();
      if (world.rank() == 0)
        distributed::send(view(data), 1);
      else
        EXPECT_TRUE(posted->wait());
      posted = nullptr;
      waiting_in = GroupHandle();
      distributed::barrier();
    });
}

// Joining may take long; whoever only asks meanwhile, perhaps holding a lock that the check needs, must not wait for it.
TEST_F(Interrupt, while_joining_finds_no_lock_held) {
  static std::mutex interpreter;  // as Python's
  set_interrupt_check([] {
    const std::lock_guard lock(interpreter);
    return asked.load() != 0;
  });
  asked = 0;
  std::thread joiner([] {
    expect_error<RevokedError>({"was interrupted while joining"}, [] {
      distributed::init_process_group({.rank = 0, .world_size = 2, .job = unique_job(), .timeout_s = 60});
    });
  });
  for (int round = 0; round < 1000; ++round) {
    const std::lock_guard lock(interpreter);
    EXPECT_FALSE(distributed::is_initialized());
  }
  asked = 1;
  joiner.join();
}

// Two threads of one rank agree; the one that comes second waits for the other, and can be interrupted, too.
TEST_F(Interrupt, ends_waiting_for_another_thread_that_agrees) {
  for_each_world(ranks(2), [&](TestWorld& world) {
    if (world.rank() == 0) {
      distributed::barrier();
      EXPECT_TRUE(distributed::agree(true));
      return;
    }
    std::atomic<pid_t> first_thread{0};
    std::thread first([&] {
      first_thread = gettid();
      EXPECT_TRUE(world.group().group()->agree(true, 60).value());
    });
    EXPECT_TRUE(eventually([&] { return first_thread != 0; }));
    EXPECT_TRUE(await_asleep(getpid(), first_thread));
    interrupt_me();
    expect_interrupted([] { distributed::agree(true); });
    interrupted_thread = std::thread::id();
    distributed::barrier();
    first.join();
  });
}

// What the progress thread does, for longer than anybody would wait before asking.
TEST_F(Interrupt, is_nothing_that_the_threads_of_the_library_ask_about) {
  interrupted_thread = std::this_thread::get_id();
  asked = 0;
  for_each_world(ranks(2).with(Kind::threads), [&](TestWorld& world) {
    std::vector<float> data(4, 1), letter(4);
    if (world.rank() == 1) {
      WorkPtr work = distributed::all_reduce(view(data), {.async_op = true});
      WorkPtr receive = distributed::irecv(view(letter), 0);
      interrupt_me();
      for (Deadline deadline = Deadline::in_seconds(0.3); !deadline.passed();) world.group().group()->progress();
      interrupted_thread = std::thread::id();
      EXPECT_EQ(asked, 0);
      EXPECT_TRUE(distributed::agree(true));
      EXPECT_TRUE(work->wait());
      EXPECT_TRUE(receive->wait());
    } else {
      EXPECT_TRUE(distributed::agree(true));
      distributed::all_reduce(view(data));
      distributed::send(view(letter), 1);
    }
  });
}

TEST_F(Interrupt, ends_waiting_for_a_store) {
  interrupt_me();
  expect_error<RevokedError>({"interrupted", "\"absent\""}, [] { distributed::HashStore().get("absent"); });
}

TEST_F(Interrupt, ends_waiting_for_a_store_elsewhere_or_for_its_master) {
  distributed::TCPStore store("127.0.0.1", 0, {.is_master = true});
  interrupt_me();
  expect_error<RevokedError>({"interrupted", "\"absent\""}, [&] { store.get("absent"); });
  // The master is a user of its own store: where the machine is slow, the interrupt comes while it connects, and not while it waits for the second user.
  expect_error<RevokedError>({"interrupted while waiting for"}, [] {
    distributed::TCPStore("127.0.0.1", 0, {.world_size = 2, .is_master = true, .wait_for_workers = true});
  });
  const FreePort port;
  expect_error<RevokedError>({"interrupted while waiting for the store"}, [&] { distributed::TCPStore("127.0.0.1", port.number()); });
  interrupted_thread = std::thread::id();
  store.set("absent", "there");  // the store is as it was
  EXPECT_EQ(store.get("absent"), "there");
}

// Whoever says no is asked again and again, and the call goes on as if nothing had been.
TEST_F(Interrupt, that_is_none_changes_nothing) {
  static std::atomic<int> looks;
  set_interrupt_check([] {
    ++looks;
    return false;
  });
  for_each_world(ranks(2).with(Kind::threads), [&](TestWorld& world) {
    looks = 0;
    distributed::barrier();
    if (world.rank() == 0) {
      EXPECT_TRUE(eventually([&] { return looks > 1; }));
    }
    distributed::barrier();
  });
}

}  // namespace
}  // namespace unisono::testing
