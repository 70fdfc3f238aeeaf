// The affinity mask and the cpu cgroups, version 1 and 2, every ancestor. See cores.hpp.
#include "base/cores.hpp"

#include <sched.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>

namespace unisono {
namespace {

void tighten(double& cores, double quota, double period) {
  if (quota > 0 && period > 0 && (cores == 0 || quota / period < cores)) cores = quota / period;
}

double number_in(const std::string& path) {
  std::ifstream file(path);
  double number = 0;
  file >> number;
  return number;
}

// A directory's own limit: cpu.max in version 2 ("max 100000" or "50000 100000"), two files in version 1.
void tighten_by(double& cores, const std::string& directory) {
  std::ifstream version2(directory + "/cpu.max");
  double quota = 0, period = 0;
  if (version2 >> quota >> period) tighten(cores, quota, period);
  tighten(cores, number_in(directory + "/cpu.cfs_quota_us"), number_in(directory + "/cpu.cfs_period_us"));
}

}  // namespace

CoreMask affinity() {
  CoreMask mask;
  static_assert(sizeof(cpu_set_t) == sizeof(mask.words));
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) CPU_SET(0, &set);
  std::memcpy(mask.words, &set, sizeof(set));
  return mask;
}

int count(const CoreMask& mask) {
  int cores = 0;
  for (uint64_t word : mask.words) cores += std::popcount(word);
  return cores;
}

int quota_cores(const std::string& root) {
  double cores = 0;
  std::ifstream groups(root + "proc/self/cgroup");  // lines of id:controllers:path
  for (std::string line; std::getline(groups, line);) {
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",", path = line.substr(second + 1);
    if (controllers != ",," && controllers.find(",cpu,") == std::string::npos) continue;
    for (std::string mount : {"sys/fs/cgroup", "sys/fs/cgroup/unified", "sys/fs/cgroup/cpu"})
      for (std::string group = path;; group.resize(group.find_last_of('/'))) {
        tighten_by(cores, root + mount + group);
        if (group.find('/') == std::string::npos || group == "/") break;
      }
  }
  return static_cast<int>(std::ceil(cores));
}

}  // namespace unisono
