// Order: see note.hpp.
#include "transport/note.hpp"

#include <algorithm>
#include <cstring>

namespace unisono {

void write_note(Note& note, std::string_view text) {
  uint64_t words[note_words] = {};
  std::memcpy(words, text.data(), std::min(text.size(), sizeof(words) - 1));
  const uint64_t version = note.version.load(std::memory_order_relaxed);
  note.version.store(version + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  for (int index = 0; index < note_words; ++index) note.words[index].store(words[index], std::memory_order_relaxed);
  note.version.store(version + 2, std::memory_order_release);
}

std::string read_note(const Note& note) {
  constexpr int attempts = 100;
  for (int attempt = 0; attempt < attempts; ++attempt) {
    const uint64_t version = note.version.load(std::memory_order_acquire);
    uint64_t words[note_words + 1] = {};
    for (int index = 0; index < note_words; ++index) words[index] = note.words[index].load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (version % 2 == 0 && note.version.load(std::memory_order_relaxed) == version) return reinterpret_cast<const char*>(words);
  }
  return "";
}

}  // namespace unisono
