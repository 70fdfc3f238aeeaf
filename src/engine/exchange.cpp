// Small calls, by hand. Who writes and who reads which word, and in which order: transport/lane.hpp.
#include "engine/exchange.hpp"

#include <cstring>

#include "base/check.hpp"
#include "transport/futex.hpp"

namespace unisono {
namespace {

// How many ranks, from the first on, a rank's result is the reduction of.
int contributors_to(Collective kind, int me, int ranks) {
  return kind == Collective::scan ? me + 1 : kind == Collective::exscan ? me : ranks;
}

bool shows(const Call& call, int me) {
  if (call.kind == Collective::broadcast || call.kind == Collective::scatter) return me == call.root;
  if (call.kind == Collective::reduce || call.kind == Collective::gather) return me != call.root;
  return call.kind != Collective::barrier;
}

}  // namespace

bool only_gives(const Call& call, int me) {
  bool from_root = call.kind == Collective::broadcast || call.kind == Collective::scatter;
  bool to_root = call.kind == Collective::reduce || call.kind == Collective::gather;
  return (from_root && me == call.root) || (to_root && me != call.root);
}

Exchange::Exchange(Lanes& lanes, Arena& arena) : lanes_(lanes), arena_(arena) { sources_.resize(static_cast<size_t>(lanes.members())); }

Status Exchange::prepare(const Call& call) {
  return contribution_bytes(call, lanes_.members()) > staged_bytes ? lanes_.ensure_tiles(arena_) : Status::success();
}

void Exchange::start(const Call& call, ExchangeMode mode, uint64_t word, uint64_t tile) {
  call_ = &call;
  mode_ = mode;
  word_ = word;
  tile_ = tile;
  shown_bytes_ = contribution_bytes(call, lanes_.members());
  in_stage_ = shown_bytes_ > staged_bytes;
  arrived_ = combined_ = false;
  next_peer_ = 0;
  CHECK(!in_stage_ || (mode == ExchangeMode::combine && 2 * shown_bytes_ <= lanes_.set_bytes()));
  show();
}

std::byte* Exchange::payload(int member) const {
  if (in_stage_) return lanes_.stage(member, tile_);
  Slot& slot = lanes_.slot(member, number());
  return shown_bytes_ <= inline_bytes ? slot.inline_payload : slot.staged;
}

std::byte* Exchange::result(int member) const {
  return in_stage_ ? lanes_.stage(member, tile_) + combine_bytes : lanes_.slot(member, number()).result;
}

void Exchange::show() {
  if (shows(*call_, lanes_.me())) {
    const Pieces& input = call_->input;
    std::byte* at = payload(lanes_.me());
    if (input.is_list())
      copy_bytes(Stretch::in_one_place(at, input.bytes()), input.all());
    else if (input.bytes() > 0)
      std::memcpy(at, input.data(), static_cast<size_t>(input.bytes()));
  }
  FAULT_POINT("exchange_shown");
  lanes_.slot(lanes_.me(), number()).word.store(word_, std::memory_order_release);
  if (mode_ != ExchangeMode::combine) lanes_.wake_peers();
}

Turn Exchange::turn() {
  if (mode_ == ExchangeMode::slot) {
    for (; next_peer_ < lanes_.members(); ++next_peer_) {
      if (next_peer_ == lanes_.me()) continue;
      if (lanes_.slot(next_peer_, number()).word.load(std::memory_order_acquire) != word_) return Turn::blocked;
    }
  } else if (mode_ == ExchangeMode::combine) {
    bool last = !arrived_ && arrive();
    arrived_ = true;
    if (last) combine();
    if (!at_least(call_of(lanes_.shared().result.load(std::memory_order_acquire)), number())) return Turn::blocked;
  }
  FAULT_POINT("exchange_seen");
  take();
  return Turn::done;
}

// The count starts anew with every call number, so a call that failed leaves nothing to reset; who comes too late, into
// a count that others have left behind, is not counted.
bool Exchange::arrive() {
  std::atomic<uint64_t>& arrivals = lanes_.shared().arrivals;
  uint64_t seen = arrivals.load(std::memory_order_relaxed);
  while (true) {
    uint64_t next = call_of(seen) == number() ? seen + 1 : make_word(number(), 1);
    if (call_of(seen) != number() && at_least(call_of(seen), number())) return false;
    if (arrivals.compare_exchange_weak(seen, next, std::memory_order_acq_rel, std::memory_order_relaxed))
      return static_cast<uint32_t>(next) == static_cast<uint32_t>(lanes_.members());
  }
}

bool Exchange::all_match() const {
  for (int member = 0; member < lanes_.members(); ++member)
    if (lanes_.slot(member, number()).word.load(std::memory_order_acquire) != word_) return false;
  return true;
}

// The last arriver works for all: it has every contribution in its cache by then, or fetches each once.
void Exchange::combine() {
  if (!all_match()) return;  // whoever examines next finds the difference and tells all
  if (call_->kind == Collective::all_reduce) {
    const Stretch output = call_->output.whole();
    combined_ = output.is_in_one_place();  // otherwise it takes the result as the others do
    for (int member = 0; member < lanes_.members(); ++member) sources_[static_cast<size_t>(member)] = payload(member);
    reduce(call_->reduction(lanes_.members()), {.target = result(lanes_.me()),
                                                .second_target = combined_ ? output.data : nullptr,
                                                .sources = sources_,
                                                .count = call_->count});
  }
  FAULT_POINT("exchange_combined");
  LaneControl& shared = lanes_.shared();
  shared.result.store(make_word(number(), static_cast<uint32_t>(lanes_.me())), std::memory_order_release);
  shared.released.fetch_add(1, std::memory_order_release);
  futex_wake(shared.released, INT32_MAX);
  lanes_.wake_peers();
}

void Exchange::copy_from(int peer, int64_t offset, const Stretch& target) const {
  copy_bytes(target, Stretch::in_one_place(payload(peer) + offset, target.bytes));
}

void Exchange::take() {
  const int me = lanes_.me(), ranks = lanes_.members();
  const bool root = me == call_->root;
  switch (call_->kind) {
    case Collective::barrier: return;
    case Collective::all_reduce:
    case Collective::scan:
    case Collective::exscan:
    case Collective::reduce_scatter: return take_reduction();
    case Collective::reduce:
      if (root) take_reduction();
      return;
    case Collective::broadcast:
      if (!root) copy_from(call_->root, 0, call_->output.whole());
      return;
    case Collective::scatter:
      if (root)
        copy_bytes(call_->output.whole(), call_->input.part(me, ranks));
      else
        copy_from(call_->root, me * call_->output.bytes(), call_->output.whole());
      return;
    case Collective::gather:
    case Collective::all_gather:
      if (call_->kind == Collective::gather && !root) return;
      for (int peer = 0; peer < ranks; ++peer) {
        const Stretch target = call_->output.part(peer, ranks);
        if (peer == me)
          copy_bytes(target, call_->input.whole());
        else
          copy_from(peer, 0, target);
      }
      return;
    case Collective::all_to_all:
      for (int peer = 0; peer < ranks; ++peer) {
        const Stretch target = call_->output.part(peer, ranks);
        if (peer == me)
          copy_bytes(target, call_->input.part(me, ranks));
        else
          copy_from(peer, part_offset_at(*call_, peer, me, ranks), target);
      }
      return;
  }
}

void Exchange::take_reduction() {
  const int me = lanes_.me(), ranks = lanes_.members();
  const Pieces &input = call_->input, &output = call_->output;
  if (call_->kind == Collective::all_reduce && mode_ == ExchangeMode::combine) {
    int combiner = static_cast<int>(lanes_.shared().result.load(std::memory_order_relaxed) & 0xffff);
    if (combiner >= ranks) lanes_.cannot_be(0, "word of who combined");
    if (!combined_) copy_bytes(output.whole(), Stretch::in_one_place(result(combiner), output.bytes()));
    return;
  }
  const bool scattered = call_->kind == Collective::reduce_scatter;
  const int64_t offset = scattered ? input.part_offset(me, ranks) : 0;
  const int contributors = contributors_to(call_->kind, me, ranks);
  if (contributors == 0) return;
  const auto sources = std::span(sources_).first(static_cast<size_t>(contributors));
  const auto reduce_shown = [&](const std::byte* mine, std::byte* target, int64_t done, int64_t bytes) {
    for (int peer = 0; peer < contributors; ++peer) sources_[static_cast<size_t>(peer)] = payload(peer) + offset + done;
    if (me < contributors) sources_[static_cast<size_t>(me)] = mine;
    reduce(call_->reduction(ranks), {.target = target, .sources = sources, .count = bytes / element_bytes(call_->dtype)});
  };
  if (!input.is_list() && !output.is_list()) return reduce_shown(input.data() + offset, output.data(), 0, output.bytes());
  in_step(scattered ? input.part(me, ranks) : input.whole(), output.whole(), reduce_shown);
}

}  // namespace unisono
