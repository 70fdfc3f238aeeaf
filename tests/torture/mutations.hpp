// Bytes that none of ours writes, close to those that one does.
#pragma once

#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "tests/torture/dice.hpp"

namespace unisono::testing {

inline std::string random_bytes(Dice& dice, int64_t count) {
  std::string bytes(static_cast<size_t>(count), 0);
  for (char& byte : bytes) byte = static_cast<char>(dice.below(256));
  return bytes;
}

// A few changes: a byte, a bit, some bytes gone, some more, a number at its limits.
inline std::string mutated(Dice& dice, std::string bytes) {
  for (int left = dice.between(1, 4); left > 0; --left) {
    const int64_t at = dice.below(static_cast<int64_t>(bytes.size()) + 1);
    const auto place = static_cast<size_t>(at);
    switch (dice.below(5)) {
      case 0: if (place < bytes.size()) bytes[place] = static_cast<char>(dice.below(256)); break;
      case 1: if (place < bytes.size()) bytes[place] = static_cast<char>(bytes[place] ^ 1 << dice.below(8)); break;
      case 2: bytes.erase(place, static_cast<size_t>(dice.between(1, 9))); break;
      case 3: bytes.insert(place, random_bytes(dice, dice.between(1, 9))); break;
      default: {
        const uint64_t number = dice.one_of<uint64_t>({0, 1, UINT32_MAX, UINT64_MAX, INT64_MAX, uint64_t{1} << 63, uint64_t{1} << 40});
        if (place + sizeof(number) <= bytes.size()) std::memcpy(&bytes[place], &number, sizeof(number));
      }
    }
  }
  return bytes;
}

// The same, of the same length: for what lies in a place of its own.
inline std::string mutated_in_place(Dice& dice, const std::string& bytes) {
  std::string changed = mutated(dice, bytes);
  changed.resize(bytes.size());
  return changed;
}

template <typename Value>
std::string bytes_of(const Value& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

inline std::span<const std::byte> span_of(const std::string& bytes) { return std::as_bytes(std::span(bytes)); }

// A function of a stream, which is fed to it in pieces of any length.
inline void in_pieces(Dice& dice, std::string_view bytes, const std::function<void(std::string_view)>& take) {
  while (!bytes.empty()) {
    const auto piece = std::min(bytes.size(), static_cast<size_t>(dice.of_any_magnitude(8)));
    take(bytes.substr(0, piece));
    bytes.remove_prefix(piece);
  }
}

inline std::string maybe_mutated(Dice& dice, const std::string& bytes, int percent = 80) { return dice.chance(percent) ? mutated(dice, bytes) : bytes; }

}  // namespace unisono::testing
