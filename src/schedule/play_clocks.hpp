// Vector clocks: for each strand, how far along it can know every strand to be. Strand a knows event e of strand b when
// a chain of publications and messages leads from e to where a stands.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace unisono {

class Clocks {
 public:
  explicit Clocks(int strands) : strands_(strands), cells_(static_cast<size_t>(strands) * strands, 0) {}

  std::span<uint32_t> of(int strand) {
    return {&cells_[static_cast<size_t>(strand) * strands_], static_cast<size_t>(strands_)};
  }
  std::span<const uint32_t> of(int strand) const {
    return {&cells_[static_cast<size_t>(strand) * strands_], static_cast<size_t>(strands_)};
  }
  uint32_t now(int strand) const { return of(strand)[strand]; }
  void set_now(int strand, uint32_t epoch) { of(strand)[strand] = epoch; }
  bool knows(int strand, int other, uint32_t epoch) const { return of(strand)[other] >= epoch; }

  void learn(int strand, int other, uint32_t epoch) { of(strand)[other] = std::max(of(strand)[other], epoch); }
  void learn(int strand, std::span<const uint32_t> knowledge) {
    uint32_t* mine = of(strand).data();
    const uint32_t* theirs = knowledge.data();
    for (int other = 0; other < strands_; ++other) mine[other] = std::max(mine[other], theirs[other]);
  }

 private:
  int strands_;
  std::vector<uint32_t> cells_;
};

}  // namespace unisono
