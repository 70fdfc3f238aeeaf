// What lies in shared memory: the head of an arena and, for every group, a lane in each member's arena.
//
// Who writes, who reads:
//   progress line   the owner writes its announcement words and flags; every member polls them.
//   owner line      the owner writes; members read it when they first need tiles, or when something went wrong.
//   trouble line    members write, by compare-and-swap or plain store; the owner polls it while it waits.
//   group lines     used in the first member's lane only; all members write, by compare-and-swap.
//   records         the owner writes: see shared_record.hpp.
//   cells, slots    the owner writes entry (call % ring) before it stores that call's word with release; members read it
//                   after they loaded that word with acquire. An entry is written again only ring calls later, and a
//                   rank announces call k only when every member has announced k - ring + 1, which a member does only
//                   after it has left call k - ring: so nobody still reads what is overwritten.
//   bell            whoever publishes adds one and wakes, but only if it sees a sleeper (see wake_peers in lanes.cpp).
// Order: words and flags are stored with release after the bytes they speak of and loaded with acquire before them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/hosts.hpp"
#include "base/sizes.hpp"
#include "transport/note.hpp"

namespace unisono {

inline constexpr int lane_flags = 4;
inline constexpr int max_ring = 16;              // calls whose announcements are kept; 2 unless a group runs ahead
inline constexpr int most_run_ahead = 10;        // calls that a rank may be ahead of the others
inline constexpr int64_t line_bytes = 128;       // two cache lines, since the second is fetched along with the first
inline constexpr int64_t inline_bytes = 120;     // payload that travels beside the word
inline constexpr int64_t staged_bytes = 8192;    // payload of a slot
inline constexpr int64_t cell_bytes = 256;       // room for one announcement
inline constexpr int64_t cause_bytes = 768;      // room for the text of a group's first fault

static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

// A call number and the hash of its signature in one word: one comparison sees whether a peer made the same call.
constexpr uint64_t make_word(uint32_t call, uint32_t hash) { return static_cast<uint64_t>(call) << 32 | hash; }
constexpr uint32_t call_of(uint64_t word) { return static_cast<uint32_t>(word >> 32); }
// Call numbers wrap; what matters is which of two that are close together is the later one. What was written long ago is
// therefore marked anew before it could seem to lie ahead: see Lanes::renew.
constexpr bool at_least(uint32_t call, uint32_t wanted) { return static_cast<int32_t>(call - wanted) >= 0; }
constexpr bool at_least(uint64_t count, uint64_t wanted) { return static_cast<int64_t>(count - wanted) >= 0; }

struct alignas(line_bytes) Slot {
  std::atomic<uint64_t> word;
  std::byte inline_payload[inline_bytes];
  std::byte staged[staged_bytes];
  std::byte result[staged_bytes];  // where the last arriver leaves what it combined
};

struct Cell {
  std::byte bytes[cell_bytes];
};

// Which of a call's buffers peers may read where they lie, because they lie in the owner's arena: their place + 1, or 0. Of a
// buffer in several places the word says which of the owner's spans are it; those lie behind its tiles and are written and
// read as cells are.
struct Shown {
  std::atomic<uint64_t> input, output;
};
struct ShownSpan {
  uint64_t place;
  int64_t bytes;
};
inline constexpr int most_shown_spans = 2048;  // of one call; what lies in more places is staged
inline constexpr int64_t shown_spans_bytes = most_shown_spans * static_cast<int64_t>(sizeof(ShownSpan));

struct LaneControl {
  // progress line
  alignas(line_bytes) std::atomic<uint64_t> flags[lane_flags];  // call << 32 | tiles published
  std::atomic<uint64_t> words[max_ring];
  // owner line
  alignas(line_bytes) std::atomic<uint32_t> finished;  // the last call that the owner has left
  std::atomic<uint64_t> tiles;                         // where the owner's tiles begin in its arena; 0 before they exist
  std::atomic<uint64_t> input_address, output_address; // of the call at hand, for peers that read private memory
  Shown shown[max_ring];                               // written before the word of the call, like a cell
  std::atomic<uint32_t> leaving;                       // 1: the owner gives up what it has not finished, and its memory is its own again
  std::atomic<uint32_t> taken;                         // the last call in which the owner has read all that it needs of others
  std::atomic<uint64_t> votes[4];                      // the owner's: see group/ballot.hpp
  // trouble line
  alignas(line_bytes) std::atomic<uint64_t> abort;  // 0, or the first fault of the group: a copy of `fault` below
  // group lines
  alignas(line_bytes) std::atomic<uint64_t> verdicts[max_ring];  // call << 32 | one member << 16 | the other
  alignas(line_bytes) std::atomic<uint64_t> arrivals; // call << 32 | how many have arrived
  alignas(line_bytes) std::atomic<uint64_t> result;   // call << 32 | the member that combined
  std::atomic<uint64_t> record;                       // which member's place holds the host's record: see shared_record.hpp
  std::atomic<uint64_t> fault;                        // 0, or the first fault: code << 56 | reporting member << 32 | the rank to blame
  std::atomic<uint32_t> released;                     // changes whenever those who sleep on it are to look again
  // text of the first fault that the owner reported
  alignas(line_bytes) char cause[cause_bytes];
};

// What a ring between two members is for: the steps of schedules, or letters from one to the other.
enum class LinkUse : uint8_t { steps, letters };
inline constexpr int link_uses = 2;

// Where the parts of a lane lie, given how many members and calls it serves.
struct LaneLayout {
  int members = 1;
  int ring = 2;  // a power of two, so that the place of a call is right also where numbers wrap

