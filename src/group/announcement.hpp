// What a rank says of a call before it does anything else, and how two such sayings are compared and put into words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "engine/call.hpp"
#include "transport/lane.hpp"

namespace unisono {

enum class CallState : uint8_t { entered, refused };

inline constexpr int most_announced_dims = 8;
inline constexpr uint16_t many_tensors = UINT16_MAX;

// The fixed form in which an announcement lies in a lane's cell; a value.
struct Announcement {
  CallState state = CallState::entered;
  Collective kind = Collective::barrier;
  DType dtype = DType::uint8;
  ReduceKind op = ReduceKind::sum;
  int32_t root = 0;
  int64_t count = 0;
  double factor = 1.0;
  uint64_t sizes = 0;  // hash of the list's sizes, where a list was given
  uint32_t plan = 0;   // which algorithm and tiling: ranks whose settings differ would otherwise wait for each other
  int32_t dims = -1;   // -1: shapes are not compared
  Purpose purpose = Purpose::data;
  uint8_t commutative = 0;  // of a user-defined reduction
  uint16_t tensors = 1;     // in a list of tensors; many_tensors: so many or more
  uint32_t unused = 0;
  int64_t shape[most_announced_dims] = {};
  char text[cell_bytes - 112] = {};  // refused: why; a user-defined reduction: its name

  uint32_t hash() const;     // never that of a refused call
  uint64_t long_hash() const;  // as good as unique
  size_t used_bytes() const; // what follows is not written into a cell, and not compared
  bool operator==(const Announcement&) const = default;
};
static_assert(sizeof(Announcement) == cell_bytes && offsetof(Announcement, root) == 4 && offsetof(Announcement, plan) == 32 &&
              offsetof(Announcement, purpose) == 40 && offsetof(Announcement, shape) == 48 && offsetof(Announcement, text) == 112);

bool can_be(const Announcement& announcement);  // every number in it names something; its text need not be legible

bool says_the_same(const Announcement& one, const Announcement& other);
uint32_t next_hash(uint32_t hash);  // where one is taken; also never that of a refused call

Announcement announce(const Call& call, uint32_t plan);
Announcement announce_refusal(Collective kind, const std::string& why);

// "all_reduce float32[1048576] sum", as it appears in errors and logs.
std::string describe(const Announcement& announcement);

// "count: rank 0 = 10, rank 2 = 11": the first field in which two calls differ.
struct NamedAnnouncement {
  int rank;  // in the world
  const Announcement* announcement;
};
std::string difference(const NamedAnnouncement& one, const NamedAnnouncement& other);

}  // namespace unisono
