// Finding one's way in the lanes. Who writes and reads what, and in which order: lane.hpp. Next: engine/.
//
// Order of sleeping and waking: a sleeper adds itself to `sleepers`, makes every core take a barrier (membarrier), looks
// once more and sleeps; a publisher stores its flag and then looks at `sleepers`. The barrier stands for the fence that
// the publisher would otherwise need between its store and its load, and which would cost it a cache miss on every call.
#include "transport/lanes.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <utility>

#include "base/check.hpp"
#include "base/sizes.hpp"
#include "transport/futex.hpp"

namespace unisono {
namespace {

constexpr uint32_t a_moment = 2 * max_ring;  // calls: nobody is still in one that was so long ago

bool is_old(uint32_t call, uint32_t number) {
  const uint32_t behind = number - call;
  return behind > numbers_between_marks / 2 && behind < UINT32_MAX / 2;
}

// Several members may do it at once, beside one that writes a new value: whoever loses has nothing left to do.
void renew_word(std::atomic<uint64_t>& word, uint32_t number) {
  uint64_t seen = word.load(std::memory_order_relaxed);
  if (is_old(call_of(seen), number)) word.compare_exchange_strong(seen, make_word(number - a_moment, 0), std::memory_order_relaxed);
}

}  // namespace

int64_t Lanes::set_bytes_for(int members) {
  return std::max(std::clamp(members * 32_KiB, 128_KiB, 512_KiB), 2 * members * line_bytes);
}

std::string Neighbour::process() const { return machine.empty() ? fmt::format("pid {}", pid) : fmt::format("pid {} on {}", pid, machine); }

Lanes::Lanes(LaneLayout layout, int me, std::vector<Neighbour> members)
    : layout_(layout), me_(me), set_bytes_(set_bytes_for(layout.members)), members_(std::move(members)), mirrors_(members_.size()),
      controls_(members_.size()), cells_(members_.size()), slots_(members_.size()) {
  for (int index = 0; index < layout_.members; ++index) {
    if (index != me_ && is_here(index)) mates_.push_back(index);
    if (!is_here(index)) mirrors_[static_cast<size_t>(index)] = Mapping::of_nobody(layout_.bytes());
  }
}

void Lanes::find(std::span<const int64_t> offsets) {
  for (size_t index = 0; index < members_.size(); ++index) {
    std::byte* lane = mirrors_[index] ? mirrors_[index]->data() : members_[index].mapping->data() + offsets[index];
    controls_[index] = reinterpret_cast<LaneControl*>(lane);
    if (!mirrors_[index] && !shared_) shared_ = controls_[index];
    cells_[index] = reinterpret_cast<Cell*>(lane + layout_.cells_at());
    slots_[index] = reinterpret_cast<Slot*>(lane + layout_.slots_at());
  }
}

void Lanes::start_mirrors(uint32_t last_call) {
  for (const auto& mirror : mirrors_)
    if (mirror && last_call != 0) start_numbering(mirror->data(), layout_, last_call);
}

std::atomic<uint64_t>& Lanes::link(int member, int peer, LinkUse use) const {
  auto* base = reinterpret_cast<std::byte*>(&control(member)) + layout_.links_at();
  return reinterpret_cast<std::atomic<uint64_t>*>(base)[static_cast<int>(use) * layout_.members + peer];
}

std::atomic<uint32_t>& Lanes::left(int member, int peer) const {
  auto* base = reinterpret_cast<std::byte*>(&control(member)) + layout_.left_at();
  return reinterpret_cast<std::atomic<uint32_t>*>(base)[peer];
}

void Lanes::cannot_be(int member, const char* what) const {
  throw_if_error({ErrorCode::protocol, fmt::format("rank {}'s {} cannot be: its shared memory was written over", this->member(member).rank, what)});
  std::abort();  // never reached: an error was thrown
}

std::byte* Lanes::at(int member, uint64_t offset, int64_t bytes, const char* what) const {
  const Mapping& arena = *this->member(member).mapping;
  const auto length = static_cast<uint64_t>(arena.bytes());
  if (bytes < 0 || offset > length || static_cast<uint64_t>(bytes) > length - offset) [[unlikely]]
    cannot_be(member, what);
  return arena.data() + offset;
}

bool lane_fits(const Mapping& arena, uint64_t offset, const LaneLayout& layout) {
  const auto length = static_cast<uint64_t>(arena.bytes());
  return offset % line_bytes == 0 && offset >= sizeof(ArenaHead) && offset < length && static_cast<uint64_t>(layout.bytes()) <= length - offset;
}

uint64_t Lanes::place_of(const void* data, int64_t bytes) const {
  const Mapping& mapping = *member(me_).mapping;
  const auto begin = reinterpret_cast<uintptr_t>(mapping.data()), at = reinterpret_cast<uintptr_t>(data);
  const bool inside = at >= begin && at - begin <= static_cast<uintptr_t>(mapping.bytes() - bytes);
  return inside && bytes <= mapping.bytes() ? at - begin + 1 : 0;
}

Status Lanes::ensure_tiles(Arena& arena) {
  if (my_tiles_ != 0 && !tiles_dropped_) return Status::success();
  if (my_tiles_ != 0) {
    RETURN_IF_ERROR(arena.refill(my_tiles_, "a group's tiles"));
  } else {
    auto taken = arena.take(tiles_bytes(), "a group's tiles");
    if (!taken.ok()) return taken.status();
    my_tiles_ = *taken;
    mine().tiles.store(static_cast<uint64_t>(*taken), std::memory_order_release);
  }
  tiles_dropped_ = false;
  return Status::success();
}

void Lanes::drop_tiles(Arena& arena) {
  if (my_tiles_ == 0 || tiles_dropped_) return;
  arena.drop_pages(my_tiles_);
  tiles_dropped_ = true;
}

void Lanes::give_tiles_back(Arena& arena) {
  if (my_tiles_ != 0) arena.give_back(std::exchange(my_tiles_, 0));
}

std::byte* Lanes::tiles_of(int member) const {
  const uint64_t base = member == me_ ? static_cast<uint64_t>(my_tiles_) : control(member).tiles.load(std::memory_order_relaxed);
  if (base == 0 || base % line_bytes != 0) [[unlikely]]
    cannot_be(member, "place of tiles");
  return at(member, base, tiles_bytes(), "place of tiles");
}

std::byte* Lanes::stage(int member, uint64_t tile) const {
  return tiles_of(member) + static_cast<int64_t>(tile % slot_sets) * set_bytes_;
}

ShownSpan* Lanes::shown_spans(int member, uint32_t call) const {
  return reinterpret_cast<ShownSpan*>(tiles_of(member) + slot_sets * set_bytes_) + ring_index(call) * most_shown_spans;
}

void Lanes::renew(uint32_t number) const {
  for (std::atomic<uint64_t>& flag : mine().flags) renew_word(flag, number);
  if (is_old(mine().taken.load(std::memory_order_relaxed), number)) mine().taken.store(number - a_moment, std::memory_order_relaxed);
  renew_word(shared().arrivals, number);
  renew_word(shared().result, number);
  for (std::atomic<uint64_t>& verdict : shared().verdicts) renew_word(verdict, number);
  for (size_t index = 0; index < mirrors_.size(); ++index) {
    if (!mirrors_[index]) continue;
    for (std::atomic<uint64_t>& word : controls_[index]->words) renew_word(word, number);
    std::atomic<uint32_t>& finished = controls_[index]->finished;
    if (is_old(finished.load(std::memory_order_relaxed), number)) finished.store(number - a_moment, std::memory_order_relaxed);
  }
}

void start_numbering(std::byte* lane, const LaneLayout& layout, uint32_t last) {
  auto& control = *reinterpret_cast<LaneControl*>(lane);
  for (auto& flag : control.flags) flag.store(make_word(last, 0), std::memory_order_relaxed);
  for (auto& word : control.words) word.store(make_word(last, 0), std::memory_order_relaxed);
  for (auto& verdict : control.verdicts) verdict.store(make_word(last, 0), std::memory_order_relaxed);
  for (auto* word : {&control.arrivals, &control.result}) word->store(make_word(last, 0), std::memory_order_relaxed);
  for (auto* number : {&control.finished, &control.taken}) number->store(last, std::memory_order_relaxed);
  for (int entry = 0; entry < layout.ring; ++entry)
    reinterpret_cast<Slot*>(lane + layout.slots_at())[entry].word.store(0, std::memory_order_relaxed);
}

void ring_bell(ArenaHead& head) {
  head.bell.fetch_add(1, std::memory_order_release);
  futex_wake(head.bell, INT_MAX);
}

// Between what was published and the look at who sleeps: see the head of this file.
void Lanes::order_before_sleepers() const {
  if (fences_)
    std::atomic_thread_fence(std::memory_order_seq_cst);
  else
    std::atomic_signal_fence(std::memory_order_seq_cst);
}

void Lanes::wake(int peer) const {
  order_before_sleepers();
  ArenaHead& head = member(peer).head();
  if (head.sleepers.load(std::memory_order_relaxed) != 0) [[unlikely]]
    ring_bell(head);
}

void Lanes::wake_peers() const {
  order_before_sleepers();
  for (int index : mates_) {
    ArenaHead& head = member(index).head();
    if (head.sleepers.load(std::memory_order_relaxed) != 0) [[unlikely]]
      ring_bell(head);
  }
}

void Lanes::wake_everyone() const {
  ring_bell(my_head());
  for (int index : mates_) ring_bell(member(index).head());
  shared().released.fetch_add(1, std::memory_order_release);
  futex_wake(shared().released, INT_MAX);
}

}  // namespace unisono
