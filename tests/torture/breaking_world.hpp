// Made-up ranks on made-up hosts that make calls in one group, and all that can break it: aborts, refusals, calls that differ, ranks that die, leave early, are stopped or cut off. What they know of each
// other, and what they tell, is the library's own (group/members.hpp, group/breaking.hpp), on memory and wires of this test. All of it follows from a seed.
//
// Notices between two ranks come in order, and so do the frames of calls, on wires of their own; nothing orders the one against the other. Who dies takes the last of its notices along. On one host all is seen at once.
//
// What is looked for, once the storm is over and all news has come:
//   nobody waits, though nobody's deadline has passed; but for calls that differ, of which frames may tell too late;
//   the members of a host have one fault, and somebody has really seen it;
//   where one thing alone went wrong, every fault is about that: not about who left, or died, because of it;
//   where nothing did, or one died after it had finished all calls, everybody finishes.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "group/members.hpp"
#include "tests/support/simulated_hosts.hpp"
#include "tests/torture/dice.hpp"

namespace unisono::testing {

// What a careless implementation would do; the checker has to notice.
enum class BreakingFlaw {
  none,
  answers_nothing,     // who is asked about a call in a broken group does not answer with the fault
  leaves_unexplained,  // nor tells it before it leaves
  deaths_unexplained,  // nor before it tells that another ended
  ended_untold,        // how far one came that ended is not told
  own_word_alone,      // who waits does not look at what its host has decided
};

class BreakingWorld {
 public:
  BreakingWorld(uint64_t seed, BreakingFlaw flaw);
  ~BreakingWorld();
  void run();
  const std::string& found() const { return found_; }  // what is wrong; "": nothing
  int broken() const;                                  // how many ranks heard of a fault
  bool was_clean() const { return trouble_ == Trouble::none; }
  bool met_deadlines() const { return met_deadlines_; }

 private:
  enum class Trouble { none, one, many };
  enum class Cause { abort, death, refusal, difference, leaving, cut };
  struct Frame {
    uint64_t word = 0, history = 0;
  };
  struct Shape {  // who needs data of whom
    enum class Way { everybody, from_root, to_root } way = Way::everybody;
    int root = 0;
  };
  struct Rank;

  int count() const { return static_cast<int>(ranks_.size()); }
  Rank& rank(int one) { return *ranks_[static_cast<size_t>(one)]; }
  bool is_apart(int one, int other);
  bool can_act(int one);
  static bool needs(const Shape& shape, int one, int other) {
    return one != other && (shape.way == Shape::Way::everybody || (shape.way == Shape::Way::from_root ? other : one) == shape.root);
  }
  uint64_t word_of(uint32_t call, const Shape& shape) const;

  void act();
  void cause(Cause what, int culprit);
  void cause_something();
  void react(int one);
  void stop(int one, bool is_stopped);
  void die(int one);
  void cut();
  bool turn(int one);
  bool begin(int one);
  bool receive(int one);
  Status examine(int one);
  bool is_awaited(int one, int other);
  bool is_needed(int one, int other);
  Status break_group(int one, ErrorCode code, const std::string& what, std::set<int> named);
  void fail(int one);
  void leave(int one);
  void told(int from, int to, const Notice& notice);
  bool deliver(int from, int to);
  bool notice_losses(int one);
  void ask(int one);
  bool turn_all();
  void come_to_rest();
  void let_deadlines_pass();
  void check();
  void wrong(std::string what);

  Dice dice_;
  BreakingFlaw flaw_;
  Trouble trouble_;
  SimulatedHosts hosts_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<Shape> shapes_;           // of the calls that all mean to make
  std::map<std::pair<int, int>, std::deque<Notice>> wires_;
  std::map<std::pair<int, int>, std::deque<Frame>> data_;
  std::map<std::string, std::set<int>> reported_;  // every fault that somebody saw, and whom it names
  std::set<int> culprits_;
  std::vector<bool> in_small_part_;     // by host, once the network is cut in two
  bool was_cut_ = false;
  bool differs_ = false;                // somebody has made another call than the rest
  bool died_at_the_end_ = false;        // the only trouble: one died that had finished, and others of its host are there to say so
  bool is_quiet_ = false;               // nothing moves any more: what may still be on its way is not
  bool met_deadlines_ = false;
  std::string found_;
};

}  // namespace unisono::testing
