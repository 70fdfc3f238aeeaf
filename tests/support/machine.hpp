// Everybody's memory in one process, for tests that turn the engine by hand.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "transport/lanes.hpp"

namespace unisono::testing {

struct Machine {
  LaneLayout layout;
  std::vector<std::unique_ptr<Arena>> arenas;
  std::vector<int64_t> offsets;

  explicit Machine(int ranks) : layout{ranks, 2} {
    for (int rank = 0; rank < ranks; ++rank) {
      auto arena = Arena::create(16_MiB);
      EXPECT_TRUE(arena.ok() && (*arena)->take(sizeof(ArenaHead), "a head").ok());
      arenas.push_back(std::move(*arena));
      offsets.push_back(*arenas.back()->take(layout.bytes(), "a lane"));
    }
  }
  std::vector<Neighbour> neighbours() const {
    std::vector<Neighbour> all;
    for (const auto& arena : arenas) all.push_back({static_cast<int>(all.size()), 0, arena->mapping()});
    return all;
  }
};

}  // namespace unisono::testing
