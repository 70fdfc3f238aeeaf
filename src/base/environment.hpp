// The process's environment, read in environment.cpp and nowhere else; process_environment() is declared in unisono/settings.hpp.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace unisono {

// These two hand a secret to this process alone. process_environment() leaves them out, so that no copy of the secret lies in a
// snapshot, and no child is given the number of a descriptor that it does not have.
inline constexpr std::string_view secret_variable = "UNISONO_SECRET", secret_descriptor_variable = "UNISONO_SECRET_FD";

// Takes one of these two out of the environment: copies the value's first bytes into `value`, overwrites it where it stands, which is what
// /proc/PID/environ shows, and removes the name. Returns how long the value was, or nothing if the variable is not set. An empty
// one stays. One thread at a time; process_environment() may run meanwhile.
std::optional<size_t> take_variable(std::string_view name, std::span<char> value);

// For a library that reads the environment while it is loaded: more variables, for as long as that takes, but those that are set already. setenv() would change an array over which other
// threads walk; this puts another in its place, and the old one back. Made once for each use, and lives as long as the process: somebody may be walking over it still.
class MoreVariables {
 public:
  explicit MoreVariables(std::span<const char* const> entries);  // "NAME=value", which live as long
  void enter() const;
  void leave() const;  // unless somebody has set a variable meanwhile, who made an array of his own: then they stay

 private:
  std::vector<char*> all_;
  char** before_;
};

}  // namespace unisono
