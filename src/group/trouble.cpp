// Whether and why the call at work cannot go on: different calls, lost members, deadlines, revocation.
#include <fmt/format.h>

#include "base/check.hpp"
#include "base/ranks_text.hpp"
#include "group/group.hpp"
#include "group/world.hpp"

namespace unisono {
namespace {

constexpr std::string_view broken_between_hosts = "This group spans hosts and is broken: make a new one";

}  // namespace

// Asked while waiting, never on the way of a call that goes well.
Status Group::examine() {
  if (left_) return gone_status();
  if (members_.learn_fault()) return members_.fault();
  if (current_.announced) RETURN_IF_ERROR(examine_differences());
  if (!run_.failure().ok()) {
    if (run_.unreadable() >= 0) parts_.world->stop_reading(world_rank(run_.unreadable()));
    return break_group(fault_here(run_.failure()));
  }
  RETURN_IF_ERROR(examine_frames());
  RETURN_IF_ERROR(examine_members());
  auto is_known = [this](int member) { return !parts_.world->is_in_doubt(world_rank(member)); };  // else it may have ended
  if (const auto loss = router_.unexplained_loss(is_known)) return break_group(no_way_to(loss->member, loss->why, call_text()));
  return examine_clock();
}

Status Group::no_way_to(int member, const Status& why, const std::string& in_what) const {
  if (why.code() == ErrorCode::resource)
    return {ErrorCode::resource, fmt::format("rank {} has no way to rank {}: {}; {}. This group is broken: make a new one", world_rank(me()),
                                             world_rank(member), why.message(), in_what),
            world_rank(me())};
  const Presence presence = members_.presence(member);
  const std::string_view though = presence == Presence::here ? "it has not ended" : presence == Presence::left ? "it had finished before it left" : "it had finished before it died";
  return {ErrorCode::peer_lost, fmt::format("{}{} ({}) is lost, though {}: {}; {}; seen by rank {}. This group is broken: "
                                            "make a new one",
                                            lost_way, world_rank(member), members_.process(member), though,
                                            why.message(), in_what, world_rank(me())),
          world_rank(member)};
}

Status Group::examine_differences() {
  if (!current_.refusal.ok()) return Status::success();
  if (current_.differs >= 0) return judge(current_.differs, current_.number);
  for (int member = 0; member < size(); ++member) {
    const uint64_t word = members_.word(member, current_.number);
    if (call_of(word) == current_.number && word != current_.word) return judge(member, current_.number);
  }
  return Status::success();
}

// The first to see a difference says which two ranks differ, so that everybody names the same two. Everybody is woken each time,
// since whoever has left the call may be waiting for this rank to have announced it. Between hosts the group breaks: somebody may have
// sent, and returned, before anybody knew.
Status Group::judge(int member, uint32_t number) {
  const bool refused = members_.announcement(member, number).state == CallState::refused;
  const Verdict mine = refused ? Verdict{member, member} : Verdict{std::min(member, me()), std::max(member, me())};
  if (members_.span_hosts()) return break_group(verdict_status(number, mine));
  const Verdict verdict = members_.judge(number, mine);
  members_.wake_everyone();
  return verdict_status(number, verdict);
}

Status Group::verdict_status(uint32_t number, const Verdict& verdict) const {
  const auto [one, other] = verdict;
  if (one >= size() || other >= size()) return {ErrorCode::protocol, "a verdict names ranks that are not in the group"};
  Announcement first = members_.announcement(one, number);
  const Announcement second = members_.announcement(other, number);
  first.text[sizeof(first.text) - 1] = 0;
  std::string where = fmt::format("group \"{}\", call #{}", name(), number);
  const bool breaks = members_.span_hosts();
  if (one == other)
    return {ErrorCode::peer_argument,
            fmt::format("rank {} refused its {}: {}; {}. {}", world_rank(one),
                        static_cast<size_t>(first.kind) < all_collectives().size() ? name_of(first.kind) : "call", first.text, where,
                        breaks ? broken_between_hosts : "No data was moved and the group is usable"),
            world_rank(one)};
  return {ErrorCode::mismatch,
          fmt::format("{}; {}: rank {} called {}, rank {} called {}. {}",
                      difference({world_rank(one), &first}, {world_rank(other), &second}), where, world_rank(one),
                      describe(first), world_rank(other), describe(second),
                      breaks ? broken_between_hosts : "No output was written and the group is usable"),
          world_rank(me() == one ? other : one)};
}

// A frame of another call than this one, but of its number: its sender is asked which it made, and examine_differences() tells when the
// answer is here. Of calls that are over nobody can be asked any more.
Status Group::examine_frames() {
  const auto [member, word] = run_.met_other_call();
  if (member < 0 || !current_.announced) return Status::success();
  if (call_of(word) != current_.number || word == current_.word) return break_group(earlier_difference(member, word));
  const int64_t now = now_ns();
  if (current_.other_call_ns == 0) {
    current_.other_call_ns = now;
    members_.ask_about(current_.number, member, current_.decision->announcement);
  }
  if (now - current_.other_call_ns < for_better_news_ns) return Status::success();
  return break_group({ErrorCode::mismatch, fmt::format("rank {} made another call than rank {}, and does not say which; {}. {}", world_rank(member),
                                                       world_rank(me()), call_text(), broken_between_hosts),
                      world_rank(member)});
}

Status Group::earlier_difference(int member, uint64_t word) const {
  const std::string what = call_of(word) == current_.number
                               ? fmt::format("that was before call #{}", current_.number)
                               : fmt::format("rank {} sent a part of its call #{} where rank {} awaits one of #{}", world_rank(member),
                                             call_of(word), world_rank(me()), current_.number);
  return {ErrorCode::mismatch, fmt::format("ranks {} and {} have made different calls in group \"{}\": {}; seen in {}. {}", world_rank(member),
                                           world_rank(me()), name(), what, call_text(), broken_between_hosts),
          world_rank(member)};
}

void Group::break_refused() {
  static_cast<void>(break_group(verdict_status(current_.number, {me(), me()})).ok());
}

// Members on other hosts do not see this rank's announcements: once it has waited for a while they are told, and asked for theirs, so
// that everybody can say who is missing, and whose calls differ though nobody has sent anything. A rank that waits for its mates before it may announce its call asks as well: a broken group answers with its fault.
void Group::tell_call() {
  constexpr int64_t between_ns = 1'000'000'000;
  const int64_t now = now_ns();
  const bool is_news = current_.announced && std::exchange(current_.asked_unannounced, false);
  if (!members_.span_hosts() || (current_.told_ns != 0 && now - current_.told_ns < between_ns && !is_news)) return;
  current_.told_ns = now;
  current_.asked_unannounced = !current_.announced;
  if (current_.announced)
    members_.tell_call(current_.number, current_.decision->announcement);
  else
    members_.ask_occupations();
}

void Group::told(int member, const Notice& notice) {
  switch (notice.head.kind) {
    case NoticeHead::Kind::announced:  // of the teller, or of one on its host that does not run
      if (const int about = notice.head.rank; about < 0)
        members_.told_call(member, notice);
      else if (about < size() && parts_.hosts.share(about, member))
        members_.told_call(about, notice);
      return;
    case NoticeHead::Kind::left: return members_.told_left(member, notice);
    case NoticeHead::Kind::ballots: return members_.told_ballots(member, notice);
    case NoticeHead::Kind::ended:
      if (const int ended = notice.head.rank; ended >= 0 && ended < size() && parts_.hosts.share(ended, member)) members_.told_how_far(ended, notice);
      return;
    case NoticeHead::Kind::fault:
      if (left_) return;
      members_.told_fault(notice);
      return members_.wake_everyone();
    default: return;
  }
}

// Since nothing has moved any more.
bool Group::has_waited_for_better_news() {
  if (current_.gone_ns == 0 || current_.gone_moves != run_.moves()) {
    current_.gone_ns = now_ns();
    current_.gone_moves = run_.moves();
  }
  return now_ns() - current_.gone_ns > for_better_news_ns;
}

Owed Group::owed_by_gone(int member) {
  const bool knows = members_.knows_how_far(member);
  return owed_by({.is_here = members_.is_here(member),
                  .knows_how_far = knows,
                  .has_finished = knows && at_least(members_.finished(member), current_.number),
                  .is_silent = parts_.world->is_silent(world_rank(member)),
                  .is_awaited = router_.awaits(member),
                  .has_no_more = !knows && router_.has_no_more(member),
                  .has_been_waited_for = !knows && has_waited_for_better_news()});
}

// A member that died or left is a fault only if this call still needs something of it.
Status Group::examine_members() {
  for (int member = 0; member < size(); ++member) {
    if (member == me()) continue;
    const Presence presence = members_.presence(member);
    if (presence == Presence::here) continue;
    const Owed owed = owed_by_gone(member);
    if (owed == Owed::nothing) continue;
    if (owed == Owed::what_it_sent) return break_group(no_way_to(member, {ErrorCode::peer_lost, "its machine has fallen silent"}, call_text()));
    const std::string how = presence == Presence::left ? "left the group" + parts_.world->last_words(world_rank(member)) : parts_.world->how_lost(world_rank(member));
    return break_group({ErrorCode::peer_lost,
                        fmt::format("rank {} ({}) {}; {}; {}first seen by rank {} after {:.2f} s. "
                                    "This group is broken: make a new one without that rank",
                                    world_rank(member), members_.process(member), how, call_text(),
                                    members_.knows_how_far(member) ? fmt::format("its last finished call is #{}; ", members_.finished(member)) : "",
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
  if (waited > a_while_s) tell_call();
  double warn_after_s = parts_.world->settings().warn_after_s;
  constexpr int64_t for_answers_ns = 20'000'000;  // of other hosts, who were asked just now
  const bool asked = !members_.span_hosts() || now_ns() - current_.told_ns > for_answers_ns;
  if (!current_.warned && waited > warn_after_s && asked) {
    current_.warned = true;
    log_.warning(fmt::format("{} has waited {} s: {}", call_text(), warn_after_s, who_is_missing()));
  }
  return Status::success();
}

std::string Group::call_text() const {
  return fmt::format("group \"{}\", call #{} {}", name(), current_.number, describe(current_.decision->announcement));
}

// Who has not entered, who is in another call, and how far each has come; of members on other hosts, as they last said.
std::string Group::who_is_missing() const {
  std::vector<std::string> parts;
  std::vector<int> inside;
  const std::string_view unknown = current_.told_ns == 0 ? ", as far as is known here" : ", as far as is known here: it has not answered";
  for (int member = 0; member < size(); ++member) {
    if (member == me()) continue;
    const uint32_t finished = members_.finished(member);
    const std::string elsewhere = members_.occupation(member);
    const bool is_known = members_.is_here(member) || members_.knows_how_far(member) || members_.heard_ns(member) >= current_.started_ns;
    if (!at_least(call_of(members_.word(member, current_.number)), current_.number))
      parts.push_back(fmt::format("rank {} has not entered call #{}{}{}", world_rank(member), current_.number,
                                  is_known ? fmt::format(" (last finished call #{})", finished) : std::string(unknown),
                                  elsewhere.empty() ? "" : fmt::format("; it {}", elsewhere)));
    else if (!at_least(finished, current_.number))
      inside.push_back(world_rank(member));
  }
  if (!inside.empty()) parts.push_back(fmt::format("{} {} entered it and not finished", ranks_text(inside), inside.size() == 1 ? "has" : "have"));
  if (parts.empty()) parts.push_back("everybody has entered");
  const bool is_on_the_way = members_.span_hosts() && current_.path == Path::schedule && current_.announced;
  if (const std::string how_far = is_on_the_way ? run_.how_far() : ""; !how_far.empty()) parts.push_back(how_far);
  return fmt::format("{}", fmt::join(parts, "; "));
}

Status Group::timed_out(double waited_s) const {
  return {ErrorCode::timeout, fmt::format("{} gave up after a timeout of {:.1f} s on rank {}: {}. This group is broken: make a new one",
                                          call_text(), waited_s, world_rank(me()), who_is_missing())};
}

Status Group::break_group(const Status& status) {
  return spread_break(status) ? members_.fault() : gone_status();
}

// False when this rank has left. Takes no memory.
bool Group::spread_break(const Status& status) {
  if (!members_.revoke(status)) return false;
  if (members_.owes_fault()) parts_.world->wake_control();
  members_.wake_everyone();
  return true;
}

void Group::note_end(const Status& status) try {
  parts_.world->note_waiting(status.ok() ? "" : "gave up in " + call_text());
} catch (const std::bad_alloc&) {  // the note is a help to others, no more
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

void Group::member_lost(int member) { members_.mark_died(member); }

}  // namespace unisono
