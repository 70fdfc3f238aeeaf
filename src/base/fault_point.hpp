// Places where tests may make this process die, or stop. Compiled in only with -DUNISONO_FAULT_POINTS (debug and sanitizer
// builds); the setting UNISONO_FAULT="name:hit[:rank]" kills the process at the hit-th passage of the point `name`,
// "name:hit:rank:stop" sends it SIGSTOP there.
#pragma once

#include <string_view>

namespace unisono {

// Called once, when a rank joins and before it has any thread of ours; an empty text disarms.
void arm_fault(std::string_view fault, int rank);
void fault_point(std::string_view name);

}  // namespace unisono