  static constexpr int64_t ranks_at() { return static_cast<int64_t>(sizeof(LaneControl)); }  // of the members, in the world
  int64_t cells_at() const { return round_up(ranks_at() + members * static_cast<int64_t>(sizeof(int32_t)), line_bytes); }
  int64_t slots_at() const { return cells_at() + ring * cell_bytes; }
  int64_t links_at() const { return slots_at() + ring * static_cast<int64_t>(sizeof(Slot)); }
  int64_t left_at() const { return links_at() + link_uses * members * static_cast<int64_t>(sizeof(uint64_t)); }
  int64_t records_at() const { return round_up(left_at() + members * static_cast<int64_t>(sizeof(uint32_t)), static_cast<int64_t>(sizeof(uint64_t))); }
  int64_t record_words() const { return 11 + 5 * ((members + 63) / 64); }  // two places of so many, see shared_record.hpp
  int64_t bytes() const { return records_at() + 2 * record_words() * static_cast<int64_t>(sizeof(uint64_t)); }
};

// What a lane says of each other member; anything but still_here means that it will not touch the lane again.
enum Membership : uint32_t { still_here, has_left, has_died };

inline constexpr int board_entries = 8192;
inline constexpr int silent_host_words = (most_ranks + 1) / 64;
inline constexpr uint64_t arena_magic = 0x31306f6e6f73696e;

// How a group is found: see group/making.hpp. Key 0 is a free entry.
struct BoardEntry {
  std::atomic<uint64_t> key;      // of the name, the members and which time they make it
  std::atomic<uint64_t> name;     // hash of the name alone
  std::atomic<uint64_t> lane;     // where the owner's lane lies in its arena
  std::atomic<uint64_t> members;  // hash of the members and of what they agree on, and how many
  std::atomic<uint64_t> making;   // which time << 24 | the rank that the owner gave up on, plus 1, << 8 | whether it stages << 7 | with which ErrorCode
};

struct ArenaHead {
  // Written once, before the arena is shown to anybody.
  uint64_t magic;
  uint64_t probe;  // a number of the owner's choice, by which a neighbour knows that it mapped the right memory
  uint64_t own_address;         // where the owner has mapped this arena
  uint64_t private_address;     // where in its own memory the owner keeps a copy of `probe`, for neighbours to try to read
  uint32_t cores;               // what the owner may use: 0 when only the mask below limits it
  uint64_t core_mask[16];       // its affinity
  alignas(line_bytes) std::atomic<uint32_t> bell;
  std::atomic<uint32_t> sleepers;
  alignas(line_bytes) std::atomic<uint32_t> goodbye;  // 0, or how the owner left: see Goodbye
  std::atomic<int64_t> taking;  // bytes that the owner is about to take, while it does: see Arena::fill
  alignas(line_bytes) std::atomic<int64_t> beat_ns;  // when the owner's control thread last looked around; it does so every second
  std::atomic<uint64_t> silent_hosts[silent_host_words];  // a bit for each host that the owner knows to be silent
  alignas(line_bytes) Note waiting;  // in which call the owner has been waiting for a while, or gave up; empty: in none
  alignas(line_bytes) Note last_words;  // why the owner's process is about to end, as far as it could say so
  alignas(line_bytes) BoardEntry board[board_entries];
};

// How a process ended its membership, as far as it could still say so.
enum class Goodbye : uint32_t { none = 0, left = 1, exiting = 2 };  // exiting: | exit status << 8

}  // namespace unisono
