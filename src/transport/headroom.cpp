// Reading /proc/meminfo and the memory cgroups, version 1 and 2, up to the root. See headroom.hpp.
#include "transport/headroom.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/sizes.hpp"

namespace unisono {
namespace {

constexpr int64_t kept_free_bytes = 16_MiB;  // what we leave to the program that called us

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

void tighten(Headroom& headroom, int64_t bytes, const std::string& by) {
  if (bytes >= headroom.bytes) return;
  headroom.bytes = std::max<int64_t>(bytes, 0);
  headroom.limited_by = by;
}

// Pages of files that were read or written count as used until the kernel needs them for something else. Shared memory is not among
// them. Version 1 has the sums over the groups below under names of their own.
int64_t reclaimable_bytes(const std::string& path) {
  std::ifstream file(path);
  int64_t own = 0, total = 0, bytes = 0;
  for (std::string key; file >> key >> bytes;) {
    if (key == "inactive_file" || key == "active_file") own += bytes;
    if (key == "total_inactive_file" || key == "total_active_file") total += bytes;
  }
  return std::max(own, total);
}

// limit - usage, where the limit file holds a number; "max" and absent files limit nothing.
void tighten_by_files(Headroom& headroom, const std::string& directory, const char* limit_name, const char* usage_name) {
  const std::string limit_path = directory + limit_name;
  std::istringstream limit_text(first_line(limit_path)), usage_text(first_line(directory + usage_name));
  int64_t limit = 0, usage = 0;
  if (!(limit_text >> limit) || !(usage_text >> usage)) return;
  if (limit > 0x7000000000000000) return;  // version 1 writes "no limit" as a huge number
  tighten(headroom, limit - std::max<int64_t>(usage - reclaimable_bytes(directory + "memory.stat"), 0), limit_path);
}

// Every ancestor of `group` counts, the root included.
void walk_up(Headroom& headroom, const std::string& mount, std::string group, const char* limit, const char* usage) {
  while (true) {
    std::string directory = mount + group + (group.empty() || group.back() != '/' ? "/" : "");
    tighten_by_files(headroom, directory, limit, usage);
    if (group.empty() || group == "/") return;
    size_t slash = group.find_last_of('/');
    group = slash == std::string::npos ? "" : group.substr(0, slash);
  }
}

}  // namespace

Headroom memory_headroom(const std::string& root) {
  Headroom headroom;
  std::ifstream meminfo(root + "proc/meminfo");
  for (std::string key, unit; meminfo >> key;) {
    int64_t kilobytes = 0;
    meminfo >> kilobytes;
    std::getline(meminfo, unit);
    if (key == "MemAvailable:") tighten(headroom, kilobytes * 1024, "MemAvailable");
  }
  std::ifstream groups(root + "proc/self/cgroup");  // lines of id:controllers:path
  for (std::string line; std::getline(groups, line);) {
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (controllers.empty()) {
      walk_up(headroom, root + "sys/fs/cgroup", path, "memory.max", "memory.current");
      walk_up(headroom, root + "sys/fs/cgroup/unified", path, "memory.max", "memory.current");
    } else if (("," + controllers + ",").find(",memory,") != std::string::npos) {
      walk_up(headroom, root + "sys/fs/cgroup/memory", path, "memory.limit_in_bytes", "memory.usage_in_bytes");
    }
  }
  return headroom;
}

Status require_headroom(int64_t bytes, const std::string& what) {
  Headroom headroom = memory_headroom();
  if (bytes + kept_free_bytes <= headroom.bytes) return Status::success();
  return {ErrorCode::memory,
          fmt::format("{} needs {}, and only {} may still be taken (limited by {}; {} stay free for the program). "
                      "Use fewer ranks or groups, a smaller UNISONO_TILE, or raise the limit",
                      what, readable_size(bytes), readable_size(headroom.bytes), headroom.limited_by,
                      readable_size(kept_free_bytes))};
}

}  // namespace unisono
