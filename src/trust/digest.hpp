// A short text that stands for a long one, and that nobody can make another text for.
#pragma once

#include <string>
#include <string_view>

namespace unisono {

std::string digest_of(std::string_view text);  // the first 128 bits of its SHA-256, as 32 hexadecimal digits; empty where OpenSSL has none

}  // namespace unisono
