// A small 64-bit hash for names and signatures; not for secrets. The same on every rank and machine.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace unisono {

constexpr uint64_t mix(uint64_t value) {
  value ^= value >> 32;
  value *= 0xd6e8feb86659fd93;
  value ^= value >> 32;
  value *= 0xd6e8feb86659fd93;
  return value ^ value >> 32;
}

constexpr uint64_t hash_combine(uint64_t seed, uint64_t value) { return mix(seed * 0x9e3779b97f4a7c15 + value); }

inline uint64_t hash_bytes(const void* data, size_t bytes, uint64_t seed = 0) {
  const char* at = static_cast<const char*>(data);
  uint64_t hash = hash_combine(seed, bytes);
  for (; bytes >= 8; at += 8, bytes -= 8) {
    uint64_t part;
    std::memcpy(&part, at, 8);
    hash = hash_combine(hash, part);
  }
  uint64_t rest = 0;
  std::memcpy(&rest, at, bytes);
  return hash_combine(hash, rest);
}

inline uint64_t hash_text(std::string_view text) { return hash_bytes(text.data(), text.size()); }

}  // namespace unisono
