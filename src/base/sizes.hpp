// Sizes as people write them: "64K", "1M", "1.5G" are powers of 1024.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace unisono {

constexpr int64_t operator""_KiB(unsigned long long count) { return static_cast<int64_t>(count) << 10; }
constexpr int64_t operator""_MiB(unsigned long long count) { return static_cast<int64_t>(count) << 20; }
constexpr int64_t operator""_GiB(unsigned long long count) { return static_cast<int64_t>(count) << 30; }

constexpr int64_t round_up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

std::optional<int64_t> parse_size(std::string_view text);
std::string format_size(int64_t bytes);    // exact: "64K", "100", "1M"; parse_size reads it back
std::string readable_size(int64_t bytes);  // for people: "1.5 MiB"

}  // namespace unisono
