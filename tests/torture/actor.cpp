// See actor.hpp.
#include "tests/torture/actor.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/children.hpp"
#include "unisono/communication.hpp"

namespace unisono::testing {
namespace {

// Arguments that this rank itself sees to be wrong, of three sorts.
void call_wrongly(const GroupHandle& group, const CallChoice& usual) {
  std::vector<float> data(8);
  if (usual.count % 3 == 0) {
    distributed::all_reduce({nullptr, DType::float32, Shape{8}}, {.group = group, .async_op = usual.async_op});
  } else if (usual.count % 3 == 1) {
    distributed::broadcast(view(data), {.src = -1, .group = group, .async_op = usual.async_op});
  } else {
    distributed::all_gather_into_tensor(view(data), view(data), {.group = group, .async_op = usual.async_op});
  }
}

void call_and_wait(const GroupHandle& group, Scratch& scratch, const CallChoice& choice) {
  if (WorkPtr work = make_call(group, scratch, choice)) work->wait();
}

}  // namespace

Actor::Actor(const Program& program, TestWorld& world, Notebook notebook)
    : program_(program),
      world_(world),
      notebook_(notebook),
      dice_(program.seed + static_cast<uint64_t>(world.rank()) + 1),
      groups_(program.circles.size()) {
  groups_[0] = world.world().world_group();
}

bool Actor::is_member(int circle) const {
  return std::ranges::count(program_.circles[static_cast<size_t>(circle)].ranks, world_.rank()) > 0;
}

void Actor::perform() {
  std::atomic<int>& done = notebook_.stage.actions_done[world_.rank()];
  done = 1;
  for (int index = 0; index < static_cast<int>(program_.actions.size()); ++index) {
    dawdle();
    perform(index);
    done += 1;
  }
  meet_once_more();
}

// Now and then a rank has something else to do, so that it is not always the same one that comes last.
void Actor::dawdle() {
  if (!dice_.chance(10)) return;
  for (const int64_t until_ns = now_ns() + dice_.of_any_magnitude(20); now_ns() < until_ns;) continue;
}

void Actor::perform(int index) {
  const Action& action = program_.actions[static_cast<size_t>(index)];
  if (action.deed == Deed::finish) return finish();
  if (action.deed == Deed::make) return make(index);
  if (action.deed == Deed::split) return split(index);
  if (!groups_[static_cast<size_t>(action.group)]) return;
  if (action.deed == Deed::call) return call(index);
  if (action.deed == Deed::destroy) return destroy(index);
  return action.deed == Deed::differ ? differ(index) : refuse(index);
}

void Actor::call(int index) {
  const Action& action = program_.actions[static_cast<size_t>(index)];
  Started started;
  if (!note(index, [&] { started = start(action.trial, groups_[static_cast<size_t>(action.group)]); })) return;
  if (started.work || started.handle)
    under_way_.push_back({index, std::move(started)});
  else
    started.check();
}

// Each rank in the order it likes.
void Actor::finish() {
  const bool last_first = dice_.chance(50);
  while (!under_way_.empty()) {
    UnderWay next = std::move(last_first ? under_way_.back() : under_way_.front());
    last_first ? under_way_.pop_back() : under_way_.pop_front();
    if (note(next.action, [&] { next.started.wait(); })) next.started.check();
  }
}

void Actor::make(int index) {
  const int circle = program_.actions[static_cast<size_t>(index)].group;
  const auto& [ranks, name, run_ahead, made_by, ended] = program_.circles[static_cast<size_t>(circle)];
  if (!is_member(circle)) {
    EXPECT_FALSE(distributed::new_group(ranks, {.name = name, .run_ahead = run_ahead}).is_member());
    return;
  }
  note(index, [&] {
    if (name.empty() || run_ahead > 0 || index % 2 == 0) {
      groups_[static_cast<size_t>(circle)] =
          distributed::new_group(ranks, {.name = name, .run_ahead = run_ahead}).group();
    } else {
      communication::create_group(name, ranks);
      groups_[static_cast<size_t>(circle)] = world_.world().find_group(name);
    }
  });
}

void Actor::split(int index) {
  const Action& action = program_.actions[static_cast<size_t>(index)];
  const std::shared_ptr<Group>& parent = groups_[static_cast<size_t>(action.parent)];
  if (!parent) return;
  const auto me = static_cast<size_t>(parent->me());
  note(index, [&] {
    GroupHandle part = distributed::split_group(parent, action.colours[me], action.keys[me]);
    EXPECT_EQ(part.is_member(), action.colours[me] >= 0);
    if (!part.is_member()) return;
    const int circle = action.group + action.colours[me];
    EXPECT_EQ(part.group()->ranks(), program_.circles[static_cast<size_t>(circle)].ranks);
    groups_[static_cast<size_t>(circle)] = part.group();
  });
}

void Actor::destroy(int index) {
  std::shared_ptr<Group>& group = groups_[static_cast<size_t>(program_.actions[static_cast<size_t>(index)].group)];
  note(index, [&] { distributed::destroy_process_group(std::exchange(group, nullptr)); });
}

void Actor::differ(int index) {
  const Action& action = program_.actions[static_cast<size_t>(index)];
  const std::shared_ptr<Group>& group = groups_[static_cast<size_t>(action.group)];
  Scratch scratch;
  note(index, [&] { call_and_wait(group, scratch, group->me() == action.member ? action.odd : action.usual); });
  EXPECT_TRUE(scratch.is_untouched()) << program_.text_of(static_cast<size_t>(index)) << " wrote to memory of rank "
                                      << world_.rank();
}

void Actor::refuse(int index) {
  const Action& action = program_.actions[static_cast<size_t>(index)];
  const std::shared_ptr<Group>& group = groups_[static_cast<size_t>(action.group)];
  Scratch scratch;
  note(index, [&] {
    group->me() == action.member ? call_wrongly(group, action.usual) : call_and_wait(group, scratch, action.usual);
  });
  EXPECT_TRUE(scratch.is_untouched()) << program_.text_of(static_cast<size_t>(index)) << " wrote to memory of rank "
                                      << world_.rank();
}

// When everybody who is to die is dead: groups that had one of them must know it, and all others work.
void Actor::meet_once_more() {
  EXPECT_TRUE(await([&] { return notebook_.stage.all_struck == 1; }));
  for (size_t circle = 0; circle < groups_.size(); ++circle) {
    if (!groups_[circle]) continue;
    note(static_cast<int>(program_.actions.size() + circle), [&] { distributed::barrier({.group = groups_[circle]}); });
  }
}

}  // namespace unisono::testing
