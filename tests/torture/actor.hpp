// One rank that performs a program, notes how every action ended, and goes on whatever happened.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <vector>

#include "tests/support/outcomes.hpp"
#include "tests/torture/dice.hpp"
#include "tests/torture/program.hpp"

namespace unisono::testing {

// What the ranks of a round and the test tell each other.
struct Stage {
  std::atomic<int> actions_done[16];      // by rank; one more when it has joined
  std::atomic<int> all_struck;            // whoever was to die is dead
  std::atomic<int64_t> killed_ns[16];     // when the test did it
  std::atomic<int64_t> continued_ns[16];  // the last time
};

// One outcome an action, and behind them one a circle: of the barrier at the end.
inline int outcome_count(const Program& program) {
  return static_cast<int>(program.actions.size() + program.circles.size());
}

class Actor {
 public:
  struct Notebook {
    const Outcomes& outcomes;
    Stage& stage;
  };
  Actor(const Program& program, TestWorld& world, Notebook notebook);
  void perform();

 private:
  struct UnderWay {
    int action;
    Started started;
  };
  void perform(int index);
  void call(int index);
  void finish();
  void make(int index);
  void split(int index);
  void destroy(int index);
  void differ(int index);
  void refuse(int index);
  void meet_once_more();
  void dawdle();
  bool is_member(int circle) const;

  template <typename CallFunction>
  bool note(int index, CallFunction function) {
    return notebook_.outcomes.note(world_.rank(), index, function).code == ErrorCode::ok;
  }

  const Program& program_;
  TestWorld& world_;
  Notebook notebook_;
  Dice dice_;                                   // for what ranks need not have in common
  std::vector<std::shared_ptr<Group>> groups_;  // by circle; null: outside, not yet made, failed, ended
  std::deque<UnderWay> under_way_;
};

}  // namespace unisono::testing
