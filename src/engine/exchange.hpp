// The two hand-written paths for small calls: every rank shows its whole contribution, sees that all others made the same
// call, and takes what it needs. Everything else is a schedule (run.hpp).
//
//   slot     each rank polls every other's slot, where the word that proves the call lies beside the payload: one cache
//            line travels for up to 56 bytes, two for up to 120.
//   combine  for more ranks than cores: ranks count themselves in; the last to arrive combines for all and releases
//            them with one wake-up, so that each rank is scheduled once per call.
#pragma once

#include <vector>

#include "engine/call.hpp"
#include "transport/lanes.hpp"
#include "transport/waiting.hpp"

namespace unisono {

enum class ExchangeMode {
  slot,
  give,  // as slot, but this rank only gives and goes on at once: for groups that run ahead
  combine,
};

// Whether a rank takes nothing from the others in this call, so that it need not wait for them.
bool only_gives(const Call& call, int me);

inline constexpr int64_t combine_bytes = 64 << 10;

class Exchange {
 public:
  Exchange(Lanes& lanes, Arena& arena);

  Status prepare(const Call& call);  // before announcing: takes what memory it needs
  void clear(uint32_t number) const { lanes_.clear_slot(number); }  // what this rank showed so long ago that its number comes again
  // `tile` is the running tile number whose stage holds contributions that do not fit in a slot.
  void start(const Call& call, ExchangeMode mode, uint64_t word, uint64_t tile);
  Turn turn();
  bool uses_tile() const { return in_stage_; }
  bool waits_for_release() const { return mode_ == ExchangeMode::combine; }

 private:
  void show();
  bool arrive();  // true when this rank is the last
  bool all_match() const;
  void combine();
  void take();
  void take_reduction();
  void copy_from(int peer, int64_t offset, const Stretch& target) const;
  std::byte* payload(int member) const;
  std::byte* result(int member) const;
  uint32_t number() const { return call_of(word_); }

  Lanes& lanes_;
  Arena& arena_;
  const Call* call_ = nullptr;
  ExchangeMode mode_ = ExchangeMode::slot;
  uint64_t word_ = 0;
  uint64_t tile_ = 0;
  int64_t shown_bytes_ = 0;  // the largest contribution, the same on all ranks
  bool in_stage_ = false;
  bool arrived_ = false;
  bool combined_ = false;
  int next_peer_ = 0;
  std::vector<const void*> sources_;
};

}  // namespace unisono
