// What clients did to the keys of a store and what they were told, and whether a store that does one thing after the other can have told them so.
//
// Values are whole numbers, kept as text; 0 stands for a key that is not there, so no operation may lead to 0.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace unisono::testing {

struct StoreOperation {
  enum class What : uint8_t { add, compare_set, set, get };
  What what = What::get;
  int client = 0, key = 0;
  int64_t value = 0;     // what is added or set
  int64_t expected = 0;  // by compare_set; 0: that the key is not there
  int64_t result = 0;    // of add the sum, of compare_set what stands afterwards, of get the value
  int64_t started_ns = 0;
  int64_t ended_ns = 0;  // 0: no answer came; then it has happened once, at any time since it started, or never

  bool is_answered() const { return ended_ns != 0; }
};

std::string text_of(const StoreOperation& operation, int64_t origin_ns = 0);

// Empty: there is an order of all operations that were answered, and of some of the others, in which each result follows from those before it, and
// each that ended before another started comes before it. Otherwise where the longest such order ends. The search is exhaustive, key by key; it takes
// long where very many operations are under way at a time.
std::string not_linearizable(const std::vector<StoreOperation>& history);

}  // namespace unisono::testing
