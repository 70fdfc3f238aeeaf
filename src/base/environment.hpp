// The process's environment, read in environment.cpp and nowhere else; process_environment() is declared in unisono/settings.hpp.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace unisono {

// These two hand a secret to this process alone. process_environment() leaves them out, so that no copy of the secret lies in a
// snapshot, and no child is given the number of a descriptor that it does not have.
inline constexpr std::string_view secret_variable = "UNISONO_SECRET", secret_descriptor_variable = "UNISONO_SECRET_FD";

// Takes one of these two out of the environment: copies the value's first bytes into `value`, overwrites it where it stands, which is what
// /proc/PID/environ shows, and removes the name. Returns how long the value was, or nothing if the variable is not set. An empty
// one stays. One thread at a time; process_environment() may run meanwhile.
std::optional<size_t> take_variable(std::string_view name, std::span<char> value);

}  // namespace unisono
