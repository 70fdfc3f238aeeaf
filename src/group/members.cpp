// See members.hpp. Order: of what is stored and loaded here, as argued there.
#include "group/members.hpp"

#include <algorithm>

namespace unisono {
namespace {

constexpr uint64_t pack_abort(ErrorCode code, int member, uint32_t blamed) {
  return static_cast<uint64_t>(code) << 56 | static_cast<uint64_t>(member & 0xffff) << 32 | blamed;
}

constexpr uint64_t pack_verdict(uint32_t call, const Verdict& verdict) {
  return make_word(call, static_cast<uint32_t>(verdict.one & 0xffff) << 16 | static_cast<uint32_t>(verdict.other & 0xffff));
}

// Two places are enough for voices and outcomes: nobody can speak of number n + 2 before everybody who is left has spoken of
// n + 1, and so has read the outcome of n; but for who gave up at its deadline, whose voice is then ahead.
constexpr uint64_t pack_voice(uint64_t number, bool flag) { return number << 1 | (flag ? 1 : 0); }
constexpr uint64_t number_of(uint64_t voice) { return voice >> 1; }

}  // namespace

Members::Members(const LaneLayout& layout, int me, std::vector<Neighbour> neighbours) : lanes_(layout, me, std::move(neighbours)) {}

std::string Members::occupation(int member) const { return read_note(lanes_.member(member).head().waiting); }

Announcement Members::announcement(int member, uint32_t call) const {
  Announcement announcement;
  std::memcpy(&announcement, lanes_.cell(member, call).bytes, sizeof(announcement));
  return announcement;
}

bool Members::everybody_finished(uint32_t call) const {
  for (int member = 0; member < size(); ++member)
    if (!at_least(finished(member), call)) return false;
  return true;
}

// A verdict is kept as long as the announcements it speaks of: those who are still in this call may be met by a verdict on the next.
Verdict Members::judge(uint32_t call, Verdict verdict) {
  const uint64_t mine = pack_verdict(call, verdict);
  std::atomic<uint64_t>& word = lanes_.shared().verdicts[lanes_.ring_index(call)];
  uint64_t seen = word.load(std::memory_order_acquire);
  while (call_of(seen) != call)
    if (word.compare_exchange_weak(seen, mine, std::memory_order_acq_rel, std::memory_order_acquire)) seen = mine;
  return {static_cast<int>(seen >> 16 & 0xffff), static_cast<int>(seen & 0xffff)};
}

// The text goes into this rank's lane, and then the abort word into everybody's.
void Members::revoke(const Status& fault) {
  LaneControl& mine = lanes_.mine();
  if (is_broken()) return;
  if (mine.cause[0] == 0) {
    const std::string& text = fault.message();
    const size_t length = std::min(text.size(), static_cast<size_t>(cause_bytes - 1));
    std::memcpy(mine.cause, text.data(), length);
    mine.cause[length] = 0;
  }
  const uint64_t packed = pack_abort(fault.code(), me(), static_cast<uint32_t>(fault.peer()));
  for (int member = 0; member < size(); ++member) {
    uint64_t none = 0;
    lanes_.control(member).abort.compare_exchange_strong(none, packed, std::memory_order_acq_rel);
  }
}

Status Members::fault() const {
  const uint64_t packed = lanes_.mine().abort.load(std::memory_order_acquire);
  const int reporter = static_cast<int>(packed >> 32 & 0xffff);
  const auto code = static_cast<ErrorCode>(packed >> 56);
  if (reporter >= size() || static_cast<size_t>(code) > static_cast<size_t>(ErrorCode::internal))
    return {ErrorCode::protocol, "an invalid abort word"};
  const char* text = lanes_.control(reporter).cause;
  return {code, std::string(text, strnlen(text, cause_bytes)), static_cast<int32_t>(packed & 0xffffffff)};
}

Presence Members::presence(int member) const {
  if (member == me()) return Presence::here;
  const uint32_t mark = lanes_.left(me(), member).load(std::memory_order_acquire);
  return mark == still_here ? Presence::here : mark == has_left ? Presence::left : Presence::died;
}

void Members::mark_died(int member) {
  uint32_t here = still_here;
  lanes_.left(me(), member).compare_exchange_strong(here, has_died, std::memory_order_acq_rel);
  wake_me();
  wake_everyone();
}

void Members::say_leaving() { lanes_.mine().leaving.store(1, std::memory_order_seq_cst); }

void Members::say_left() {
  for (int member = 0; member < size(); ++member) lanes_.left(member, me()).store(has_left, std::memory_order_release);
}

bool Members::all_left() const {
  for (int member = 0; member < size(); ++member)
    if (lanes_.left(me(), member).load(std::memory_order_acquire) == still_here) return false;
  return true;
}

void Members::say(uint64_t number, bool flag) {
  lanes_.mine().voices[number % 2].store(pack_voice(number, flag), std::memory_order_release);
}

Members::Voice Members::voice(int member, uint64_t number) const {
  const uint64_t voice = lanes_.control(member).voices[number % 2].load(std::memory_order_acquire);
  if (number_of(voice) > number) return Voice::later;
  if (number_of(voice) < number) return Voice::none;
  return (voice & 1) != 0 ? Voice::yes : Voice::no;
}

std::optional<bool> Members::outcome(uint64_t number) const {
  const uint64_t outcome = lanes_.shared().agreed[number % 2].load(std::memory_order_acquire);
  return number_of(outcome) == number ? std::optional((outcome & 1) != 0) : std::nullopt;
}

void Members::settle(uint64_t number, bool flag) {
  std::atomic<uint64_t>& outcome = lanes_.shared().agreed[number % 2];
  uint64_t before = outcome.load(std::memory_order_acquire);
  while (number_of(before) < number)  // later ones stand when this rank has left in the meantime
    if (outcome.compare_exchange_weak(before, pack_voice(number, flag), std::memory_order_acq_rel, std::memory_order_acquire)) return;
}

}  // namespace unisono
