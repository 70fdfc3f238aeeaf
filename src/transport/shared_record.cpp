// Order: see shared_record.hpp.
#include "transport/shared_record.hpp"

namespace unisono {
namespace {

// The mark: how often the record was replaced, by which member, and in which of its two places it lies.
constexpr uint64_t mark_of(uint64_t count, int member, uint64_t which) { return count << 17 | static_cast<uint64_t>(member) << 1 | which; }
constexpr uint64_t count_of(uint64_t mark) { return mark >> 17; }
constexpr int member_of(uint64_t mark) { return static_cast<int>(mark >> 1 & 0xffff); }
constexpr uint64_t which_of(uint64_t mark) { return mark & 1; }

}  // namespace

std::atomic<uint64_t>* SharedRecord::place(int member, uint64_t which) const {
  const LaneLayout& layout = lanes_.layout();
  auto* lane = reinterpret_cast<std::byte*>(&lanes_.control(member));
  return reinterpret_cast<std::atomic<uint64_t>*>(lane + layout.records_at()) + static_cast<int64_t>(which) * layout.record_words();
}

SharedRecord::Seen SharedRecord::read() const {
  std::atomic<uint64_t>& current = lanes_.shared().record;
  Seen seen;
  for (seen.mark = current.load(std::memory_order_acquire); seen.mark != 0;) {
    const int member = member_of(seen.mark);
    if (member >= lanes_.members() || !lanes_.is_here(member)) lanes_.cannot_be(lanes_.me(), "record of a group's host");
    seen.words.resize(static_cast<size_t>(lanes_.layout().record_words()));
    const std::atomic<uint64_t>* from = place(member, which_of(seen.mark));
    for (uint64_t& word : seen.words) word = (from++)->load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    const uint64_t now = current.load(std::memory_order_relaxed);
    if (now == seen.mark) break;
    seen.mark = current.load(std::memory_order_acquire);  // somebody has replaced it meanwhile: that is progress, too
  }
  return seen;
}

bool SharedRecord::replace(uint64_t mark, std::span<const uint64_t> words) {
  const int me = lanes_.me();
  const uint64_t which = mark != 0 && member_of(mark) == me ? 1 - which_of(mark) : 0;
  std::atomic<uint64_t>* to = place(me, which);
  std::atomic_thread_fence(std::memory_order_release);  // who sees a word of it sees, too, that the place was no longer the record
  for (uint64_t word : words) (to++)->store(word, std::memory_order_relaxed);
  return lanes_.shared().record.compare_exchange_strong(mark, mark_of(count_of(mark) + 1, me, which), std::memory_order_acq_rel, std::memory_order_acquire);
}

}  // namespace unisono
