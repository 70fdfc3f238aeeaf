// Whether and why the call at work cannot go on: different calls, lost members, deadlines, revocation.
//
// Order: the verdict, the abort words and the cause texts are written before they are stored with release (or swapped with
// acquire-release) and read after an acquire load, so whoever sees the word sees the text. The first writer wins.
#include <fmt/format.h>

#include <cstring>

#include "base/check.hpp"
#include "base/shortage.hpp"
#include "group/group.hpp"
#include "group/world.hpp"

namespace unisono {
namespace {

constexpr uint64_t pack_abort(ErrorCode code, int member, uint32_t call) {
  return static_cast<uint64_t>(code) << 56 | static_cast<uint64_t>(member & 0xffff) << 32 | call;
}

constexpr uint64_t pack_verdict(uint32_t call, int one, int other) {
  return make_word(call, static_cast<uint32_t>(one & 0xffff) << 16 | static_cast<uint32_t>(other & 0xffff));
}

}  // namespace

// Asked while waiting, never on the way of a call that goes well.
Status Group::examine() {
  if (left_.load(std::memory_order_relaxed)) return gone_status();
  if (lanes_.mine().abort.load(std::memory_order_acquire) != 0) return broken_status();
  if (current_.announced) RETURN_IF_ERROR(examine_differences());
  if (!run_.failure().ok()) {
    if (run_.unreadable() >= 0) parts_.world->stop_reading(world_rank(run_.unreadable()));
    return break_group(fault_here(run_.failure()));
  }
  RETURN_IF_ERROR(examine_members());
  return examine_clock();
}

Status Group::examine_differences() {
  if (!current_.refusal.ok()) return Status::success();
  if (current_.differs >= 0) return judge(current_.differs, current_.number);
  for (int member = 0; member < size(); ++member) {
    uint64_t word = lanes_.word(member, current_.number).load(std::memory_order_acquire);
    if (call_of(word) == current_.number && word != current_.word) return judge(member, current_.number);
  }
  return Status::success();
}

// The first to see a difference writes down which two ranks differ, so that everybody names the same two. A verdict is kept
// as long as the announcements it speaks of: those who are still in this call may be met by a verdict on the next. Everybody
// is woken each time, since whoever has left the call may be waiting for this rank to have announced it.
Status Group::judge(int member, uint32_t number) {
  Announcement theirs;
  std::memcpy(&theirs, lanes_.cell(member, number).bytes, sizeof(theirs));
  bool refused = theirs.state == CallState::refused;
  uint64_t mine = pack_verdict(number, refused ? member : std::min(member, me()), refused ? member : std::max(member, me()));
  std::atomic<uint64_t>& verdict = lanes_.shared().verdicts[lanes_.ring_index(number)];
  uint64_t seen = verdict.load(std::memory_order_acquire);
  while (call_of(seen) != number)
    if (verdict.compare_exchange_weak(seen, mine, std::memory_order_acq_rel, std::memory_order_acquire)) seen = mine;
  lanes_.wake_everyone();
  return verdict_status(seen);
}

Status Group::verdict_status(uint64_t verdict) const {
  const int one = static_cast<int>(verdict >> 16 & 0xffff), other = static_cast<int>(verdict & 0xffff);
  if (one >= size() || other >= size()) return {ErrorCode::protocol, "a verdict names ranks that are not in the group"};
  Announcement first, second;
  std::memcpy(&first, lanes_.cell(one, call_of(verdict)).bytes, sizeof(first));
  std::memcpy(&second, lanes_.cell(other, call_of(verdict)).bytes, sizeof(second));
  first.text[sizeof(first.text) - 1] = 0;
  std::string where = fmt::format("group \"{}\", call #{}", name(), call_of(verdict));
  if (one == other)
    return {ErrorCode::peer_argument,
            fmt::format("rank {} refused its {}: {}; {}. No data was moved and the group is usable", world_rank(one),
                        static_cast<size_t>(first.kind) < all_collectives().size() ? name_of(first.kind) : "call", first.text, where),
            world_rank(one)};
  return {ErrorCode::mismatch,
          fmt::format("{}; {}: rank {} called {}, rank {} called {}. No output was written and the group is usable",
                      difference({world_rank(one), &first}, {world_rank(other), &second}), where, world_rank(one),
                      describe(first), world_rank(other), describe(second)),
          world_rank(me() == one ? other : one)};
}

// A member that died or left is a fault only if this call still needs something of it.
Status Group::examine_members() {
  for (int member = 0; member < size(); ++member) {
    if (member == me()) continue;
    uint32_t mark = lanes_.left(me(), member).load(std::memory_order_acquire);
    if (mark == still_here) continue;
    std::string how = mark == has_left ? "left the group" : parts_.world->how_lost(world_rank(member));
    uint32_t finished = lanes_.control(member).finished.load(std::memory_order_acquire);
    if (at_least(finished, current_.number)) continue;
    return break_group({ErrorCode::peer_lost,
                        fmt::format("rank {} (pid {}) {}; {}; its last finished call is #{}; first seen by rank {} after {:.2f} s. "
                                    "This group is broken: make a new one without that rank",
                                    world_rank(member), lanes_.member(member).pid, how, call_text(), finished,
                                    world_rank(me()), waited_s()),
                        world_rank(member)});
  }
  return Status::success();
}

double Group::waited_s() const {
  return current_.started_ns == 0 ? 0 : static_cast<double>(now_ns() - current_.started_ns) * 1e-9;
}

// The clock starts with the first look, microseconds into the waiting: a call that need not wait never asks for the time.
Status Group::examine_clock() {
  if (current_.started_ns == 0) {
    current_.started_ns = now_ns();
    current_.interrupts = {};
  }
  if (!turned_by_library_ && current_.interrupts.tripped()) return break_interrupted(call_text());
  const double waited = waited_s(), deadline_s = current_.call->timeout_s > 0 ? current_.call->timeout_s : parts_.timeout_s;
  if (waited >= deadline_s) return break_group(timed_out(waited));
  constexpr double a_while_s = 0.05;
  if (!current_.noted && waited > a_while_s) {
    current_.noted = true;
    parts_.world->note_waiting("waits in " + call_text());
  }
  double warn_after_s = parts_.world->settings().warn_after_s;
  if (!current_.warned && waited > warn_after_s) {
    current_.warned = true;
    log_.warning(fmt::format("{} has waited {} s: {}", call_text(), warn_after_s, who_is_missing()));
  }
  return Status::success();
}

std::string Group::call_text() const {
  return fmt::format("group \"{}\", call #{} {}", name(), current_.number, describe(current_.decision->announcement));
}

// Who has not entered, who is in another call, and how far each has come.
std::string Group::who_is_missing() const {
  std::vector<std::string> parts;
  for (int member = 0; member < size(); ++member) {
    if (member == me()) continue;
    uint64_t word = lanes_.word(member, current_.number).load(std::memory_order_acquire);
    uint32_t finished = lanes_.control(member).finished.load(std::memory_order_acquire);
    const std::string elsewhere = read_note(lanes_.member(member).head().waiting);
    if (!at_least(call_of(word), current_.number))
      parts.push_back(fmt::format("rank {} has not entered call #{} (last finished call #{}){}", world_rank(member), current_.number,
                                  finished, elsewhere.empty() ? "" : fmt::format("; it {}", elsewhere)));
    else if (!at_least(finished, current_.number))
      parts.push_back(fmt::format("rank {} has entered it and not finished", world_rank(member)));
  }
  return parts.empty() ? "everybody has entered" : fmt::format("{}", fmt::join(parts, "; "));
}

Status Group::timed_out(double waited_s) const {
  return {ErrorCode::timeout, fmt::format("{} gave up after a timeout of {:.1f} s on rank {}: {}. This group is broken: make a new one",
                                          call_text(), waited_s, world_rank(me()), who_is_missing())};
}

Status Group::break_group(const Status& status) {
  return spread_break(status) ? broken_status() : gone_status();
}

// Where there is no memory for the whole story, the others at least hear that there is none.
Status Group::break_by_exception() {
  try {
    return break_group(fault_here(thrown_status()));
  } catch (const std::bad_alloc&) {
    spread_break(out_of_memory());
    return out_of_memory();
  }
}

// Writes the first cause into this rank's lane and then the abort word into everybody's; false when this rank has left. Takes no
// memory.
bool Group::spread_break(const Status& status) {
  {
    std::lock_guard lock(cause_mutex_);
    if (left_.load(std::memory_order_relaxed)) return false;
    LaneControl& mine = lanes_.mine();
    if (mine.abort.load(std::memory_order_acquire) != 0) return true;
    if (mine.cause[0] == 0) {
      const std::string_view text = status.message();
      const size_t length = std::min(text.size(), static_cast<size_t>(cause_bytes - 1));
      std::memcpy(mine.cause, text.data(), length);
      mine.cause[length] = 0;
    }
    uint64_t packed = pack_abort(status.code(), me(), static_cast<uint32_t>(status.peer()));
    for (int member = 0; member < size(); ++member) {
      uint64_t none = 0;
      lanes_.control(member).abort.compare_exchange_strong(none, packed, std::memory_order_acq_rel);
    }
  }
  lanes_.wake_everyone();
  return true;
}

void Group::note_end(const Status& status) try {
  parts_.world->note_waiting(status.ok() ? "" : "gave up in " + call_text());
} catch (const std::bad_alloc&) {  // the note is a help to others, no more
}

Status Group::broken_status() const {
  uint64_t packed = lanes_.mine().abort.load(std::memory_order_acquire);
  int reporter = static_cast<int>(packed >> 32 & 0xffff);
  auto code = static_cast<ErrorCode>(packed >> 56);
  if (reporter >= size() || static_cast<size_t>(code) > static_cast<size_t>(ErrorCode::internal))
    return {ErrorCode::protocol, "an invalid abort word"};
  const char* text = lanes_.control(reporter).cause;
  return {code, std::string(text, strnlen(text, cause_bytes)), static_cast<int32_t>(packed & 0xffffffff)};
}

// A fault of this rank's own, in the call at hand.
Status Group::fault_here(const Status& cause) const {
  return {cause.code(), fmt::format("rank {}: {}; {}. This group is broken: make a new one", world_rank(me()), cause.message(), call_text()),
          world_rank(me())};
}

Status Group::break_interrupted(const std::string& where) {
  return break_group({ErrorCode::revoked,
                      fmt::format("rank {} was interrupted in {}. This group is broken: make a new one", world_rank(me()), where),
                      world_rank(me())});
}

Status Group::gone_status() const {
  return {ErrorCode::state, fmt::format("group \"{}\" was destroyed before this call was performed", name())};
}

Status Group::abort(const std::string& why) {
  RETURN_IF_ERROR(intact());
  Status status = break_group({ErrorCode::revoked,
                               fmt::format("rank {} aborted group \"{}\": {}. This group is broken: make a new one",
                                           world_rank(me()), name(), why),
                               world_rank(me())});
  return status.code() == ErrorCode::state ? status : Status::success();
}

void Group::member_lost(int member) {
  uint32_t here = still_here;
  lanes_.left(me(), member).compare_exchange_strong(here, has_died, std::memory_order_acq_rel);
  ring_bell(lanes_.my_head());
  lanes_.wake_everyone();
}

}  // namespace unisono
