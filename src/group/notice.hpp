// What ranks on different hosts tell each other beside the data of calls and letters; a value.
//
// Within a host such things are written where the others look: entries on boards, words in lanes. To a rank on another host they are
// told, and it writes them down in its mirror of the teller.
#pragma once

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
  };

  Kind kind = Kind::entry;
  uint8_t asks = 0;       // announced: the same of the one who is told is wanted
  uint16_t code = 0;      // fault: the ErrorCode
  int32_t rank = -1;      // fault: who is to blame; lost, ended: who
  uint64_t group = 0;     // the key of its board entry; 0: the world
  uint32_t finished = 0;  // announced, left, ended: its last finished call
  uint32_t bytes = 0;     // that follow
};
static_assert(sizeof(NoticeHead) <= Channel::most_head_bytes);

struct ToldEntry {
  uint64_t index = 0;  // on the board
  uint64_t key = 0, name = 0, lane = 0, members = 0, making = 0;  // as in BoardEntry; the members follow as 32-bit numbers
};

struct ToldCall {
  uint64_t word = 0;  // 0: the teller is not in the call that it was asked about, or speaks of none
  Announcement announcement;
};

struct Notice {
  NoticeHead head;
  std::vector<std::byte> body;

  void add(const void* data, size_t bytes) {
    const auto* from = static_cast<const std::byte*>(data);
    body.insert(body.end(), from, from + bytes);
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

}  // namespace unisono
