// A short text that one process writes and others may read at any time.
//
// Who writes: the owner, one thread at a time. Order: the version is odd while the words change; a reader that saw the same
// even version before and after has read one text. The words are atomic, so a torn read is thrown away and not undefined.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace unisono {

inline constexpr int note_words = 31;

struct Note {
  std::atomic<uint64_t> version;
  std::atomic<uint64_t> words[note_words];
};

void write_note(Note& note, std::string_view text);  // cut to what fits
std::string read_note(const Note& note);             // empty where it changes all the time

}  // namespace unisono
