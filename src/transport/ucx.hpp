// UCX: the engine for InfiniBand, RoCE and whatever else it drives. Loaded while the program runs, from the system or from PyPI's libucx-cu12.
//
// Its messages are neither encrypted nor checked, so it is used only where the user has said that the fabric is trusted. Its tcp transport listens for anybody and is left out, but for tests.
#pragma once

#include "transport/fabric_choice.hpp"

namespace unisono {

// InitError: it cannot be had, and what to do about it.
Status can_have_ucx(const Settings& settings);
Result<std::unique_ptr<Fabric>> open_ucx(const FabricUse& use);

}  // namespace unisono
