// What ranks on different hosts tell each other beside the data of calls and letters; a value. It travels between machines as it lies here:
// docs/wire_format.md has every byte.
//
// Within a host such things are written where the others look: entries on boards, words in lanes. To a rank on another host they are
// told, and it writes them down in its mirror of the teller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "group/announcement.hpp"
#include "transport/channel.hpp"
#include "transport/lane.hpp"

namespace unisono {

// What stands in front of every notice on its way.
struct NoticeHead {
  enum class Kind : uint8_t {
    entry,      // of the teller's board: ToldEntry, and the members
    announced,  // which call the teller is in: ToldCall, and what else it is doing
    fault,      // the group is broken: the text of it
    left,       // the teller has left the group
    ended,      // a member on the teller's host has ended, and how far it had come
    lost,       // a rank on the teller's host has ended: how
    goodbye,    // the teller leaves the world: how
    silent,     // the host of that rank is, as the teller has seen
    last_words,  // why the teller's process is about to end
    ballots,    // of the teller's host: its record as 64-bit words (ballot.hpp), then four words of votes for each of its members
    heard,      // how many notices the teller has heard of the one who is told, this kind not counted; remotes.cpp alone deals with it
  };
  static constexpr int kinds = 11;

  Kind kind = Kind::entry;
  uint8_t asks = 0;       // announced, ballots: the same of the one who is told is wanted
  uint16_t code = 0;      // fault: the ErrorCode
  int32_t rank = -1;      // fault: who is to blame; lost, ended, silent: who; announced: the member it is about, if not the teller
  uint64_t group = 0;     // the key of its board entry; 0: the world. heard: the count
  uint32_t finished = 0;  // announced, left, ended: its last finished call
  uint32_t bytes = 0;     // that follow
};
static_assert(sizeof(NoticeHead) == 24 && sizeof(NoticeHead) <= Channel::most_head_bytes);
static_assert(offsetof(NoticeHead, asks) == 1 && offsetof(NoticeHead, code) == 2 && offsetof(NoticeHead, rank) == 4 && offsetof(NoticeHead, group) == 8 &&
              offsetof(NoticeHead, finished) == 16 && offsetof(NoticeHead, bytes) == 20);

inline constexpr size_t most_notice_text_bytes = 4096;
inline constexpr size_t most_told_members = 65535;  // of one group

struct ToldEntry {
  uint64_t index = 0;  // on the board
  uint64_t key = 0, name = 0, lane = 0, members = 0, making = 0;  // as in BoardEntry; the members follow as 32-bit numbers
};
static_assert(sizeof(ToldEntry) == 48 && offsetof(ToldEntry, making) == 40 && sizeof(int) == 4);

struct ToldCall {
  uint64_t word = 0;  // 0: the teller is not in the call that it was asked about, or speaks of none
  Announcement announcement;
};
static_assert(sizeof(ToldCall) == 8 + cell_bytes && offsetof(ToldCall, announcement) == 8);

struct Notice {
  NoticeHead head;
  std::vector<std::byte> body;

  void add(const void* data, size_t bytes) {
    const auto* from = static_cast<const std::byte*>(data);
    body.insert(body.end(), from, from + bytes);
  }
  void add_text(std::string_view text) {
    text = text.substr(0, most_notice_text_bytes);
    add(text.data(), text.size());
  }
  std::string_view text() const { return {reinterpret_cast<const char*>(body.data()), body.size()}; }
  // What stands at the beginning of the body; false where that is too short.
  template <typename Value>
  bool read(Value& value) const {
    if (body.size() < sizeof(value)) return false;
    std::memcpy(static_cast<void*>(&value), body.data(), sizeof(value));
    return true;
  }
};

// Whether who waits tells it again and again, and may ask for the same: the last is as good as all.
constexpr bool is_repeated(NoticeHead::Kind kind) { return kind == NoticeHead::Kind::announced || kind == NoticeHead::Kind::ballots; }

// Another process wrote these bytes, and says how many follow. ProtocolError that says what cannot be: of the head before anything is made for the
// rest, then of all of it, for a world of so many ranks.
Status check_head(const NoticeHead& head);
Status check_notice(const Notice& notice, int ranks);

}  // namespace unisono
