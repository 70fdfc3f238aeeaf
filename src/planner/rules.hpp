// Which algorithm for which call: one table, first match wins; the rules of a collective stand together. What an
// algorithm needs stands in the catalogue, and a rule whose algorithm cannot work in this group is passed over. Measure
// before changing a number here.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

#include "algorithms/catalogue.hpp"
#include "unisono/types.hpp"

namespace unisono {

enum class When : uint8_t {
  always,
  roomy,    // every rank has a core
  crowded,  // more ranks than cores
};

struct Rule {
  Collective collective;
  int64_t up_to_bytes;  // of what one rank shows to the others; see query.hpp
  When when;
  int max_ranks;
  std::string_view algorithm;
  std::string_view why;
};

std::span<const Rule> all_rules();

// How a schedule is cut into tiles. One that stages nothing is performed in one piece, but for sums of 8- and 16-bit floats.
struct Tiling {
  int64_t slot_bytes;  // at most, of one slot; the slot set of a lane may hold less
  int window;          // tiles in flight
};
const Tiling& tiling_for(bool crowded, int slots);

// Of those, how much of a chunk is in a tile. Partials take private memory, which is then as long as one tile and not as the data.
// Measured over loopback sockets with 2 and 4 ranks: shorter tiles are faster on idle cores, and slower where a round has to wait for one.
inline constexpr int64_t partials_tile_bytes = 1_MiB;

}  // namespace unisono
