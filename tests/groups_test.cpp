// Groups: who is in them, what they are called, and many of them at once. What goes wrong: groups_error_test.cpp.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/calls.hpp"
#include "tests/support/scale.hpp"
#include "tests/support/test_world.hpp"
#include "tests/support/trial_lists.hpp"
#include "unisono/binding.hpp"
#include "unisono/comm_func.hpp"

namespace unisono {
namespace {

using testing::expect_works;
using testing::for_each_world;
using testing::Form;
using testing::ranks;
using testing::Started;
using testing::TestWorld;
using testing::Trial;

std::vector<Trial> some_trials(int size) {
  return testing::trials_of_sizes({.ranks = size, .tile_bytes = 4096, .largest_bytes = 20 << 10});
}

void perform_all(const std::vector<Trial>& trials, const GroupHandle& handle) {
  for (const Trial& trial : trials) testing::perform(trial, handle.group());
}

TEST(Groups, have_their_ranks_in_the_order_given) {
  const std::vector<Trial> trials = some_trials(3);
  testing::make_patterns_of(trials, 3);
  for_each_world(ranks({4, 5}), [&](TestWorld& world) {
    const std::vector<int> members = {3, 0, 2};
    GroupHandle group = distributed::new_group(members);
    if (!group.is_member()) return;
    EXPECT_EQ(distributed::get_process_group_ranks(group), members);
    EXPECT_EQ(distributed::get_world_size(group), 3);
    EXPECT_EQ(distributed::group_name(group), "ranks 3,0,2 #1");
    EXPECT_EQ(members[static_cast<size_t>(distributed::get_rank(group))], world.rank());
    perform_all(trials, group);
  });
}

TEST(Groups, give_outsiders_nothing_also_when_asynchronous) {
  for_each_world(ranks(3), [](TestWorld& world) {
    GroupHandle group = distributed::new_group({0, 2});
    if (world.rank() == 1) {
      EXPECT_FALSE(group.is_member());
      EXPECT_EQ(distributed::get_rank(group), -1);
      EXPECT_EQ(distributed::get_world_size(group), -1);
      EXPECT_EQ(distributed::group_name(group), "");
      testing::Scratch scratch;
      TensorView tensor = scratch.tensor(DType::float32, {4});
      const TensorView list[] = {scratch.tensor(DType::float32, {4}), scratch.tensor(DType::float32, {4})};
      for (bool async_op : {false, true}) {
        EXPECT_EQ(distributed::all_reduce(tensor, {.group = group, .async_op = async_op}), nullptr);
        EXPECT_EQ(distributed::all_gather(list, tensor, {.group = group, .async_op = async_op}), nullptr);
        EXPECT_EQ(distributed::all_gather_into_tensor(tensor, tensor, {.group = group, .async_op = async_op}), nullptr);
        EXPECT_EQ(distributed::reduce_scatter(tensor, list, {.group = group, .async_op = async_op}), nullptr);
        EXPECT_EQ(distributed::reduce_scatter_tensor(tensor, tensor, {.group = group, .async_op = async_op}), nullptr);
        EXPECT_EQ(distributed::reduce(tensor, 0, {.group = group, .async_op = async_op}), nullptr);
        EXPECT_EQ(distributed::scatter(tensor, {}, {.group = group, .async_op = async_op}), nullptr);
        EXPECT_EQ(distributed::broadcast(tensor, {.group = group, .async_op = async_op}), nullptr);
        EXPECT_EQ(distributed::barrier({.group = group, .async_op = async_op}), nullptr);
      }
      EXPECT_TRUE(scratch.is_untouched());
      distributed::destroy_process_group(group);
    } else {
      expect_works(world, group);
    }
    expect_works(world);
  });
}

TEST(Groups, by_name_are_made_and_ended_by_their_members) {
  const std::vector<Trial> trials = some_trials(2);
  testing::make_patterns_of(trials, 2);
  for_each_world(ranks(4), [&](TestWorld& world) {
    if (world.rank() % 2 == 1) return;
    for (int round = 0; round < 3; ++round) {  // the same name again after it was destroyed
      communication::create_group("even", {2, 0});
      EXPECT_EQ(communication::get_rank("even"), world.rank() == 2 ? 0 : 1);
      EXPECT_EQ(communication::get_group_size("even"), 2);
      EXPECT_EQ(communication::get_process_group_ranks("even"), (std::vector<int>{2, 0}));
      perform_all(trials, GroupHandle(world.world().find_group("even")));
      communication::destroy_group("even");
    }
  });
}

TEST(Groups, translate_ranks_both_ways_in_both_dialects) {
  for_each_world(ranks(4), [](TestWorld& world) {
    GroupHandle group = distributed::new_group({3, 1, 0}, {.name = "three"});
    EXPECT_EQ(communication::get_world_rank_from_group_rank("", world.rank()), world.rank());
    EXPECT_EQ(communication::get_group_rank_from_world_rank(world.rank(), "nccl_world_group"), world.rank());
    EXPECT_EQ(distributed::get_global_rank({}, 2), 2);
    EXPECT_EQ(distributed::get_group_rank({}, 2), 2);
    EXPECT_EQ(communication::get_local_rank(), world.rank());
    EXPECT_EQ(communication::get_local_rank_size(), 4);
    if (!group.is_member()) return;
    const std::vector<int> members = {3, 1, 0};
    for (int index = 0; index < 3; ++index) {
      const int global = members[static_cast<size_t>(index)];
      EXPECT_EQ(distributed::get_global_rank(group, index), global);
      EXPECT_EQ(distributed::get_group_rank(group, global), index);
      EXPECT_EQ(communication::get_world_rank_from_group_rank("three", index), global);
      EXPECT_EQ(communication::get_group_rank_from_world_rank(global, "three"), index);
    }
    EXPECT_THROW(distributed::get_global_rank(group, 3), ArgumentError);
    EXPECT_THROW(distributed::get_global_rank(group, -1), ArgumentError);
    EXPECT_THROW(distributed::get_group_rank(group, 2), ArgumentError);
    EXPECT_THROW(communication::get_world_rank_from_group_rank("three", 3), ArgumentError);
    EXPECT_THROW(communication::get_group_rank_from_world_rank(2, "three"), ArgumentError);
  });
}

TEST(SplitGroup, goes_by_colour_and_orders_by_key) {
  for_each_world(ranks(5), [](TestWorld& world) {
    GroupHandle half = distributed::split_group({}, world.rank() % 2, -world.rank());
    const std::vector<int> expected = world.rank() % 2 == 0 ? std::vector<int>{4, 2, 0} : std::vector<int>{3, 1};
    EXPECT_EQ(distributed::get_process_group_ranks(half), expected);
    expect_works(world, half);
    GroupHandle same_key = distributed::split_group(half, 7);  // of a group that was itself split off
    EXPECT_EQ(distributed::get_process_group_ranks(same_key), expected);
    expect_works(world, same_key);
  });
}

TEST(SplitGroup, leaves_out_who_has_a_negative_colour) {
  for_each_world(ranks(4), [](TestWorld& world) {
    GroupHandle group = distributed::split_group({}, world.rank() == 2 ? -1 : 0);
    EXPECT_EQ(group.is_member(), world.rank() != 2);
    if (group.is_member()) {
      EXPECT_EQ(distributed::get_process_group_ranks(group), (std::vector<int>{0, 1, 3}));
      expect_works(world, group);
    }
    expect_works(world);
  });
}

TEST(Groups, of_the_same_ranks_do_not_disturb_each_other) {
  for_each_world(ranks(3), [](TestWorld& world) {
    GroupHandle one = distributed::new_group({0, 1, 2}), other = distributed::new_group({0, 1, 2});
    EXPECT_NE(one.group(), other.group());
    for (int round = 0; round < 20; ++round) {
      expect_works(world, round % 2 ? one : other);
      expect_works(world);
    }
  });
}

std::vector<std::vector<int>> overlapping_members() { return {{0, 1, 2}, {1, 2, 3}, {0, 3}, {2, 0}, {3, 2, 1, 0}}; }

// Every rank posts to its groups in an order of its own, since asynchronous calls on one group wait for no other group.
TEST(Groups, that_overlap_take_asynchronous_calls_in_any_order_between_them) {
  std::vector<std::vector<Trial>> trials;
  for (const std::vector<int>& members : overlapping_members()) {
    const int size = static_cast<int>(members.size());
    trials.push_back(testing::trials_of_sizes({.ranks = size, .tile_bytes = 4096, .largest_bytes = 20 << 10},
                                              [](const Form& form) { return form.has_async; }));
    for (Trial& trial : trials.back()) trial.async_op = true;
    testing::make_patterns_of(trials.back(), size);
  }
  for_each_world(ranks(4), [&](TestWorld& world) {
    std::vector<std::pair<GroupHandle, size_t>> mine;
    for (size_t index = 0; index < trials.size(); ++index)
      if (GroupHandle group = distributed::new_group(overlapping_members()[index]); group.is_member())
        mine.push_back({group, index});
    std::rotate(mine.begin(), mine.begin() + world.rank() % static_cast<int>(mine.size()), mine.end());
    if (world.rank() % 2) std::reverse(mine.begin(), mine.end());
    std::vector<Started> started;
    for (size_t first = 0; first < 200; first += 20)  // twenty at a time on each group in turn
      for (auto& [group, index] : mine)
        for (size_t at = first; at < std::min(first + 20, trials[index].size()); ++at)
          started.push_back(testing::start(trials[index][at], group.group()));
    for (auto call = started.rbegin(); call != started.rend(); ++call) call->finish();
  });
}

TEST(Groups, can_be_fifty_at_once) {
  for_each_world(ranks(3), [](TestWorld& world) {
    std::vector<GroupHandle> groups;
    const std::vector<std::vector<int>> members = {{0, 1, 2}, {1, 0, 2}, {2, 1, 0}, {0, 2, 1}};
    for (size_t index = 0; index < 50; ++index)
      groups.push_back(distributed::new_group(members[index % 4], {.name = fmt::format("group {}", index)}));
    for (const GroupHandle& group : groups) expect_works(world, group);
    std::vector<std::vector<float>> data(50, std::vector<float>(3000, 1));
    std::vector<WorkPtr> works;
    for (size_t index = 0; index < 50; ++index)
      works.push_back(distributed::all_reduce(view(data[index]), {.group = groups[index], .async_op = true}));
    for (size_t index = 50; index-- > 0;) {
      works[index]->wait();
      EXPECT_EQ(data[index], std::vector<float>(3000, 3)) << index;
    }
    for (const GroupHandle& group : groups) distributed::destroy_process_group(group);
  });
}

TEST(Groups, made_and_ended_in_a_row_give_their_memory_back) {
  const int rounds = testing::scale() == testing::Scale::small ? 60 : 300;
  auto worlds = ranks(3).with([](Settings& settings) { settings.plan = "reduce_scatter=ring"; });  // links too
  for_each_world(worlds, [&](TestWorld& world) {
    auto taken_with_a_fresh_group = [&] {
      distributed::barrier();  // by now everybody has left the groups before
      GroupHandle group = distributed::new_group({0, 1, 2});
      const int64_t taken = world.world().arena_taken_bytes();
      distributed::destroy_process_group(group);
      return taken;
    };
    const int64_t before = taken_with_a_fresh_group();
    std::vector<float> data(20'000, 1), parts(9, 1), part(3);
    for (int round = 0; round < rounds; ++round) {
      GroupHandle group = distributed::new_group({0, 1, 2}, {.name = round % 3 ? "" : "the same name"});
      distributed::all_reduce(view(data), {.op = ReduceOp::max, .group = group});
      distributed::reduce_scatter_tensor(view(part), view(parts), {.group = group});
      EXPECT_EQ(part, std::vector<float>(3, 3));
      distributed::destroy_process_group(group);
    }
    EXPECT_EQ(taken_with_a_fresh_group(), before);
  });
}

}  // namespace
}  // namespace unisono
