// Made-up ranks on made-up hosts that make groups by the rules of group/making.hpp: again and again, by the same names, with members that overlap or differ, while news from other hosts
// is late and ranks die, stop, give up at their deadlines, refuse, and are cut off. All of it follows from a seed.
//
// Notices between two ranks come in order, once, as over a connection: what can get lost is the rest of them. What is on the same host is seen at once.
//
// What is looked for, once the storm is over and all news has come:
//   who has made a group knows of each member that it has made it, too, or that it is lost or has left;
//   nobody waits for a rank that is lost, or that gave the group up, or for one that waits for it in turn, at another time or with other members;
//   where nothing but news was late, all groups are made, at the first try;
//   in the end all who are left make one more group, in a few tries, whatever was before.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "group/making.hpp"
#include "tests/torture/dice.hpp"

namespace unisono::testing {

// What a careless implementation would do; the checker has to notice.
enum class MakingFlaw {
  none,
  gives_up_silently,  // who gives up tells nobody
  never_catches_up,   // who is behind goes on to its own next time
  forgets_at_once,    // the entry of a try in vain is removed, the last one's, too
  unheard_leaving,    // who has made a group does not heed that a member gave it up
  waits_for_the_lost, // death is not looked at
};

class MakingWorld {
 public:
  MakingWorld(uint64_t seed, MakingFlaw flaw);
  void run();
  const std::string& found() const { return found_; }  // what is wrong; "": nothing
  int made() const { return made_; }
  bool was_clean() const { return is_clean_; }

 private:
  struct Task {
    std::string name;
    std::vector<int> ranks;
    bool is_last = false;  // the group that all who are left make in the end
  };
  struct Told {
    uint64_t left = 0;  // the key of the group that its teller has left, or an entry:
    ToldEntry entry = {};
    std::vector<int> members = {};
  };
  struct Made {
    BoardKey key;
    Task task;
    std::set<int> left = {};  // ranks, as its owner knows
    bool is_left = false;     // by its owner
  };
  struct Failed {
    GroupParts parts;
    std::set<int> left = {};
  };
  struct Rank {
    int host = 0;
    bool alive = true, stopped = false;
    Making making;
    std::vector<Neighbour> boards;  // its own, and mirrors of the others'
    std::set<int> lost;
    std::deque<Task> tasks;
    int tries = 0;  // at the first of them
    std::optional<GroupParts> parts;
    size_t found = 0;
    std::vector<Failed> failed;
    std::vector<Made> made;
    std::set<std::pair<int, uint64_t>> early;  // who has left which group, heard before it was made here
    std::map<std::vector<int>, int> times;     // for the flaw never_catches_up
    int64_t lanes = 0;
  };

  int count() const { return static_cast<int>(ranks_.size()); }
  Rank& rank(int one) { return *ranks_[static_cast<size_t>(one)]; }
  bool is_apart(int one, int other) { return in_small_part_[static_cast<size_t>(rank(one).host)] != in_small_part_[static_cast<size_t>(rank(other).host)]; }
  void act();
  void break_something();
  bool begin(int one);
  bool turn(int one);
  void fail(int one, const Status& why);
  void task_failed(int one);
  void succeed(int one);
  void leave(int one, Made& made);
  void sweep(int one);
  void tell(int one, const Told& told, const std::vector<int>& to);
  void tell_entry(int one, const BoardEntry& entry, const std::vector<int>& to);
  bool deliver(int from, int to);
  void heard(int from, int to, const Told& told);
  bool notice_losses(int one);
  void come_to_rest();
  void let_deadlines_pass();
  void make_last_groups();
  void check_made();
  void check_waiting();
  void check_clean();
  void check_last();
  void wrong(std::string what);

  Dice dice_;
  MakingFlaw flaw_;
  bool is_clean_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<bool> in_small_part_;  // by host, once the network is cut in two
  bool was_cut_ = false;
  std::map<std::pair<int, int>, std::deque<Told>> wires_;
  int made_ = 0;
  size_t planned_ = 0;
  std::string found_;
};

}  // namespace unisono::testing
