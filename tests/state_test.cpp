// Calls before joining, after leaving, on destroyed and on aborted groups, and what becomes of calls at work when their
// group is destroyed. Each test that joins through a dialect does so in a process of its own.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "tests/support/calls.hpp"
#include "tests/support/children.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/outcomes.hpp"
#include "unisono/comm_func.hpp"
#include "unisono/communication.hpp"

namespace unisono::testing {
namespace {

void in_a_process(int count, const std::function<void(int)>& body) { expect_all_succeeded(Children(count, body).wait()); }

TEST(State, calls_before_joining_name_the_function_to_call_first) {
  in_a_process(1, [](int) {
    std::vector<float> data(4);
    TensorView tensor = view(data);
    std::vector<TensorView> list = {tensor};
    const std::string remedy = "init_process_group()";
    expect_error<StateError>({"all_reduce", remedy}, [&] { distributed::all_reduce(tensor); });
    expect_error<StateError>({"all_gather", remedy}, [&] { distributed::all_gather(list, tensor); });
    expect_error<StateError>({"reduce_scatter", remedy}, [&] { distributed::reduce_scatter(tensor, list); });
    expect_error<StateError>({"reduce", remedy}, [&] { distributed::reduce(tensor, 0); });
    expect_error<StateError>({"scatter", remedy}, [&] { distributed::scatter(tensor, list); });
    expect_error<StateError>({"broadcast", remedy}, [&] { distributed::broadcast(tensor); });
    expect_error<StateError>({"barrier", remedy}, [&] { distributed::barrier(); });
    expect_error<StateError>({"new_group", remedy}, [&] { distributed::new_group({0}); });
    expect_error<StateError>({"get_rank", remedy}, [&] { distributed::get_rank(); });
    expect_error<StateError>({"all_reduce", "communication.init()"}, [&] { comm_func::all_reduce(tensor); });
    expect_error<StateError>({"create_group", "communication.init()"}, [&] { communication::create_group("a", {0}); });
    expect_error<StateError>({"no world to leave"}, [&] { distributed::destroy_process_group(); });
    EXPECT_FALSE(distributed::is_initialized());
    EXPECT_TRUE(distributed::is_available());
    EXPECT_EQ(distributed::get_backend(), "unisono");
  });
}

TEST(State, calls_after_leaving_are_refused_and_leaving_twice_too) {
  const std::string job = unique_job();
  in_a_process(2, [&](int rank) {
    std::vector<float> data(4);
    distributed::init_process_group({.rank = rank, .world_size = 2, .job = job});
    GroupHandle kept = distributed::new_group({0, 1});
    distributed::all_reduce(view(data), {.group = kept});
    distributed::destroy_process_group();
    expect_error<StateError>({"all_reduce", "init_process_group()"}, [&] { distributed::all_reduce(view(data)); });
    expect_error<StateError>({"was destroyed"}, [&] { distributed::all_reduce(view(data), {.group = kept}); });
    expect_error<StateError>({"was destroyed"}, [&] { distributed::all_reduce(view(data), {.group = kept, .async_op = true})->wait(); });
    expect_error<StateError>({"left already"}, [&] { distributed::destroy_process_group(); });
    EXPECT_FALSE(distributed::is_initialized());
  });
}

TEST(State, joining_twice_finds_the_world_there_and_as_somebody_else_is_refused) {
  const std::string job = unique_job();
  in_a_process(2, [&](int rank) {
    distributed::init_process_group({.rank = rank, .world_size = 2, .job = job});
    communication::init();
    distributed::init_process_group({.rank = rank, .world_size = 2, .job = job});
    expect_error<StateError>({fmt::format("joined already, as rank {} of 2", rank)},
                             [&] { distributed::init_process_group({.rank = 1 - rank, .world_size = 2, .job = job}); });
    EXPECT_EQ(communication::get_rank(), rank);
    communication::release();
    EXPECT_FALSE(distributed::is_initialized());
  });
}

TEST(State, a_destroyed_group_refuses_calls_and_the_others_go_on) {
  for_each_world(under_thread_sanitizer() ? ranks(3).with(Kind::threads) : ranks(3), [](TestWorld& world) {
    GroupHandle group = distributed::new_group({0, 1, 2}, {.name = "short-lived"});
    expect_works(world, group);
    distributed::destroy_process_group(group);
    std::vector<float> data(4);
    expect_error<StateError>({"\"short-lived\" was destroyed"}, [&] { distributed::all_reduce(view(data), {.group = group}); });
    expect_error<StateError>({"group \"short-lived\" was destroyed already"}, [&] { distributed::destroy_process_group(group); });
    expect_error<ArgumentError>({"not in a group \"short-lived\""}, [&] { comm_func::all_reduce(view(data), {.group = "short-lived"}); });
    expect_works(world);
  });
}

// Rank 0 has calls at work for which nobody comes; destroying the group ends them.
TEST(State, destroying_a_group_ends_its_asynchronous_calls) {
  for (int64_t cores : {0, 1})
    for_each_world(ranks(2).with(Kind::threads).with([&](Settings& settings) { settings.cores = cores; }), [](TestWorld& world) {
      GroupHandle group = distributed::new_group({0, 1}, {.name = "pending"});
      if (world.rank() == 0) {
        std::vector<float> data(40'000), more(4);
        WorkPtr first = distributed::all_reduce(view(data), {.group = group, .async_op = true});
        WorkPtr second = distributed::all_reduce(view(more), {.group = group, .async_op = true});
        const int64_t started_ns = now_ns();
        distributed::destroy_process_group(group);
        expect_error<StateError>({"\"pending\" was destroyed"}, [&] { first->wait(); });
        expect_error<StateError>({"\"pending\" was destroyed"}, [&] { second->wait(); });
        EXPECT_LT(static_cast<double>(now_ns() - started_ns) * 1e-9, 2.0);
        EXPECT_EQ(data, std::vector<float>(40'000));
      }
      expect_works(world);
    });
}

TEST(State, destroying_a_group_ends_the_call_that_another_thread_waits_in) {
  for (bool async_op : {false, true})
    for (int64_t cores : {0, 1})
      for_each_world(ranks(2).with(Kind::threads).with([&](Settings& settings) { settings.cores = cores; }), [&](TestWorld& world) {
        GroupHandle group = distributed::new_group({0, 1}, {.name = "pending"});
        if (world.rank() == 0) {
          std::atomic<pid_t> inside{0};
          std::atomic<int64_t> ended_ns{0};
          std::thread caller([&] {
            std::vector<float> data(4);
            expect_error<StateError>({"\"pending\" was destroyed"}, [&] {
              inside = gettid();
              WorkPtr work = distributed::all_reduce(view(data), {.group = group, .async_op = async_op});
              if (work) work->wait();
            });
            ended_ns = now_ns();
          });
          EXPECT_TRUE(await([&] { return inside != 0; }) && await_asleep(getpid(), inside));
          const int64_t destroyed_ns = now_ns();
          distributed::destroy_process_group(group);
          caller.join();
          EXPECT_LT(static_cast<double>(ended_ns - destroyed_ns) * 1e-9, 2.0);
        }
        expect_works(world);
      });
}

// Another thread posts while this one waits inside a call: the progress thread must be told when the call is over.
TEST(State, a_call_posted_behind_a_waiting_thread_needs_nobody_to_wait_for_it) {
  for (int64_t cores : {0, 1}) {
    std::atomic<int> posted{0};
    for_each_world(ranks(2).with(Kind::threads).with([&](Settings& settings) { settings.cores = cores; }), [&](TestWorld& world) {
      Scratch first, second;
      const CallChoice later{.kind = Collective::broadcast, .async_op = true};
      if (world.rank() == 0) {
        std::atomic<pid_t> inside{0};
        std::thread caller([&] {
          inside = gettid();
          make_call(world.group(), first, {});
        });
        EXPECT_TRUE(await([&] { return inside != 0; }) && await_asleep(getpid(), inside));
        WorkPtr work = make_call(world.group(), second, later);
        posted = 1;
        caller.join();
        const int64_t over_ns = now_ns();
        EXPECT_TRUE(await([&] { return work->is_completed(); }));
        EXPECT_LT(static_cast<double>(now_ns() - over_ns) * 1e-9, 0.5);
      } else {
        EXPECT_TRUE(await([&] { return posted == 1; }));
        make_call(world.group(), first, {});
        make_call(world.group(), second, later)->wait();
      }
    });
  }
}

// Rank 0 has shown its part of a large call when it leaves; the others need more of it.
TEST(State, leaving_in_the_middle_of_a_call_is_told_to_those_who_are_in_it) {
  for (int64_t cores : {0, 1})
    for (Kind kind : {Kind::threads, Kind::processes}) {
      if (kind == Kind::processes && under_thread_sanitizer()) continue;
      Outcomes outcomes(3);
      SharedArray<std::atomic<int>> left(1);
      for_each_world(ranks(3).with(kind).with([&](Settings& settings) { settings.cores = cores; }), [&](TestWorld& world) {
        GroupHandle group = distributed::new_group({0, 1, 2}, {.name = "deserted"});
        Scratch scratch;
        const CallChoice large{.kind = Collective::all_reduce, .count = 200'000, .async_op = world.rank() == 0};
        if (world.rank() == 0) {
          WorkPtr work = make_call(group, scratch, large);
          expect_error<TimeoutError>({"expired"}, [&] { work->wait(0.02); });
          distributed::destroy_process_group(group);
          left[0] = 1;
        } else {
          EXPECT_TRUE(world.rank() == 1 || await([&] { return left[0] == 1; }));
          outcomes.note(world.rank(), [&] { make_call(group, scratch, large); });
        }
        expect_works(world);
      });
      for (int rank : {1, 2}) {
        EXPECT_EQ(outcomes.of(rank).code, ErrorCode::peer_lost) << outcomes.of(rank).text();
        EXPECT_EQ(outcomes.of(rank).peer, 0);
        EXPECT_NE(outcomes.of(rank).text().find("left the group"), std::string::npos) << outcomes.of(rank).text();
      }
      EXPECT_LT(outcomes.took_s(), 1.0);
    }
}

TEST(State, an_aborted_group_frees_every_waiter_and_says_why) {
  for (Kind kind : {Kind::threads, Kind::processes}) {
    if (kind == Kind::processes && under_thread_sanitizer()) continue;
    Outcomes outcomes(3, 2);
    for_each_world(ranks(3).with(kind), [&](TestWorld& world) {
      GroupHandle group = distributed::new_group({0, 1, 2}, {.name = "doomed"});
      Scratch scratch;
      CallChoice choice{.kind = Collective::all_reduce, .async_op = world.rank() == 1};
      if (world.rank() == 2) { EXPECT_TRUE(await([&] { return outcomes.has_entered(0) && outcomes.has_entered(1); })); }
      if (world.rank() == 2) outcomes.note(2, 1, [&] { distributed::abort(group, "enough"); });
      outcomes.note(world.rank(), 0, [&] {
        if (WorkPtr work = make_call(group, scratch, choice)) work->wait();
      });
      EXPECT_EQ(outcomes.of(world.rank()).code, ErrorCode::revoked);
      expect_error<RevokedError>({"rank 2 aborted group \"doomed\": enough"}, [&] { make_call(group, scratch, {}); });
      expect_works(world);
    });
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(outcomes.of(rank).text(), outcomes.of(0).text());
      EXPECT_EQ(outcomes.of(rank).peer, 2);
      EXPECT_LT(static_cast<double>(outcomes.of(rank).ended_ns - outcomes.of(2, 1).entered_ns) * 1e-9, 1.0);
    }
  }
}

TEST(State, a_wait_that_expires_breaks_nothing_and_may_be_repeated) {
  SharedArray<std::atomic<int>> expired(1);
  for (int64_t cores : {0, 1}) {
    expired[0] = 0;
    for_each_world(ranks(2).with(Kind::threads).with([&](Settings& settings) { settings.cores = cores; }), [&](TestWorld& world) {
      std::vector<float> data(4, 1);
      if (world.rank() == 0) {
        WorkPtr work = distributed::all_reduce(view(data), {.group = world.group(), .async_op = true});
        for (int again = 0; again < 3; ++again)
          expect_error<TimeoutError>({"wait(0.01) expired", "may be waited for again"}, [&] { work->wait(0.01); });
        EXPECT_FALSE(work->is_completed());
        expired[0] = 1;
        EXPECT_TRUE(work->wait(30));
      } else {
        EXPECT_TRUE(await([&] { return expired[0] == 1; }));
        distributed::all_reduce(view(data), {.group = world.group()});
      }
      EXPECT_EQ(data, std::vector<float>(4, 2));
      expect_works(world);
    });
  }
}

}  // namespace
}  // namespace unisono::testing
