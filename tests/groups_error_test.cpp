// What goes wrong with groups: how it is said, and that nothing else suffers.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/support/calls.hpp"
#include "tests/support/children.hpp"
#include "tests/support/test_world.hpp"
#include "unisono/comm_func.hpp"

namespace unisono {
namespace {

using testing::expect_works;
using testing::for_each_world;
using testing::ranks;
using testing::TestWorld;

template <typename ErrorType, typename CallFunction>
std::string message_of(CallFunction call) {
  try {
    call();
  } catch (const ErrorType& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

TEST(NewGroup, refuses_ranks_that_do_not_exist_on_every_rank) {
  for_each_world(ranks(3), [](TestWorld& world) {
    for (const std::vector<int>& members : {std::vector<int>{0, 3}, {-1, 1}, {7}}) {
      std::string text = message_of<ArgumentError>([&] { distributed::new_group(members); });
      EXPECT_TRUE(contains(text, "not in the world of 3")) << text;
    }
    expect_works(world);
  });
}

TEST(NewGroup, refuses_a_rank_that_is_there_twice_on_every_rank) {
  for_each_world(ranks(3), [](TestWorld& world) {
    std::string text = message_of<ArgumentError>([&] { distributed::new_group({0, 1, 0}); });
    EXPECT_TRUE(contains(text, "rank 0 is there twice")) << text;
    expect_works(world);
  });
}

TEST(CreateGroup, refuses_what_cannot_be) {
  for_each_world(ranks(3), [](TestWorld& world) {
    const int me = world.rank(), other = (me + 1) % 3;
    EXPECT_THROW(communication::create_group("a", {me, 3}), ArgumentError);
    EXPECT_THROW(communication::create_group("a", {me, me}), ArgumentError);
    EXPECT_THROW(communication::create_group("a", {}), ArgumentError);
    EXPECT_THROW(communication::create_group("", {me}), ArgumentError);
    EXPECT_THROW(communication::create_group("hccl_world_group", {me}), ArgumentError);
    std::string text = message_of<ArgumentError>([&] { communication::create_group("a", {other}); });
    EXPECT_TRUE(contains(text, fmt::format("this rank, {}, is not a member", me))) << text;
    expect_works(world);
  });
}

TEST(CreateGroup, refuses_a_name_that_is_taken) {
  for_each_world(ranks(2), [](TestWorld& world) {
    communication::create_group("pair", {0, 1});
    std::string text = message_of<ArgumentError>([&] { communication::create_group("pair", {0, 1}); });
    EXPECT_TRUE(contains(text, "\"pair\" exists already")) << text;
    expect_works(world, GroupHandle(world.world().find_group("pair")));
    communication::destroy_group("pair");
    communication::create_group("pair", {1, 0});
    expect_works(world, GroupHandle(world.world().find_group("pair")));
  });
}

TEST(CreateGroup, is_a_mismatch_when_ranks_give_different_members) {
  for_each_world(ranks(3), [](TestWorld& world) {
    const std::vector<int> members = world.rank() == 1 ? std::vector<int>{0, 1} : std::vector<int>{0, 1, 2};
    std::string text = message_of<MismatchError>([&] { communication::create_group("trio", members); });
    EXPECT_TRUE(contains(text, "\"trio\"")) << text;
    // Rank 2 cannot know what is wrong between the two others, only that one of them gave up.
    EXPECT_TRUE(world.rank() == 2 ||
                contains(text, fmt::format("rank {} makes it of {} members", world.rank(), members.size())))
        << text;
    EXPECT_TRUE(world.rank() == 2 || (contains(text, "[0, 1]") && contains(text, "[0, 1, 2]"))) << text;
    expect_works(world);
    communication::create_group("trio", {0, 1, 2});  // the name is still to be had
    expect_works(world, GroupHandle(world.world().find_group("trio")));
  });
}

TEST(CreateGroup, is_a_mismatch_when_ranks_give_members_in_another_order) {
  for_each_world(ranks(2), [](TestWorld& world) {
    const std::vector<int> members = world.rank() == 0 ? std::vector<int>{0, 1} : std::vector<int>{1, 0};
    for (int round = 0; round < 3; ++round) EXPECT_THROW(communication::create_group("pair", members), MismatchError);
    communication::create_group("pair", {1, 0});
    expect_works(world, GroupHandle(world.world().find_group("pair")));
  });
}

// The rank that is in both groups uses the name twice, the others once.
TEST(CreateGroup, may_use_a_name_again_for_other_members) {
  for_each_world(ranks(3), [](TestWorld& world) {
    for (int round = 0; round < 5; ++round)
      for (const std::vector<int>& members : {std::vector<int>{0, 1}, {1, 2}, {0, 1, 2}}) {
        if (std::find(members.begin(), members.end(), world.rank()) == members.end()) continue;
        communication::create_group("again", members);
        expect_works(world, GroupHandle(world.world().find_group("again")));
        communication::destroy_group("again");
      }
  });
}

TEST(CreateGroup, names_who_has_not_come_when_time_is_over) {
  for_each_world(ranks(2), [](TestWorld& world) {
    const distributed::NewGroupOptions options{.timeout_s = world.rank() == 0 ? 0.02 : 60, .name = "late"};
    if (world.rank() == 0) {
      std::string text = message_of<TimeoutError>([&] { distributed::new_group({0, 1}, options); });
      EXPECT_TRUE(contains(text, "rank 1 has not come")) << text;
    }
    expect_works(world);
    if (world.rank() == 1) {  // who comes too late is told so, and need not wait
      std::string text = message_of<TimeoutError>([&] { distributed::new_group({0, 1}, options); });
      EXPECT_TRUE(contains(text, "rank 0 gave up making group \"late\"")) << text;
    }
    expect_works(world);
    expect_works(world, distributed::new_group({0, 1}, {.name = "late"}));
  });
}

// Who comes after all those tries finds the next one waiting, or is told once that the last was given up.
TEST(CreateGroup, that_failed_a_thousand_times_works_when_all_come_and_costs_nothing) {
  static std::atomic<int> tried;
  tried = 0;
  for_each_world(ranks(2).with(testing::Kind::threads), [&](TestWorld& world) {
    auto make = [](double timeout_s) { return distributed::new_group({0, 1}, {.timeout_s = timeout_s, .name = "late"}); };
    const int tries = testing::small_run() ? 100 : 1000;
    int64_t taken = 0;
    for (; world.rank() == 0 && tried < tries; ++tried) {
      EXPECT_THROW(make(0.0001), TimeoutError);
      if (tried == 10) taken = world.world().arena_taken_bytes();
    }
    if (world.rank() == 0) { EXPECT_LE(world.world().arena_taken_bytes(), taken); }
    EXPECT_TRUE(testing::await([&] { return tried == tries; }));
    GroupHandle group;
    try {
      group = make(20);
    } catch (const TimeoutError& error) {
      EXPECT_EQ(world.rank(), 1) << error.what();
      group = make(20);
    }
    expect_works(world, group);
    distributed::destroy_process_group(group);
  });
}

TEST(CreateGroup, by_several_threads_at_once_makes_all_of_them) {
  for_each_world(ranks(3), [](TestWorld& world) {
    std::vector<std::thread> threads;
    for (int index = 0; index < 4; ++index)
      threads.emplace_back([&world, index] {
        for (int round = 0; round < 5; ++round) {
          const std::string name = fmt::format("of thread {}", index);
          auto group = world.world().create_group(name, {0, 1, 2});
          ASSERT_TRUE(group.ok()) << group.status().text();
          expect_works(world, GroupHandle(*group));
          EXPECT_TRUE(world.world().destroy_group(name).ok());
        }
      });
    for (std::thread& thread : threads) thread.join();
  });
}

TEST(DestroyedGroups, refuse_calls) {
  for_each_world(ranks(2), [](TestWorld& world) {
    GroupHandle group = distributed::new_group({0, 1}, {.name = "gone"});
    expect_works(world, group);
    distributed::destroy_process_group(group);
    std::vector<float> data(4, 1);
    std::string text = message_of<StateError>([&] { distributed::all_reduce(view(data), {.group = group}); });
    EXPECT_TRUE(contains(text, "\"gone\" was destroyed")) << text;
    WorkPtr work = distributed::all_reduce(view(data), {.group = group, .async_op = true});
    EXPECT_THROW(work->wait(), StateError);
    EXPECT_THROW(distributed::abort(group), StateError);
    text = message_of<ArgumentError>([&] { comm_func::all_reduce(view(data), {.group = "gone"}); });
    EXPECT_TRUE(contains(text, "is not in a group \"gone\"")) << text;
    EXPECT_EQ(data, std::vector<float>(4, 1));
    expect_works(world);
  });
}

TEST(DestroyedGroups, cannot_be_destroyed_again) {
  for_each_world(ranks(2), [](TestWorld& world) {
    GroupHandle group = distributed::new_group({0, 1}, {.name = "once"});
    distributed::destroy_process_group(group);
    EXPECT_THROW(distributed::destroy_process_group(group), StateError);
    EXPECT_THROW(communication::destroy_group("once"), StateError);
    EXPECT_THROW(communication::destroy_group("never was"), StateError);
    EXPECT_THROW(communication::destroy_group("hccl_world_group"), ArgumentError);
    GroupHandle again = distributed::new_group({0, 1}, {.name = "once"});
    EXPECT_THROW(distributed::destroy_process_group(group), StateError);  // not the new one of that name
    expect_works(world, again);
  });
}

TEST(NamedGroups, are_refused_to_ranks_outside_them) {
  for_each_world(ranks(3), [](TestWorld& world) {
    if (world.rank() != 2) communication::create_group("two", {0, 1});
    if (world.rank() == 2) {
      std::vector<float> data(4, 1);
      std::string text = message_of<ArgumentError>([&] { comm_func::all_reduce(view(data), {.group = "two"}); });
      EXPECT_TRUE(contains(text, "rank 2 is not in a group \"two\"")) << text;
      EXPECT_THROW(communication::get_rank("two"), ArgumentError);
      EXPECT_THROW(communication::destroy_group("two"), StateError);
    }
    expect_works(world);
  });
}

}  // namespace
}  // namespace unisono
