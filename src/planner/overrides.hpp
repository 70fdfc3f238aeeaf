// What a user may decide instead of the table: UNISONO_PLAN="all_reduce:0-64K=ring,broadcast=direct". Sizes are
// inclusive and count what one rank shows to the others (query.hpp); either end may be left out. The first that fits
// wins.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/catalogue.hpp"
#include "unisono/status.hpp"

namespace unisono {

struct Override {
  Collective collective = Collective::all_reduce;
  int64_t from_bytes = 0;
  int64_t up_to_bytes = unlimited;
  const Algorithm* algorithm = nullptr;
  std::string text;  // as it was written
};

// Read once and given to the planner of every group; a value.
struct PlannerRules {
  std::vector<Override> overrides = {};
  int64_t tile_bytes = 0;  // of one slot, as far as the lane has room; 0 leaves it to the planner

  // An InitError quotes the part that cannot be read and says what could stand there.
  static Result<PlannerRules> parse(std::string_view setting, int64_t tile_bytes = 0);
};

}  // namespace unisono
