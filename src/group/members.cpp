// See members.hpp. Order: of what is stored and loaded here, as argued there.
#include "group/members.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/clock.hpp"
#include "base/legible.hpp"

namespace unisono {
namespace {

constexpr uint64_t pack_abort(ErrorCode code, int member, uint32_t blamed) {
  return static_cast<uint64_t>(code) << 56 | static_cast<uint64_t>(member & 0xffff) << 32 | blamed;
}

constexpr int64_t stopped_ns = 3'000'000'000;

// Since its control thread last looked around, of a rank on this host; it does so every second.
int64_t unseen_ns(const Neighbour& mate) { return now_ns() - mate.head().beat_ns.load(std::memory_order_relaxed); }

constexpr uint64_t pack_verdict(uint32_t call, const Verdict& verdict) {
  return make_word(call, static_cast<uint32_t>(verdict.one & 0xffff) << 16 | static_cast<uint32_t>(verdict.other & 0xffff));
}

}  // namespace

Members::Members(const LaneLayout& layout, int me, std::vector<Neighbour> neighbours, const Hosts& hosts, Remotes* remotes)
    : lanes_(layout, me, std::move(neighbours)), remotes_(remotes), ballots_(lanes_, hosts, remotes) {}

void Members::met(std::span<const int64_t> places, uint64_t group, uint32_t first_call) {
  lanes_.find(places);
  lanes_.start_mirrors(first_call - 1);
  group_ = group;
  ballots_.met(group);
}

// Of one on this host also whether it runs at all.
std::string Members::occupation(int member) const {
  const std::string said = read_note(lanes_.member(member).head().waiting);
  const int64_t away = is_here(member) && member != me() ? unseen_ns(lanes_.member(member)) : 0;
  if (away < stopped_ns) return said;
  return fmt::format("has not run for {:.0f} s{}", static_cast<double>(away) * 1e-9, said.empty() ? "" : "; before, it " + said);
}

uint64_t Members::times_heard(int member) const { return lanes_.member(member).head().waiting.version.load(std::memory_order_acquire); }

Announcement Members::announcement(int member, uint32_t call) const {
  Announcement announcement;
  std::unique_lock lock(told_mutex_, std::defer_lock);
  if (!is_here(member)) lock.lock();
  std::memcpy(&announcement, lanes_.cell(member, call).bytes, sizeof(announcement));
  return announcement;
}

bool Members::everybody_finished(uint32_t call) const {
  if (!at_least(finished(me()), call)) return false;
  for (int member : mates())
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

// The text goes into this rank's lane, then one word decides which fault of this host is the first, then that one goes into everybody's
// lane. Decided before anybody is told: who hears of it may leave at once, and who only sees that one leave is to name the same fault.
void Members::revoke_here(const Status& fault) {
  LaneControl& mine = lanes_.mine();
  if (mine.cause[0] == 0) {
    const std::string& text = fault.message();
    const size_t length = std::min(text.size(), static_cast<size_t>(cause_bytes - 1));
    std::memcpy(mine.cause, text.data(), length);
    mine.cause[length] = 0;
  }
  const uint64_t packed = pack_abort(fault.code(), me(), static_cast<uint32_t>(fault.peer()));
  uint64_t first = 0;
  if (lanes_.shared().fault.compare_exchange_strong(first, packed, std::memory_order_acq_rel)) first = packed;
  mine.abort.store(first, std::memory_order_release);
  for (int member : mates()) lanes_.control(member).abort.store(first, std::memory_order_release);
}

bool Members::revoke(const Status& fault) {
  if (is_broken()) return true;
  revoke_here(fault);
  return !span_hosts() || tell_fault();
}

bool Members::tell_fault() const try {
  const Status fault = this->fault();
  Notice told = notice(NoticeHead::Kind::fault);
  told.head.code = static_cast<uint16_t>(fault.code());
  told.head.rank = fault.peer();
  told.add_text(fault.message());
  tell(told);
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

// Of several faults, told at once from several hosts, the ranks of a host believe the first that one of them hears of.
void Members::told_fault(const Notice& notice) {
  if (!is_broken()) revoke_here({static_cast<ErrorCode>(notice.head.code), legible(notice.text()), notice.head.rank});
}

Notice Members::notice(NoticeHead::Kind kind) const {
  Notice notice;
  notice.head = {.kind = kind, .group = group_, .finished = finished(me())};
  return notice;
}

void Members::tell(const Notice& notice) const {
  for (int member = 0; member < size(); ++member)
    if (!is_here(member)) remotes_->tell(rank(member), notice);
}

Notice Members::call_notice(const ToldCall& said, bool asks) const {
  Notice told = notice(NoticeHead::Kind::announced);
  told.head.asks = asks;
  told.add(&said, sizeof(said));
  told.add_text(occupation(me()));
  return told;
}

void Members::tell_call(uint32_t call, const Announcement& announcement) { tell(call_notice({word(me(), call), announcement}, true)); }

void Members::ask_about(uint32_t call, int member, const Announcement& announcement) {
  remotes_->tell(rank(member), call_notice({word(me(), call), announcement}, true));
}

void Members::ask_occupation(int member) { remotes_->tell(rank(member), call_notice({}, true)); }

// The answer is about the same call, if there was one and this rank has announced it.
void Members::told_call(int member, const Notice& notice) {
  ToldCall told;
  if (!notice.read(told)) return;
  const uint32_t call = call_of(told.word);
  if (!knows_how_far(member)) lanes_.control(member).finished.store(notice.head.finished, std::memory_order_release);
  write_note(lanes_.member(member).head().waiting, legible(notice.text().substr(sizeof(told))));
  if (told.word != 0) {
    char* const text = told.announcement.text;
    if (told.announcement.state == CallState::refused) make_legible({text, strnlen(text, sizeof(told.announcement.text))});
    std::lock_guard lock(told_mutex_);
    std::memcpy(lanes_.cell(member, call).bytes, &told.announcement, sizeof(told.announcement));
    lanes_.word(member, call).store(told.word, std::memory_order_release);
  }
  if (!notice.head.asks) return;
  Notice answer;
  {
    std::lock_guard lock(told_mutex_);  // this rank's own cell is written under it, too
    ToldCall mine{word(me(), call), {}};
    if (told.word == 0 || call_of(mine.word) != call) mine.word = 0;
    if (mine.word != 0) std::memcpy(static_cast<void*>(&mine.announcement), lanes_.cell(me(), call).bytes, sizeof(mine.announcement));
    answer = call_notice(mine, false);
  }
  remotes_->tell(rank(member), answer);
  answer_for_stopped(member, call);
}

// Who is stopped or starved cannot answer; its mates read in its lane what it would say.
void Members::answer_for_stopped(int asker, uint32_t call) const {
  for (int mate : mates()) {
    if (unseen_ns(lanes_.member(mate)) < stopped_ns || presence(mate) != Presence::here) continue;
    ToldCall said{word(mate, call), {}};
    if (call == 0 || call_of(said.word) != call) said.word = 0;
    if (said.word != 0) said.announcement = announcement(mate, call);
    Notice told = notice(NoticeHead::Kind::announced);
    told.head.rank = mate;
    told.head.finished = finished(mate);
    told.add(&said, sizeof(said));
    told.add_text(fmt::format("{}, as rank {} on its host sees", occupation(mate), rank(me())));
    remotes_->tell(rank(asker), told);
  }
}

void Members::told_how_far(int member, const Notice& notice) {
  lanes_.control(member).finished.store(notice.head.finished, std::memory_order_relaxed);
  lanes_.control(member).leaving.store(1, std::memory_order_release);
}

bool Members::knows_how_far(int member) const {
  return is_here(member) || lanes_.control(member).leaving.load(std::memory_order_acquire) != 0;
}

void Members::told_left(int member, const Notice& notice) {
  told_how_far(member, notice);
  uint32_t here = still_here;
  lanes_.left(me(), member).compare_exchange_strong(here, has_left, std::memory_order_acq_rel);
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
  if (!span_hosts() || !is_here(member)) return;
  try {
    ballots_.testify(gone());
  } catch (const Error&) {  // shared memory was written over: whoever asks for a decision says so
  }
  Notice told = notice(NoticeHead::Kind::ended);
  told.head.rank = member;
  told.head.finished = finished(member);
  tell(told);
}

void Members::say_leaving() { lanes_.mine().leaving.store(1, std::memory_order_seq_cst); }

void Members::say_left() {
  try {
    MemberSet gone = this->gone();
    gone.add(me());
    ballots_.leave(gone);
  } catch (const std::exception&) {  // for want of memory, say: then the others count this member until its host is silent
    ballots_.close();
  }
  lanes_.left(me(), me()).store(has_left, std::memory_order_release);
  for (int member : mates()) lanes_.left(member, me()).store(has_left, std::memory_order_release);
  if (!span_hosts()) return;
  if (is_broken()) static_cast<void>(tell_fault());  // before: who hears that we left is to know why
  tell(notice(NoticeHead::Kind::left));
}

bool Members::all_left() const {
  for (int member = 0; member < size(); ++member)
    if (lanes_.left(me(), member).load(std::memory_order_acquire) == still_here) return false;
  return true;
}

void Members::told_ballots(int member, const Notice& notice) {
  try {
    ballots_.told(member, notice, gone());
  } catch (const Error&) {  // as in mark_died()
  }
}

MemberSet Members::gone() const {
  MemberSet gone(size());
  for (int member = 0; member < size(); ++member)
    if (presence(member) != Presence::here) gone.add(member);
  return gone;
}

}  // namespace unisono
