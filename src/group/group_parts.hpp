// What a group is made of. How its members find each other: making.hpp.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/hosts.hpp"
#include "transport/lanes.hpp"

namespace unisono {

class World;

// How a group is found on the boards of its members: see making.hpp.
struct BoardKey {
  uint64_t name = 0;  // hash of the name: where to look
  uint64_t key = 0;   // of the name, the members and which time it is
};
BoardKey board_key(const std::string& name, const std::vector<int>& ranks, int time);
BoardEntry* find_entry(ArenaHead& head, const BoardKey& wanted);  // null: there is none
inline ErrorCode gave_up_with(uint64_t making) { return static_cast<ErrorCode>(making & 0x7f); }  // of an entry; ok: its owner did not

// Everything a group is made of, once its members have found each other.
struct GroupParts {
  std::shared_ptr<World> world;
  std::string name;
  std::vector<int> ranks;  // world ranks, by member index
  int me = 0;
  LaneLayout layout;       // of what each member has in shared memory
  int run_ahead = 0;
  uint32_t first_call = 1;  // its number
  Hosts hosts;  // of the members
  std::vector<Neighbour> members;
  std::vector<int64_t> places;  // of each member's lane in its arena
  BoardKey board_key;
  int time = 1;  // how often these members have made a group of this name, with this one
  int64_t my_place = 0;     // until the group is made; then it is one of places
  bool moved_on = false;    // others are at a later time: it is tried again, at that one
  double timeout_s = 0;
  bool reproducible = false;
  bool peer_reads = true;  // whether every member may read every other's own memory
  bool crowded = false;    // whether one of them shares its core
};

}  // namespace unisono
