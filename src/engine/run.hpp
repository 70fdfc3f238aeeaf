// A Schedule at work on real buffers.
//
// Long chunks are cut into tiles and the whole schedule is performed once per tile, with up to `window` tiles in flight:
//
//   tile t   uses the slot set (base + t) % slot_sets of every lane
//   tile t   starts only when this rank has finished tile t - window
//   tile t   performs step i only when tile t - 1 has performed it, so flags are published in order
//
// With twice as many slot sets as tiles in flight no acknowledgement is needed (schedule/verify.cpp proves it for every
// algorithm). `base` counts the tiles of all calls that passed the gate, which is the same number on all ranks.
//
// The gate: no step writes output, and no byte enters a link, before this rank has seen that everybody on its host made the same call.
// What comes from other hosts carries the call's word, and is believed only with the right one.
#pragma once

#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/call.hpp"
#include "engine/frames.hpp"
#include "schedule/schedule.hpp"
#include "transport/lanes.hpp"
#include "transport/router.hpp"
#include "transport/waiting.hpp"

namespace unisono {

inline constexpr int max_window = slot_sets / 2;

// What the planner decided for one call, as the engine needs it.
struct Assignment {
  const Schedule* schedule = nullptr;
  int64_t tile_bytes = 0;
  int window = 1;
};

// What a rank publishes for peers that read its own memory: where a buffer begins, or, marked, its list of parts.
inline constexpr uint64_t list_mark = uint64_t{1} << 63;
inline uint64_t address_of(const Pieces& pieces) {
  if (!pieces.is_list()) return reinterpret_cast<uint64_t>(pieces.whole().data);
  return reinterpret_cast<uint64_t>(pieces.spans()) | list_mark;
}

class Run {
 public:
  Run(Lanes& lanes, Router& router, Arena& arena) : lanes_(lanes), router_(router), arena_(arena) {}

  Status prepare(const Call& call, const Assignment& assignment);  // before announcing: takes what memory it needs
  void start(uint64_t word, uint64_t base_tile, uint64_t signature = 0);  // of the call, beyond the word: for frames between hosts
  Turn turn();
  int64_t tiles() const { return tiles_; }
  // Before the call's word: where in this rank's arena, or in its own memory, peers find its buffers. See run_shown.cpp
  void show(uint32_t call, bool peers_read) const;
  int64_t stage_bytes() const { return lanes_.set_bytes(); }
  void drop_stage() { lanes_.drop_tiles(arena_); }            // while nobody is in a call: its memory; it comes again when it is needed
  void give_stage_back() { lanes_.give_tiles_back(arena_); }  // for good
  void drop_private_memory();     // between calls: it comes again when it is needed
  int64_t private_bytes() const;  // so much of it there is
  void abandon();  // after start(): the call is given up, and with it the group
  const Status& failure() const { return failure_; }
  uint64_t moves() const { return moves_; }  // turns in which something moved, ever
  struct OtherCall {
    int member = -1;    // -1: none was met
    uint64_t word = 0;  // of the frame: this call's own where its sender has made other calls before
  };
  const OtherCall& met_other_call() const { return other_call_; }  // what a member on another host sent where this call's frame was awaited
  std::string how_far() const;  // what is on its way to and from other hosts, for who waits long; empty: nothing
  int unreadable() const { return unreadable_; }  // the peer whose memory could not be read because the kernel refused it, or -1

 private:
  struct PendingSend {
    int peer;
    uint64_t number;  // of its last frame in the channel
    Stretch data;
  };
  // A long copy, done in parts while nothing comes. Until it is over, steps that would read or write what it writes wait, and so do those
  // that would write what it reads.
  struct PendingCopy {
    Stretch target, source;
    int64_t done = 0;
  };
  // A frame of another tile than the one whose step was looked for, set aside until its turn.
  struct EarlyFrame {
    uint32_t tile;
    std::vector<std::byte> bytes;
  };
  struct Arrival {  // from one peer
    enum class Part : uint8_t { none, head, body };

    Part part = Part::none;
    LinkFrame frame;
    int64_t left = 0;   // of its bytes
    int64_t piece = 0;  // that is being received; 0: none
    bool aside = false;  // into the last of `early`
    std::deque<EarlyFrame> early;
  };
  struct Receipt {  // of the receive that a tile is in
    bool begun = false;
    int64_t bytes = 0;
  };

