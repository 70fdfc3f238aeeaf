// Whether there is a fabric between hosts, and which.
#pragma once

#include <functional>
#include <memory>

#include "base/log.hpp"
#include "transport/fabric.hpp"
#include "transport/sockets.hpp"
#include "unisono/settings.hpp"

namespace unisono {

// Whether ranks on different hosts look for one: the same on all ranks. InitError: settings that contradict each other.
Result<bool> wants_fabric(const Settings& settings);

struct FabricUse {
  Settings settings;
  int ranks = 2;      // in the world
  Log log = {};
  std::function<void()> ring = [] {};  // this rank's bell
};

// Never null: where there is none to be had the user is told why, and nobody is reached by what is returned. `sockets` outlives it.
std::unique_ptr<Fabric> open_fabric(Sockets& sockets, const FabricUse& use);

}  // namespace unisono
