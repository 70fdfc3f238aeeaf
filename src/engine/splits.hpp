// Who sends how much to whom in an all_to_all whose parts differ: known to every rank before the data moves, so that all of
// them find the same plan, the same number of tiles, and their part in a peer's memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

namespace unisono {

// Row r of `counts` is what rank r sends, in elements; the functions answer in bytes.
struct Splits {
  int ranks = 1;
  int64_t element = 1;  // bytes
  std::vector<int64_t> counts;

  Splits(int ranks, int64_t element)
      : ranks(ranks), element(element), counts(static_cast<size_t>(ranks) * static_cast<size_t>(ranks)) {}

  int64_t* row(int from) { return counts.data() + from * ranks; }
  const int64_t* row(int from) const { return counts.data() + from * ranks; }
  int64_t sent(int from, int to) const { return row(from)[to] * element; }
  int64_t offset(int from, int to) const { return std::accumulate(row(from), row(from) + to, int64_t{0}) * element; }
  int64_t total_count() const { return std::accumulate(counts.begin(), counts.end(), int64_t{0}); }
  int64_t longest() const { return *std::max_element(counts.begin(), counts.end()) * element; }
  int64_t most_sent() const {  // by one rank, to all
    int64_t most = 0;
    for (int from = 0; from < ranks; ++from) most = std::max(most, offset(from, ranks));
    return most;
  }
};

}  // namespace unisono
