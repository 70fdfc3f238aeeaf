// Layouts of hosts, as tests write them.
#pragma once

#include <initializer_list>
#include <numeric>
#include <vector>

#include "base/hosts.hpp"

namespace unisono::testing {

// Every rank on a host of its own: nothing but links.
inline Hosts apart(int ranks) {
  std::vector<int> host_of(static_cast<size_t>(ranks));
  std::iota(host_of.begin(), host_of.end(), 0);
  return Hosts(host_of);
}

// So many ranks on each host, one after the other.
inline Hosts in_a_row(std::initializer_list<int> counts) {
  std::vector<int> host_of;
  int host = 0;
  for (int count : counts) host_of.insert(host_of.end(), static_cast<size_t>(count), host++);
  return Hosts(host_of);
}

}  // namespace unisono::testing
