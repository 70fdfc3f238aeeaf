// Joining where a launcher started ranks on several machines: the place where they meet. See launch.hpp.
#pragma once

#include <memory>

#include "group/world.hpp"
#include "rendezvous/launchers.hpp"

namespace unisono {

// Ranks that may be on several machines meet through a store, which rank 0 serves for as long as the world lives: whoever comes later hears there that it runs
// already. The others of its machine, and of every other, leave the talking to their agent. Whether rank 0 has joined or not, the others should hear of it from
// each other, and not by a store that is gone.
Result<std::shared_ptr<World>> join_through_machines(const LaunchInfo& info, WorldOptions options);

}  // namespace unisono
