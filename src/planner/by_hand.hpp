// What the two hand-written paths do (engine/exchange.hpp), in words: they have no schedule to print.
#pragma once

#include <string>

#include "algorithms/catalogue.hpp"

namespace unisono {

std::string text_by_hand(const Algorithm& algorithm, const Place& place);  // of one rank, step by step

}  // namespace unisono
