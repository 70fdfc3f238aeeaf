// Layouts of pretended hosts for any number of ranks, by name.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace unisono::testing {

inline constexpr std::string_view layout_names[] = {"alone", "halves", "uneven", "middle", "interleaved"};

// alone: 1+1+…; halves: 2+2; uneven: 3+1; middle: 1+2+1; interleaved: 0/1/0/1. "" where so few ranks are on one host in any case.
inline std::string layout_named(std::string_view name, int ranks) {
  if (ranks < 2) return "";
  if (name == "alone") return fmt::format("{}x1", ranks);
  if (name == "halves") return fmt::format("{},{}", (ranks + 1) / 2, ranks / 2);
  if (name == "uneven") return fmt::format("{},1", ranks - 1);
  if (name == "middle") return ranks == 2 ? "1,1" : fmt::format("1,{},1", ranks - 2);
  if (name != "interleaved") throw std::invalid_argument(fmt::format("there is no layout \"{}\"; there are {}", name, fmt::join(layout_names, ", ")));
  std::vector<int> hosts;
  for (int rank = 0; rank < ranks; ++rank) hosts.push_back(rank % 2);
  return fmt::format("{}", fmt::join(hosts, "/"));
}

}  // namespace unisono::testing
