// How the members of a group find each other. Every arena has a board, with an entry for each group that its rank makes.
//
//   The first time that these members make a group of this name is matched with the others' first time, and so on. Who tried in
//   vain without the others is ahead of them. Whoever is behind goes on to the latest time that another speaks of: it finds that
//   one waiting there, or hears, once, that it gave up, and is no longer behind.
//   Two ranks that make a name with different members, each counting on the other, would wait for ever: a mismatch.
//   Whoever gives up says so in its entry, and whoever still waits for it then gives up too.
//   To ranks on other hosts entries are told, and they are read in mirrors of their owners' boards. One that gave up
//   tells so in any case, and who had found it there before takes it for a member that has left.
//
// Rules alone: no clock, no socket, no thread. Who waits, tells and is told: world_board.cpp and world_remotes.cpp, and with made-up ranks tests/torture/making_world.hpp.
//
// Who writes: a rank writes entries of its own board only; the others read them. Of ranks on other hosts its control thread writes mirrors. Order: the lane is ready, and everything in
// the entry stored, before the key; a reader loads the key with acquire first, and believes what it read if the key is still
// the same afterwards. Between entering and looking at the others' entries, and between giving up and the same, there is
// a fence: either they see that we gave up, or we see that they came and tell them in their lane.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "group/group_parts.hpp"
#include "group/notice.hpp"

namespace unisono {

inline constexpr int board_probes = 64;  // an entry lies within this many places of where its name points

// A rank that waits for the others of a group.
struct Search {
  GroupParts& parts;
  std::function<std::string(int rank)> how_lost;  // "" while it lives
  std::function<bool(size_t member)> has_made;    // it had found everybody, and has left the group since
  size_t found = 0;                               // so many of the members have come
};

// What a rank says of itself when it enters a group.
struct Entered {
  int64_t lane = 0;      // where it lies in its arena
  bool reads = true;     // it may read the memory of every member
  bool crowded = false;  // it shares its core
};

class Making {
 public:
  // Which time it is that these members make a group of this name: one more than this rank's last, or the time at which another
  // waits just now, after having tried in vain without this one.
  void take_time(GroupParts& parts);

  // This rank's entries, on its board. Null: the places where it could be are taken.
  static BoardEntry* enter(ArenaHead& mine, const GroupParts& parts, const Entered& as);
  static BoardEntry* refuse(ArenaHead& mine, const GroupParts& parts, ErrorCode why);  // it has no lane, and those who wait for it give up
  static BoardEntry& give_up(ArenaHead& mine, const GroupParts& parts, const Status& why);
  static bool is_same(const BoardEntry& entry, const GroupParts& parts);  // its owner means just this group
  // Of a try in vain: whether somebody may still know of its lane. One that enters its own later finds that we gave up, or nothing, and goes on to a later time.
  struct Others {
    std::function<bool(size_t member)> is_lost;
    std::function<bool(size_t member)> has_left;  // it has said that it will not touch the lane again
  };
  static bool may_be_known(const BoardEntry& mine, const GroupParts& parts, const Others& others);
  // The entry of the last try stays, without a lane, so that who is behind learns how far we are. True: it is gone.
  bool forget(BoardEntry& mine, const GroupParts& parts, bool had_lane) const;

  // The others'.
  static bool find(Search& search);  // whether all have come
  Status examine(Search& search);    // why they will not; ok while they may
  static Status check(GroupParts& parts);  // whether those who came are still there and mean the same group
  static bool has_given_up(const Neighbour& member, const BoardKey& key);

  // What a rank on another host tells of an entry of its board, and how it comes to be told.
  static ToldEntry told(const ArenaHead& mine, const BoardEntry& entry);
  void hear(const Neighbour& from, const ToldEntry& told, std::vector<int> members);

  // Names of groups without one: all members make the same. A group that was not made gives its number back; the name of one that was made does not
  // come again, so how often it was made need not be remembered.
  std::string numbered_name(const std::vector<int>& ranks);
  void end_of_name(const std::string& name, const std::vector<int>& ranks, bool was_made);

 private:
  static int latest_time(const GroupParts& parts, int at_least);
  Status conflict(GroupParts& parts, size_t member);
  std::vector<int> members_of(const Neighbour& neighbour, const BoardEntry& entry, uint64_t key) const;

  mutable std::mutex mutex_;  // guards what follows
  std::map<std::pair<std::string, std::vector<int>>, int> times_made_;  // how often these members made this name
  std::map<std::pair<int, uint64_t>, std::vector<int>> told_members_;   // of the entries on the boards of ranks on other hosts
};

}  // namespace unisono
