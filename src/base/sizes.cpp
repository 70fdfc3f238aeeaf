// Reading and writing sizes; see sizes.hpp.
#include "base/sizes.hpp"

#include <charconv>
#include <cmath>

#include <fmt/core.h>

namespace unisono {
namespace {

constexpr std::string_view suffixes = "KMGT";

}  // namespace

std::optional<int64_t> parse_size(std::string_view text) {
  double number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !(number >= 0)) return std::nullopt;
  std::string_view rest(end, static_cast<size_t>(text.data() + text.size() - end));
  if (!rest.empty()) {
    size_t power = suffixes.find(static_cast<char>(std::toupper(static_cast<unsigned char>(rest[0]))));
    if (power == std::string_view::npos) return rest == "B" ? std::optional(static_cast<int64_t>(number)) : std::nullopt;
    if (rest.size() > 1 && rest.substr(1) != "B" && rest.substr(1) != "iB") return std::nullopt;
    number = std::ldexp(number, 10 * static_cast<int>(power + 1));
  }
  if (number >= 0x1p62 || number != std::floor(number)) return std::nullopt;
  return static_cast<int64_t>(number);
}

std::string format_size(int64_t bytes) {
  int power = 0;
  while (bytes != 0 && bytes % 1024 == 0 && power < static_cast<int>(suffixes.size())) {
    bytes /= 1024;
    ++power;
  }
  return power == 0 ? fmt::format("{}", bytes) : fmt::format("{}{}", bytes, suffixes[static_cast<size_t>(power - 1)]);
}

std::string readable_size(int64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double number = static_cast<double>(bytes);
  int power = 0;
  while (number >= 1024 && power < static_cast<int>(suffixes.size())) {
    number /= 1024;
    ++power;
  }
  return fmt::format("{:.{}f} {}iB", number, number < 10 && number != std::floor(number) ? 1 : 0,
                     suffixes[static_cast<size_t>(power - 1)]);
}

}  // namespace unisono
