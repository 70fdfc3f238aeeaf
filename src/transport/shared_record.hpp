// A few words that belong to all members of a group on this host: any of them may replace them as a whole, and they outlive whoever did so last.
//
// Who writes: each member has two places in its own lane and writes to the one that is not the record; then one word, in the group lines, is swapped to name it. A member that is
// killed in between has changed nothing, and one that is stopped holds nobody up.
// Order: the places are stored before the word is swapped with release; a reader loads the word with acquire, then the place, and believes it if the word is still the same: the word
// counts the changes, so a place that was written again is never taken for what it was. The words are atomic, so that what is thrown away is not undefined.
// Not thread-safe within a process.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "transport/lanes.hpp"

namespace unisono {

class SharedRecord {
 public:
  explicit SharedRecord(const Lanes& lanes) : lanes_(lanes) {}

  struct Seen {
    uint64_t mark = 0;                 // for replace()
    std::vector<uint64_t> words = {};  // empty: there is none yet
  };
  Seen read() const;  // ProtocolError where what is in shared memory cannot be
  bool replace(uint64_t mark, std::span<const uint64_t> words);  // false, and nothing done, where somebody was faster

 private:
  std::atomic<uint64_t>* place(int member, uint64_t which) const;

  const Lanes& lanes_;
};

}  // namespace unisono
