// One member's view of a group's lanes: its own and everyone else's, by member index. Bytes and numbers only; what they
// mean is known above. Not thread-safe but where said: a group uses it under its runner token.
// Of a member on another host there is no lane to be seen, only a mirror: private memory of the same form, into which this process
// writes what that member has told it.
// Who writes which word, and in which order: lane.hpp; sleeping and waking: lanes.cpp.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transport/address.hpp"
#include "transport/arena.hpp"
#include "transport/lane.hpp"
#include "unisono/status.hpp"

namespace unisono {

// A rank, as this process sees it: one on this host by its arena, one on another by what it has told of itself.
struct Neighbour {
  int rank = 0;  // in the world
  int pid = 0;
  std::shared_ptr<Mapping> mapping;      // its arena; null: it is on another host
  Whereabouts where = {};                // it listens, if it does
  uint64_t token = 0;                    // that it asks of who connects
  std::shared_ptr<Mapping> mirror = {};  // of the head of one on another host: private memory
  std::string machine = {};              // the name of the other machine that it is on, for errors
  bool has_fabric = false;

  std::string process() const;  // "pid 12", "pid 12 on two"
  bool is_here() const { return mapping != nullptr; }
  ArenaHead& head() const { return *reinterpret_cast<ArenaHead*>((mapping ? mapping : mirror)->data()); }
};

inline constexpr int slot_sets = 8;  // sets of stage slots in a lane's tiles; at most half of them are in flight

class Lanes {
 public:
  Lanes(LaneLayout layout, int me, std::vector<Neighbour> members);
  void find(std::span<const int64_t> offsets);  // where in each member's arena its lane is: before anything else. Takes no memory.
  void start_mirrors(uint32_t last_call);       // as start_numbering() does for lanes

  int me() const { return me_; }
  const LaneLayout& layout() const { return layout_; }
  int members() const { return layout_.members; }
  int ring() const { return layout_.ring; }
  const Neighbour& member(int index) const { return members_[static_cast<size_t>(index)]; }
  std::span<const int> mates() const { return mates_; }  // the other members on this host
  bool is_here(int index) const { return member(index).is_here(); }
  bool spans_hosts() const { return static_cast<int>(mates_.size()) + 1 < layout_.members; }
  ArenaHead& my_head() const { return member(me_).head(); }

  LaneControl& control(int member) const { return *controls_[static_cast<size_t>(member)]; }
  LaneControl& mine() const { return control(me_); }
  LaneControl& shared() const { return *shared_; }  // the lane of the first member on this host holds the words of all of them
  uint32_t ring_index(uint32_t call) const { return call & (static_cast<uint32_t>(layout_.ring) - 1); }  // where in the rings a call is
  Cell& cell(int member, uint32_t call) const { return cells_[static_cast<size_t>(member)][ring_index(call)]; }
  Slot& slot(int member, uint32_t call) const { return slots_[static_cast<size_t>(member)][ring_index(call)]; }
  std::atomic<uint64_t>& word(int member, uint32_t call) const { return control(member).words[ring_index(call)]; }
  Shown& shown(int member, uint32_t call) const { return control(member).shown[ring_index(call)]; }
  std::atomic<uint64_t>& link(int member, int peer, LinkUse use) const;  // where in member's arena its ring to peer lies; 0: none yet
  std::atomic<uint32_t>& left(int member, int peer) const;  // in member's lane: peer will not touch it again
  // So many bytes in member's arena, at an offset that was read there, where others can write: ProtocolError when out of bounds.
  std::byte* at(int member, uint64_t offset, int64_t bytes, const char* what) const;
  [[noreturn]] void cannot_be(int member, const char* what) const;  // the ProtocolError
  uint64_t place_of(const void* data, int64_t bytes) const;  // in this rank's arena, + 1; 0: it lies elsewhere

  // Stage slots, and behind them the spans that a member shows. They are taken in the owner's arena on the first call that
  // needs them.
  Status ensure_tiles(Arena& arena);
  void drop_tiles(Arena& arena);
  void give_tiles_back(Arena& arena);
  int64_t set_bytes() const { return set_bytes_; }

  // Large enough that a tile of any rank count keeps 64 KiB or so in one pass, and has a line for each rank; small enough to stay in a cache.
  static int64_t set_bytes_for(int members);
  std::byte* stage(int member, uint64_t tile) const;  // the set that running tile number `tile` uses
  ShownSpan* shown_spans(int member, uint32_t call) const;

  // Before call `number`, every numbers_between_marks calls: what was last written so long ago that it would soon seem to lie ahead
  // becomes what was written a moment ago. What the call at hand, or one that others are still in, has written is left alone.
  void renew(uint32_t number) const;
  // The same for this rank's slot of the call, which peers compare for equality. After everybody has left the call before it there.
  void clear_slot(uint32_t number) const { slot(me_, number).word.store(0, std::memory_order_relaxed); }

  // After something was published: rings the bell of every member that sleeps.
  void wake_peers() const;  // on this host; frames wake the others
  void wake(int peer) const;   // the same for one member
  void wake_everyone() const;  // also those who sleep on the group's release word; any thread
  void need_fences() { fences_ = true; }

 private:
  void order_before_sleepers() const;
  int64_t tiles_bytes() const { return slot_sets * set_bytes_ + layout_.ring * shown_spans_bytes; }
  std::byte* tiles_of(int member) const;

  LaneLayout layout_;
  int me_;
  bool fences_ = false;
  bool tiles_dropped_ = false;
  int64_t my_tiles_ = 0;  // where this rank's are; what it tells the others can be written over
  int64_t set_bytes_;
  std::vector<Neighbour> members_;
  std::vector<int> mates_;
  std::vector<std::shared_ptr<Mapping>> mirrors_;  // of the lanes of members on other hosts
  LaneControl* shared_ = nullptr;
  std::vector<LaneControl*> controls_;
  std::vector<Cell*> cells_;
  std::vector<Slot*> slots_;
};

inline constexpr uint32_t numbers_between_marks = 1u << 30;

// Whether a lane can lie there, by what its owner says of it.
bool lane_fits(const Mapping& arena, uint64_t offset, const LaneLayout& layout);

// A new lane, before it is shown to anybody: the next call is the one after `last`.
void start_numbering(std::byte* lane, const LaneLayout& layout, uint32_t last);

// Rings one process's bell. Any thread, any process.
void ring_bell(ArenaHead& head);

}  // namespace unisono
