// What a chunk holds, symbolically. Each (call, tile, rank, chunk) has a random 64-bit number; adding chunks adds these
// numbers with wrap-around, so a missing or doubled contribution shows with probability 1 - 2^-64 without any list.
// `tree` hashes the shape of the additions, lower operand first, and so tells one order from another.
#pragma once

#include <cstdint>
#include <span>

namespace unisono {

// How far a part of a sum has come; see step.hpp.
enum class Part : uint8_t { given, scaled, complete };

struct Fingerprint {
  uint64_t sum = 0;
  uint64_t tree = 0;  // 0: nothing was ever written here
  int length = -1;    // length class of what is held, as in chunks.hpp
  Part part = Part::given;
  bool wide = false;  // a partial, which was not rounded; see Schedule::partials

  bool empty() const { return tree == 0; }
};

constexpr uint64_t scramble(uint64_t bits) {  // the finaliser of splitmix64
  bits += 0x9e3779b97f4a7c15;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
  return bits ^ (bits >> 31);
}

// The contribution of one rank: `origin` packs whose it is.
constexpr Fingerprint leaf(uint64_t seed, uint64_t origin, int length) {
  const uint64_t sum = scramble(scramble(seed) ^ origin);
  return {sum, scramble(sum) | 1, length};
}

constexpr Fingerprint combine(const Fingerprint& lower, const Fingerprint& upper) {
  return {lower.sum + upper.sum, scramble(lower.tree ^ scramble(upper.tree)) | 1, lower.length, lower.part, lower.wide};
}

// The canonical tree: pair neighbours, carry the odd one up. Overwrites `parts`, which must not be empty.
constexpr Fingerprint combine_canonically(std::span<Fingerprint> parts) {
  for (size_t count = parts.size(); count > 1; count = (count + 1) / 2) {
    for (size_t pair = 0; pair < count / 2; ++pair) parts[pair] = combine(parts[2 * pair], parts[2 * pair + 1]);
    if (count % 2 != 0) parts[count / 2] = parts[count - 1];
  }
  return parts[0];
}

}  // namespace unisono
