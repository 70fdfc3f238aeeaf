// Text that another process wrote, before it goes into a log or an error: one line, and nothing in it that a terminal would obey.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace unisono {

// In its place: tabs and line ends become blanks; other control characters, those that change the direction of text, and bytes that are no UTF-8
// become question marks.
void make_legible(std::span<char> text);

std::string legible(std::string_view text, size_t most_bytes = 4096);  // a copy, cut to so many bytes
bool is_legible(std::string_view text);                                // nothing would have to be changed

// What stands in a field of fixed length: up to its first zero. Nothing where no zero ends it.
std::string_view text_in(std::span<const char> field);

}  // namespace unisono
