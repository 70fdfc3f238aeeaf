// Ranks as a message lists them: "rank 2", "ranks 2, 3", "ranks 0, 4-63". However many there are, it stays short where they follow each other.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

namespace unisono {

inline std::string ranks_text(std::vector<int> ranks) {
  std::ranges::sort(ranks);
  constexpr size_t least_in_a_row = 3;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t first = 0, next; first < ranks.size(); first = next) {
    next = first + 1;
    while (next < ranks.size() && ranks[next] == ranks[next - 1] + 1) ++next;
    if (next - first < least_in_a_row) next = first + 1;
    if (first > 0) text += ", ";
    text += std::to_string(ranks[first]);
    if (next - first >= least_in_a_row) text += "-" + std::to_string(ranks[next - 1]);
  }
  return text;
}

}  // namespace unisono
