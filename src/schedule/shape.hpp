// What can be judged without playing: that the schedules of a group belong together, and that every step names ranks,
// chunks and flags that exist and that it may touch.
#pragma once

#include <span>

#include "schedule/schedule.hpp"
#include "unisono/status.hpp"

namespace unisono {

Status check_shape(std::span<const Schedule> all_ranks);

}  // namespace unisono
