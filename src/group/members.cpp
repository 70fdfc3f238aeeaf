// See members.hpp. Order: of what is stored and loaded here, as argued there.
#include "group/members.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/legible.hpp"

namespace unisono {
namespace {

constexpr int64_t stopped_ns = 3'000'000'000;

// Since its control thread last looked around, of a rank on this host; it does so every second.
int64_t unseen_ns(const Neighbour& mate) { return now_ns() - mate.head().beat_ns.load(std::memory_order_relaxed); }

constexpr uint64_t pack_verdict(uint32_t call, const Verdict& verdict) {
  return make_word(call, static_cast<uint32_t>(verdict.one & 0xffff) << 16 | static_cast<uint32_t>(verdict.other & 0xffff));
}

}  // namespace

Members::Members(const LaneLayout& layout, int me, std::vector<Neighbour> neighbours, const Hosts& hosts, Teller* teller)
    : lanes_(layout, me, std::move(neighbours)), teller_(teller), breaking_(lanes_), ballots_(lanes_, hosts, teller), heard_ns_(static_cast<size_t>(lanes_.members())) {}

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

bool Members::revoke(const Status& fault) {
  const Breaking::Report report = breaking_.report(fault);
  if (report == Breaking::Report::stands && span_hosts()) tell_fault(fault);
  return report != Breaking::Report::closed;
}

void Members::tell_fault(const Status& fault) {
  try {
    tell(notice(fault));
    owes_fault_.store(false, std::memory_order_relaxed);
  } catch (const std::bad_alloc&) {
    owes_fault_.store(true, std::memory_order_relaxed);
  }
}

void Members::tell_owed() {
  if (owes_left_.load(std::memory_order_relaxed)) tell_left();
  if (!owes_fault()) return;
  if (const auto fault = breaking_.open_fault()) tell_fault(*fault);
}

// Of several faults, told at once from several hosts, the ranks of a host believe the first that one of them hears of.
void Members::told_fault(const Notice& notice) {
  static_cast<void>(breaking_.report({static_cast<ErrorCode>(notice.head.code), legible(notice.text()), notice.head.rank}));
}

Notice Members::notice(const Status& fault) const {
  Notice told = notice(NoticeHead::Kind::fault);
  told.head.code = static_cast<uint16_t>(fault.code());
  told.head.rank = fault.peer();
  told.add_text(fault.message());
  return told;
}

Notice Members::notice(NoticeHead::Kind kind) const {
  Notice notice;
  notice.head = {.kind = kind, .group = group_, .finished = finished(me())};
  return notice;
}

void Members::tell(const Notice& notice) const {
  for (int member = 0; member < size(); ++member) {
    if (is_here(member)) continue;
    teller_->tell(rank(member), notice);
    if (notice.head.kind == NoticeHead::Kind::fault) FAULT_POINT("fault_told");
  }
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
  teller_->tell(rank(member), call_notice({word(me(), call), announcement}, true));
}

void Members::ask_occupations() { tell(call_notice({}, true)); }

void Members::ask_occupation(int member) { teller_->tell(rank(member), call_notice({}, true)); }

// The answer is about the same call, if there was one and this rank has announced it.
void Members::told_call(int member, const Notice& notice) {
  ToldCall told;
  if (!notice.read(told)) return;
  const uint32_t call = call_of(told.word);
  if (!knows_how_far(member)) lanes_.control(member).finished.store(notice.head.finished, std::memory_order_release);
  heard_ns_[static_cast<size_t>(member)].store(now_ns(), std::memory_order_relaxed);
  write_note(lanes_.member(member).head().waiting, legible(notice.text().substr(sizeof(told))));
  if (told.word != 0) {
    char* const text = told.announcement.text;
    if (told.announcement.state == CallState::refused) make_legible({text, strnlen(text, sizeof(told.announcement.text))});
    std::lock_guard lock(told_mutex_);
    std::memcpy(lanes_.cell(member, call).bytes, &told.announcement, sizeof(told.announcement));
    lanes_.word(member, call).store(told.word, std::memory_order_release);
  }
  if (!notice.head.asks) return;
  if (const auto fault = breaking_.open_fault()) return teller_->tell(rank(member), this->notice(*fault));  // who was to tell it may have died
  Notice answer;
  {
    std::lock_guard lock(told_mutex_);  // this rank's own cell is written under it, too
    ToldCall mine{word(me(), call), {}};
    if (told.word == 0 || call_of(mine.word) != call) mine.word = 0;
    if (mine.word != 0) std::memcpy(static_cast<void*>(&mine.announcement), lanes_.cell(me(), call).bytes, sizeof(mine.announcement));
    answer = call_notice(mine, false);
  }
  teller_->tell(rank(member), answer);
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
    teller_->tell(rank(asker), told);
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
  if (const auto fault = breaking_.open_fault()) tell(notice(*fault));  // before: it may have ended because of that
  Notice told = notice(NoticeHead::Kind::ended);
  told.head.rank = member;
  told.head.finished = finished(member);
  tell(told);
}

bool Members::say_leaving() {
  if (!breaking_.close()) return false;
  lanes_.mine().leaving.store(1, std::memory_order_seq_cst);
  return true;
}

// Who hears that this member left is to know why. The fault stands in a lane that may be another group's once all have left.
void Members::say_left() {
  Status fault;
  try {
    if (span_hosts() && learn_fault()) fault = this->fault();
    MemberSet gone = this->gone();
    gone.add(me());
    ballots_.leave(gone);
  } catch (const std::exception&) {  // for want of memory, say: then the others count this member until its host is silent
    ballots_.close();
  }
  lanes_.left(me(), me()).store(has_left, std::memory_order_release);
  for (int member : mates()) lanes_.left(member, me()).store(has_left, std::memory_order_release);
  if (!span_hosts()) return;
  if (!fault.ok()) tell_fault(fault);
  tell_left();
}

void Members::tell_left() {
  try {
    tell(notice(NoticeHead::Kind::left));
    owes_left_.store(false, std::memory_order_relaxed);
  } catch (const std::bad_alloc&) {
    owes_left_.store(true, std::memory_order_relaxed);
  }
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
