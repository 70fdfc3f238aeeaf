// See copies.hpp. On other processors than x86 a copy is memcpy's.
#include "kernels/copies.hpp"

#include <algorithm>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace unisono {

#if defined(__SSE2__)
void copy_past_caches(std::byte* target, const std::byte* source, int64_t bytes) {
  constexpr int64_t line = 64, vector = sizeof(__m128i);
  const int64_t ahead = std::min(-reinterpret_cast<intptr_t>(target) & (line - 1), bytes);
  std::memcpy(target, source, static_cast<size_t>(ahead));
  int64_t at = ahead;
  for (; at + line <= bytes; at += line) {
    __m128i parts[line / vector];
    for (int64_t part = 0; part < line / vector; ++part) parts[part] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + at) + part);
    for (int64_t part = 0; part < line / vector; ++part) _mm_stream_si128(reinterpret_cast<__m128i*>(target + at) + part, parts[part]);
  }
  std::memcpy(target + at, source + at, static_cast<size_t>(bytes - at));
  _mm_sfence();  // whoever is told of it afterwards sees it
}
#else
void copy_past_caches(std::byte* target, const std::byte* source, int64_t bytes) { std::memcpy(target, source, static_cast<size_t>(bytes)); }
#endif

}  // namespace unisono
