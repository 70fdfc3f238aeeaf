// Which hosts a job runs on, and how many ranks on each: --hosts and --hostfile. Pure functions of text, but for reading the file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "unisono/status.hpp"

namespace unisono::tools {

struct HostShare {
  std::string name;  // as ssh is given it: a name, an address, user@name
  int ranks = 1;

  bool operator==(const HostShare&) const = default;
};

// "a:4,b:4", "ada@10.0.0.1:2,[fd00::1]:2"; without a number one rank. ArgumentError says which word is wrong, and how.
Result<std::vector<HostShare>> parse_hosts(std::string_view text);

// A host a line, as "a:4", "a 4" or "a slots=4", which is how others have it; # begins a comment.
Result<std::vector<HostShare>> parse_hostfile(std::string_view text, const std::string& path);
Result<std::vector<HostShare>> read_hostfile(const std::string& path);

// In single quotes, where a shell would see more in it than letters.
std::string for_a_shell(std::string_view text);

int ranks_of(const std::vector<HostShare>& hosts);

}  // namespace unisono::tools
