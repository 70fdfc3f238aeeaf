// See legible.hpp.
#include "base/legible.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace unisono {
namespace {

// The bytes of the character that begins here, and which it is; 0: it is no UTF-8, or longer than it need be.
size_t character_at(std::string_view text, uint32_t& character) {
  const auto first = static_cast<unsigned char>(text[0]);
  const size_t bytes = first < 0x80 ? 1 : first >= 0xc2 && first < 0xe0 ? 2 : first >= 0xe0 && first < 0xf0 ? 3 : first >= 0xf0 && first < 0xf5 ? 4 : 0;
  if (bytes == 0 || bytes > text.size()) return 0;
  character = bytes == 1 ? first : first & (0x7fu >> bytes);
  for (size_t index = 1; index < bytes; ++index) {
    const auto next = static_cast<unsigned char>(text[index]);
    if ((next & 0xc0) != 0x80) return 0;
    character = character << 6 | (next & 0x3fu);
  }
  const bool shortest = bytes < 3 || character >= (bytes == 3 ? 0x800u : 0x10000u);
  return shortest && character < 0x110000 && (character < 0xd800 || character > 0xdfff) ? bytes : 0;
}

bool is_obeyed(uint32_t character) {
  const bool controls = character < 0x20 || (character >= 0x7f && character < 0xa0) || character == 0x2028 || character == 0x2029;
  const bool turns_text_round = (character >= 0x202a && character <= 0x202e) || (character >= 0x2066 && character <= 0x2069);
  return controls || turns_text_round || character == 0x200e || character == 0x200f;
}

}  // namespace

void make_legible(std::span<char> text) {
  while (!text.empty()) {
    uint32_t character = 0;
    const size_t bytes = character_at({text.data(), text.size()}, character);
    const size_t count = std::max<size_t>(bytes, 1);
    const bool is_blank = text[0] == '\n' || text[0] == '\t' || text[0] == '\r';
    if (bytes == 0 || is_obeyed(character)) std::ranges::fill(text.first(count), is_blank ? ' ' : '?');
    text = text.subspan(count);
  }
}

std::string legible(std::string_view text, size_t most_bytes) {
  std::string copy(text.substr(0, most_bytes));
  while (copy.size() < text.size() && !copy.empty() && (static_cast<unsigned char>(text[copy.size()]) & 0xc0) == 0x80) copy.pop_back();  // not within a character
  make_legible(copy);
  return copy;
}

bool is_legible(std::string_view text) { return legible(text, text.size()) == text; }

std::string_view text_in(std::span<const char> field) {
  const size_t length = strnlen(field.data(), field.size());
  return length == field.size() ? std::string_view() : std::string_view(field.data(), length);
}

}  // namespace unisono