  int64_t chunk_bytes(ChunkRef ref) const;  // in the call's dtype
  void choose_what_to_show();
  uint64_t showable(const Pieces& pieces);
  bool is_shown(const Step& step) const;
  bool shows_anything() const { return (shown_input_ | shown_output_) != 0; }
  Stretch source_at(const Step& step, int peer, int64_t tile);
  const Layout& list_shown_by(int peer, Buffer buffer, uint64_t shown);
  bool somebody_shows() const;
  bool everybody_has_taken();
  Stretch place(ChunkRef ref, int64_t tile) const;  // an operand: where it lies and how long it is in this tile
  Stretch place_in_private(ChunkRef ref, int64_t tile, int64_t bytes) const;
  std::span<Stretch> operands_of(const Step& step, const Stretch& own, int64_t tile);
  std::byte* stage_of(int member, int slot, int64_t tile) const;
  int64_t offset_at(ChunkRef chunk, int peer, int64_t length) const;
  uint64_t peer_address(const Step& step, int peer, int64_t length);
  bool pass_gate();
  bool turn_tile(int64_t tile);
  bool perform(const Step& step, int64_t tile);
  bool await_flags(const Step& step, int64_t tile);
  void publish(int flag, int64_t tile);
  bool read_peer(const Step& step, int64_t tile);
  bool read_private(int peer, std::byte* target, uint64_t address, int64_t bytes);
  bool reduce_peers(const Step& step, int64_t tile);
  bool reduce_private_memory(const Step& step, int64_t tile);
  void send(const Step& step, int64_t tile);
  bool receive(const Step& step, int64_t tile);
  bool receive_some(const Step& step, int64_t tile, const Stretch& target);
  bool take_early(const Step& step, int64_t tile, const Stretch& target);
  bool take_head(const Step& step, int64_t tile, const Stretch& target);
  bool set_aside(const Step& step);
  bool may_set_aside(const Arrival& from, const Step& step);
  bool fits(const Step& step, int64_t bytes, const Stretch& target, int64_t received);
  void put(const Step& step, Stretch target, const std::byte* data, int64_t bytes);
  bool gathers_whole_chunks(const Step& step) const;
  void add_received(const Step& step, std::byte* at, const std::byte* data, int64_t bytes);
  void prepare_links(int64_t longest);
  bool progress_sends();
  bool is_held(const Step& step, int64_t tile);
  bool waits_for_send(const Step& step, int64_t tile) const;
  bool waits_for_copy(const Step& step, int64_t tile) const;
  bool can_be_deferred(const Step& step, const Stretch& target, const Stretch& source) const;
  void copy_some();
  void copy(const Step& step, int64_t tile);
  // Partials that are wider than the dtype: run_partials.cpp.
  bool is_partial(ChunkRef ref) const { return widened_ > 1 && holds_partials(*assignment_.schedule, ref); }
  bool is_private(ChunkRef ref) const {
    return ref.buffer == Buffer::scratch || ref.buffer == Buffer::gathered || (ref.buffer == Buffer::partial && widened_ > 1);
  }
  Reduction reduction_at(ChunkRef ref) const;  // of what lies there
  void prepare_partials();
  void convert(const Step& step, const Stretch& narrow_side, const Stretch& wide);
  void combine_to_partial(const Step& step, const Stretch& target, std::span<Stretch> operands);
  bool fused_with_next(const Step& step, int64_t tile) const;
  const Step& step_at(int64_t index) const { return assignment_.schedule->steps[static_cast<size_t>(index)]; }
  int64_t& done_steps(int64_t tile) { return done_steps_[tile % max_window]; }

  Lanes& lanes_;
  Router& router_;
  Arena& arena_;
  const Call* call_ = nullptr;
  Assignment assignment_;
  uint64_t word_ = 0, signature_ = 0;
  uint64_t base_tile_ = 0;
  int64_t tiles_ = 1;
  int64_t slot_bytes_ = 0;
  int64_t oldest_ = 0;      // the first tile that is not finished
  bool uses_links_ = false;
  int64_t widened_ = 1;  // how many times as long a partial is as what it was made of
  uint64_t shown_input_ = 0, shown_output_ = 0;  // as peers see them; 0: staged
  std::vector<ShownSpan> shown_spans_;           // of those that are lists
  std::vector<Layout> lists_;                    // by peer, input and output: what it shows, as this rank sees it; empty: not read
  bool taken_ = false;        // this rank has said that it needs nothing more of the others' buffers
  bool reads_peers_ = false;  // private memory of peers, not only their stage
  size_t gate_next_ = 0;  // among the mates
  OtherCall other_call_;
  uint64_t moves_ = 0;
  Receipt receipts_[max_window];
  std::vector<Arrival> arrivals_;  // by peer
  int64_t done_steps_[max_window] = {};
  std::vector<PendingSend> sends_;
  std::vector<PendingCopy> copies_;
  uint64_t pending_version_ = 0;  // changes whenever they do
  bool link_moved_ = false;       // something came in this turn, though no step may be over
  // Whether the step that a tile is in has to wait for a send or a copy, as last found: of long lists that takes long to find out, and a
  // step is tried again and again.
  struct Held {
    int64_t tile = -1, step = 0;
    uint64_t version = 0;
    bool held = false;
  };
  Held held_[max_window];
  int64_t private_bytes_ = 0;       // of one chunk of scratch, of what is gathered, or of partials, in all tiles in flight
  int64_t private_tile_bytes_ = 0;  // in one
  std::vector<std::byte> scratch_, landing_, receipt_;
  std::vector<std::byte> link_landing_;  // of what is added up: a part for each tile in flight
  std::vector<const void*> sources_;
  std::vector<Stretch> stretches_;      // by peer: what is left to be combined
  std::vector<const std::byte*> read_;  // by peer: where what was read of its memory lies
  Status failure_;
  int unreadable_ = -1;
};

}  // namespace unisono
