// See signatures.hpp; used by group.cpp.
#include "group/signatures.hpp"

#include "base/hash.hpp"

namespace unisono {
namespace {

constexpr size_t most_known = 512;

}  // namespace

Signatures::Mark Signatures::mark_of(const Announcement& announcement) const {
  for (uint32_t hash = announcement.hash();; hash = next_hash(hash)) {
    auto entry = known_.find(hash);
    if (entry == known_.end()) return {hash, false};
    if (says_the_same(entry->second, announcement)) return {hash, true};
  }
}

void Signatures::learn(uint32_t hash, const Announcement& announcement) {
  if (known_.size() >= most_known && !known_.contains(hash)) {
    known_.clear();
    ++era_;
  }
  known_.insert_or_assign(hash, announcement);
}

}  // namespace unisono
