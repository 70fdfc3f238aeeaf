// Random choices that are the same on every machine and with every standard library, so that a seed says it all.
#pragma once

#include <cstdint>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

namespace unisono::testing {

class Dice {
 public:
  explicit Dice(uint64_t seed) : random_(seed) {}

  uint64_t seed() { return random_(); }
  int64_t below(int64_t limit) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(limit)); }
  int between(int least, int most) { return least + static_cast<int>(below(most - least + 1)); }
  bool chance(int percent) { return below(100) < percent; }
  // As often between one and two as between a thousand and two thousand.
  int64_t of_any_magnitude(int bits) {
    return (int64_t{1} << between(0, bits)) + below(int64_t{1} << between(0, bits));
  }

  template <typename Range>
  const auto& pick(const Range& range) {
    return range[static_cast<size_t>(below(static_cast<int64_t>(range.size())))];
  }
  template <typename T>
  T one_of(std::initializer_list<T> list) {
    return *(list.begin() + below(static_cast<int64_t>(list.size())));
  }
  template <typename T>
  void shuffle(std::vector<T>& list) {
    for (size_t left = list.size(); left > 1; --left)
      std::swap(list[left - 1], list[static_cast<size_t>(below(static_cast<int64_t>(left)))]);
  }
  // Some of the numbers below `limit`, in any order.
  std::vector<int> some_below(int limit, int count) {
    std::vector<int> numbers(static_cast<size_t>(limit));
    std::iota(numbers.begin(), numbers.end(), 0);
    shuffle(numbers);
    numbers.resize(static_cast<size_t>(count));
    return numbers;
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace unisono::testing
