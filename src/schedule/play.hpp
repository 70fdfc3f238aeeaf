// Plays the schedules of all ranks with symbolic contents, the way the engine does: several tiles in flight on each
// rank, slot sets used in turn, one call after the other. Used by verify.cpp; play_steps.cpp performs the steps.
//
// A rank has `window` strands; strand t mod window plays tile t, and 2·window slot sets take turns. What orders two
// events is exactly this:
//   - a strand does one thing after the other, and tile t + window starts after tile t has ended on this rank;
//   - tile t + 1 performs step i after tile t has performed step i on this rank;
//   - a call starts on a rank when that rank has finished the one before;
//   - an await follows the publication of the same tile, a receive follows its send;
//   - the messages from one rank to another lie in one queue, in the order in which their sender came to them, over all tiles and
//     calls; a receive takes the one it is for and sets aside those before it, of at most 2·window tiles from the receiver's
//     oldest on; or, without `sets_aside`, takes only the first;
//   - with `announced`, a call returns, writes output, and sends, only when everybody on this rank's host has entered it; of the
//     ranks on other hosts it knows what their messages say.
// None of these depends on who happens to be faster: nothing that can happen is ever taken back, so one interleaving
// finds a deadlock if any does, and two events that nothing orders are found in whichever order they are played.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/chunks.hpp"
#include "schedule/messages.hpp"
#include "schedule/play_clocks.hpp"
#include "schedule/play_memory.hpp"
#include "schedule/schedule.hpp"
#include "unisono/status.hpp"

namespace unisono {

class Player {
 public:
  Player(std::span<const CallSet> calls, const PlayOptions& options);

  Status play();  // InternalError at the first broken promise

 private:
  struct Strand {
    int rank = 0;
    int tile = 0;  // counted through all calls
    int step = 0;
    int open_sends = 0;
    bool running = false;
  };
  struct Posted {  // a message of one tile
    bool posted = false;
    int source = -1;  // the location it holds until it is taken; -1: it carries nothing
    Fingerprint content;
  };

  struct Queued {
    size_t message = 0;  // an index into posted_
    int tile = 0;
    bool taken = false;
  };

  // Tiles and calls: play.cpp.
  Status advance(int strand, bool& moved);
  Status start_tile(int strand, bool& moved);
  Status finish_tile(int strand);
  Status end_call(int rank, bool& moved);
  void join_strands(int rank);
  void learn_entries(int strand);
  bool gate_open(int rank, int call) const {
    return !options_.announced || entered_[static_cast<size_t>(call * hosts_.count() + hosts_.of(rank))] == ranks_beside(rank);
  }
  int ranks_beside(int rank) const { return hosts_.one() ? ranks_ : static_cast<int>(hosts_.ranks_on(hosts_.of(rank)).size()); }
  Status deadlock() const;

  // What they leave: play_promises.cpp.
  Status check_outputs(int strand);
  Status check_output(int strand, int chunk);
  Status check_sum(int strand, ChunkRef output, const Origin& origin);
  Status check_reads_done(int rank);
  Status check_everybody_came(int strand);
  Fingerprint wanted_sum(int tile, const Origin& origin);
  std::string wrong_sum(int tile, int chunk, uint64_t excess) const;

  // Steps: play_steps.cpp.
  bool ready(const Strand& strand) const;
  bool published(const Strand& strand, int peer, int flag) const;
  Status perform(int strand);
  void learn_elders(int strand, uint32_t epoch_offset);
  void publish(int strand, int flag);
  void await(int strand, const Step& step);
  void send(int strand, const Step& step);
  std::span<uint32_t> message_knowledge(size_t message);
  bool within_reach(const Strand& strand, const Step& step) const;
  Status check_what_is_set_aside(int strand, const Step& step) const;
  std::vector<Queued>& queue(int from, int to) { return queues_[static_cast<size_t>(from * ranks_ + to)]; }
  const std::vector<Queued>& queue(int from, int to) const { return queues_[static_cast<size_t>(from * ranks_ + to)]; }
  Status copy(int strand, const Step& step);
  Status take(int strand, const Step& step);
  Status reduce(int strand, const Step& step);
  Status read_peer(int strand, const Step& step);
  Status reduce_peers(int strand, const Step& step);
  Status scale(int strand, Fingerprint& content, ChunkRef where) const;
  Status check_parts(int strand, std::span<const Fingerprint> operands) const;
  Status add_to_target(int strand, const Step& step, const Fingerprint& addend);
  Status read(int strand, ChunkRef chunk, Fingerprint& content);
  Status read_remote(int strand, int peer, ChunkRef chunk, Fingerprint& content);
  Status write(int strand, ChunkRef chunk, const Fingerprint& content);
  bool carries_partials(int strand) const { return options_.widened && schedule_of(strands_[strand]).partials; }
  bool is_wide(int strand, ChunkRef chunk) const { return options_.widened && holds_partials(schedule_of(strands_[strand]), chunk); }
  Status check_unread(int strand, ChunkRef chunk, int location) const;

  int call_of(int tile) const { return tile / options_.tiles; }
  int strand_of(int rank, int tile) const { return rank * options_.window + tile % options_.window; }
  const Schedule& schedule_of(int rank, int tile) const { return calls_[call_of(tile)].ranks[rank]; }
  const Schedule& schedule_of(const Strand& strand) const { return schedule_of(strand.rank, strand.tile); }
  size_t cell(int rank, int tile) const { return static_cast<size_t>(rank) * total_tiles_ + tile; }
  std::span<uint32_t> flag_knowledge(int rank, int flag, int tile);
  size_t message_of(const Strand& strand) const;  // an index into posted_
  Fingerprint contribution(int tile, int rank, int chunk) const;
  Status fail(int strand, const std::string& reason) const;

  std::span<const CallSet> calls_;
  PlayOptions options_;
  int ranks_, total_tiles_;
  Hosts hosts_;
  Memory memory_;
  Clocks clocks_;
  bool tracks_order_;  // somebody reads a peer's memory, or it is a barrier: clocks are worth keeping

  std::vector<Strand> strands_;
  std::vector<int> call_of_rank_, tiles_finished_;  // per rank
  std::vector<int> entered_;                        // per call and host: ranks that have entered
  std::vector<uint32_t> entry_knowledge_;           // per call and rank: what it knew when it entered
  std::vector<int> steps_done_;                     // per rank and tile; one more when the tile has ended
  std::vector<uint32_t> start_epochs_;              // per rank and tile; step i happens at start + 1 + i
  std::vector<uint8_t> flags_published_;            // per rank, flag and tile
  std::vector<uint32_t> flag_knowledge_;            // per rank, flag and tile: what a publication passes on
  std::vector<Posted> posted_;                      // per tile and message
  std::vector<uint32_t> message_knowledge_;         // likewise, what it passes on
  std::vector<std::vector<Queued>> queues_;         // per sender and receiver: what was not taken, and what was behind such
  size_t messages_per_tile_ = 0;
  int sums_per_tile_ = 0;
  std::vector<Fingerprint> wanted_;     // per tile and chunk: the sum of everyone that outputs must hold
  std::vector<uint64_t> agreed_trees_;  // likewise, the order that the first rank found
  std::vector<Fingerprint> operands_;   // working space of reduce_peers
};

}  // namespace unisono
