// A rank forks, as data loaders do: the child is told clearly that it is no rank, the rank goes on, and nothing that becomes
// of the child looks like the death of the rank.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/forking.hpp"
#include "tests/support/losses.hpp"
#include "unisono/comm_func.hpp"
#include "unisono/communication.hpp"

// A child that exits is searched for leaks, which takes the allocator's locks as the parent's other threads held them when it
// forked: it may wait for ever. Nothing of ours is in that.
extern "C" const char* __asan_default_options() { return "detect_leaks=0"; }

namespace unisono::testing {
namespace {

void expect_state_error(const char* what, const std::function<void()>& call) {
  try {
    call();
    ADD_FAILURE() << what << " went through in a forked child";
  } catch (const StateError& error) {
    EXPECT_NE(std::string(error.what()).find("fork"), std::string::npos) << what << ": " << error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << what << ": another error: " << error.what();
  }
}

// Runs the body in a forked child, which then ends as told, and waits for it.
void in_a_forked_child(const std::function<void()>& body, const std::function<void()>& end) {
  await_allocator();
  fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    const FailuresSince start;
    body();
    if (start.any()) _exit(100);
    end();
    _exit(101);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_FALSE(WIFEXITED(status) && WEXITSTATUS(status) >= 100) << "the child exited with " << WEXITSTATUS(status);
}

void try_everything(const GroupHandle& group) {
  std::vector<float> data(8);
  const TensorView tensor = view(data);
  std::vector<TensorView> list = {tensor, tensor};
  EXPECT_FALSE(distributed::is_initialized() || communication::GlobalComm::INITED());
  expect_state_error("all_reduce", [&] { distributed::all_reduce(tensor); });
  expect_state_error("all_reduce on a group", [&] { distributed::all_reduce(tensor, {.group = group}); });
  expect_state_error("async all_reduce", [&] { distributed::all_reduce(tensor, {.group = group, .async_op = true})->wait(); });
  expect_state_error("a refused call", [&] { distributed::all_reduce({nullptr, DType::float32, Shape{3}}, {.group = group}); });
  expect_state_error("broadcast", [&] { distributed::broadcast(tensor); });
  expect_state_error("barrier", [&] { distributed::barrier(); });
  expect_state_error("new_group", [&] { distributed::new_group({0, 1}); });
  expect_state_error("abort", [&] { distributed::abort(group); });
  expect_state_error("comm_func", [&] { comm_func::all_reduce(tensor); });
  expect_state_error("create_group", [&] { communication::create_group("child", {0, 1}); });
}

struct ChildEnd {
  std::string name;
  std::function<void()> end;
};

// The child has copies of the rank's connections, and closes them without a word to the other side.
TEST(Fork, leaves_connections_between_pretended_hosts_alone) {
  const std::string job = unique_job();
  expect_all_succeeded(Children(2, [&](int rank) {
    setenv("UNISONO_PRETEND_HOSTS", "1,1", 1);
    distributed::init_process_group({.rank = rank, .world_size = 2, .job = job});
    std::vector<float> data(8, 1);
    distributed::all_reduce(view(data));
    in_a_forked_child([&] { expect_state_error("barrier", [] { distributed::barrier(); }); }, [] { exit(0); });
    distributed::all_reduce(view(data));
    EXPECT_EQ(data.front(), 4);
    distributed::all_reduce(view(data), {.group = distributed::new_group({0, 1})});
    EXPECT_EQ(data.front(), 8);
    distributed::destroy_process_group();
  }).wait());
}

TEST(Fork, a_child_gets_a_state_error_and_its_end_is_not_the_death_of_the_rank) {
  const ChildEnd ends[] = {{"exit(0)", [] { exit(0); }}, {"_exit(5)", [] { _exit(5); }}, {"SIGKILL", [] { raise(SIGKILL); }}};
  for (const ChildEnd& end : ends) {
    SCOPED_TRACE(end.name);
    const std::string job = unique_job();
    expect_all_succeeded(Children(2, [&](int rank) {
      distributed::init_process_group({.rank = rank, .world_size = 2, .job = job});
      GroupHandle group = distributed::new_group({0, 1});
      std::vector<float> data(100'000, 1);
      for (int round = 0; round < 3; ++round) {
        in_a_forked_child([&] { try_everything(group); }, end.end);
        distributed::all_reduce(view(data));
        distributed::all_reduce(view(data), {.group = group, .async_op = true})->wait();
      }
      EXPECT_EQ(data, std::vector<float>(100'000, 64));
      distributed::destroy_process_group();
    }).wait());
  }
}

// The other rank waits in a call while the child of the first one comes and goes.
TEST(Fork, others_who_wait_notice_nothing) {
  const std::string job = unique_job();
  expect_all_succeeded(Children(3, [&](int rank) {
    distributed::init_process_group({.rank = rank, .world_size = 3, .job = job});
    std::vector<float> data(10, 1);
    if (rank == 0) in_a_forked_child([] {}, [] { exit(0); });
    distributed::all_reduce(view(data));
    EXPECT_EQ(data, std::vector<float>(10, 3));
    distributed::destroy_process_group();
  }).wait());
}

TEST(Fork, with_calls_at_work_leaves_them_to_the_parent) {
  const std::string job = unique_job();
  expect_all_succeeded(Children(2, [&](int rank) {
    distributed::init_process_group({.rank = rank, .world_size = 2, .job = job});
    std::vector<float> data(1'000'000, 1);
    WorkPtr work = distributed::all_reduce(view(data), {.async_op = true});
    in_a_forked_child([&] { EXPECT_FALSE(data.empty()); }, [] { exit(0); });
    EXPECT_TRUE(work->wait());
    EXPECT_EQ(data, std::vector<float>(1'000'000, 2));
    distributed::destroy_process_group();
  }).wait());
}

// A child that outlives the world must not keep its meeting place: rank 0 would be told that it runs already.
TEST(Fork, a_child_that_lives_on_does_not_hinder_joining_again) {
  const std::string job = unique_job();
  expect_all_succeeded(Children(2, [&](int rank) {
    distributed::init_process_group({.rank = rank, .world_size = 2, .job = job});
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      char byte;
      close(ends[1]);
      _exit(read(ends[0], &byte, 1) == 0 ? 0 : 1);  // until the parent closes its end
    }
    close(ends[0]);
    distributed::destroy_process_group();
    for (int round = 0; round < 3; ++round) {
      distributed::init_process_group({.rank = rank, .world_size = 2, .job = job});
      distributed::barrier();
      distributed::destroy_process_group();
    }
    close(ends[1]);
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }).wait());
}

// The rank is killed and its child lives on, holding whatever it inherited.
TEST(Fork, a_child_that_outlives_its_rank_does_not_hide_the_death) {
  Outcomes outcomes(2);
  SharedArray<Signs> signs(1);
  const std::string job = unique_job();
  Children children(2, [&](int rank) {
    distributed::init_process_group({.rank = rank, .world_size = 2, .job = job});
    distributed::barrier();
    if (rank == 1 && fork() == 0) {
      signs[0].ready = 1;
      await([&] { return signs[0].go == 1; });
      _exit(0);
    }
    if (rank == 1) await([] { return false; });
    Scratch scratch;
    outcomes.note(rank, [&] { distributed::all_reduce(scratch.tensor(DType::float32, {8})); });
  });
  EXPECT_TRUE(await([&] { return signs[0].ready == 1; }));
  const int64_t killed_ns = now_ns();
  children.kill(1);
  EXPECT_TRUE(await([&] { return outcomes.of(0).was_made(); }, 5));
  expect_lost(outcomes.of(0), {1});
  EXPECT_LT(seconds_between(killed_ns, outcomes.of(0).ended_ns), 1.0);
  signs[0].go = 1;
  children.wait();
}

TEST(Fork, a_child_may_join_a_world_of_its_own) {
  const std::string job = unique_job(), other_job = unique_job();
  expect_all_succeeded(Children(2, [&](int rank) {
    distributed::init_process_group({.rank = rank, .world_size = 2, .job = job});
    in_a_forked_child(
        [&] {
          distributed::init_process_group({.rank = rank, .world_size = 2, .job = other_job});
          std::vector<float> data(8, 1);
          distributed::all_reduce(view(data));
          EXPECT_EQ(data, std::vector<float>(8, 2));
          distributed::destroy_process_group();
        },
        [] { exit(0); });
    distributed::barrier();
    distributed::destroy_process_group();
  }).wait());
}

}  // namespace
}  // namespace unisono::testing
