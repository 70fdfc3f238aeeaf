// Whether there is a fabric between hosts, and which.
#pragma once

#include <functional>
#include <memory>

#include "base/log.hpp"
#include "transport/fabric.hpp"
#include "unisono/settings.hpp"

namespace unisono {

// Whether ranks on different hosts look for one, the same on all ranks, and whether this one has found any: the user is told why not. InitError: settings that contradict each other.
Result<FabricHere> look_for_fabric(const Settings& settings, const Log& log);

struct FabricUse {
  Settings settings;
  int ranks = 2;      // in the world
  Log log = {};
  std::function<void()> ring = [] {};  // this rank's bell
};

// The one that was found. Never null: where it cannot be begun the user is told why, and nobody is reached by what is returned.
std::unique_ptr<Fabric> open_fabric(const FabricUse& use);

}  // namespace unisono
