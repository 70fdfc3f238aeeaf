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

void Signatures::make_room() {
  known_.reserve(known_.size() + 1);
  if (!room_) room_ = Known{{0, Announcement{}}}.extract(0);
}

void Signatures::learn(uint32_t hash, const Announcement& announcement) {
  if (auto entry = known_.find(hash); entry != known_.end()) {
    entry->second = announcement;
    return;
  }
  if (known_.size() >= most_known) {
    known_.clear();
    ++era_;
  }
  make_room();
  room_.key() = hash;
  room_.mapped() = announcement;
  known_.insert(std::move(room_));
}

}  // namespace unisono
