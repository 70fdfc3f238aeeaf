// Posting letters, turning the mail, waiting, and what goes wrong. See mailbox.hpp; next: engine/mail.cpp.
#include "group/mailbox.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.hpp"
#include "base/interrupt.hpp"
#include "group/group.hpp"
#include "group/world.hpp"

namespace unisono {
namespace {

constexpr uint32_t turns_between_mail_looks = 16;
constexpr double a_while_s = 0.05;
constexpr int64_t for_an_answer_ns = 20'000'000;

// A blocking call's letter: its owner waits for it, so it lives on the owner's stack.
class OwnLetter final : public Letter {
 public:
  using Letter::Letter;
  void over(const Status& status) override {
    is_over = true;
    outcome = status;
  }

  bool is_over = false;
  Status outcome;
};

}  // namespace

void MailWork::over(const Status& status) {
  status_ = status;
  keep_alive_.reset();
  const auto last = std::move(itself_);  // perhaps: nothing of this object is used after it
  completion_.end();
  Mailbox& mailbox = group_->mailbox();
  mailbox.pending_ -= 1;
  mailbox.token_.stir();
}

int MailWork::source_rank() const { return is_completed() && source != any_source ? group_->world_rank(source) : -1; }

bool MailWork::wait(std::optional<double> timeout_s) {
  throw_if_error(is_completed() ? exception() : group_->mailbox().wait_for(*this, timeout_s));
  return true;
}

Mailbox::Mailbox(Group& group, Members& members, Arena& arena, const WaitPolicy& policy)
    : group_(group),
      members_(members),
      policy_(policy),
      mail_(members.shared_memory(), arena, group.world().ways()),
      questions_(static_cast<size_t>(members.size())) {
  for (int member = 0; member < members.size(); ++member)
    mail_.read_private_memory(member, member != members.me() && group.world().may_read(group.world_rank(member)));
}

// Whatever is thrown in here breaks the group: letters are then in a state that nobody knows.
template <typename Step>
Status Mailbox::fenced(Step step) {
  try {
    return step();
  } catch (...) {
    return group_.break_by_exception([this](const Status& cause) {
      return Status(cause.code(), fmt::format("rank {}: {} while it moved letters of group \"{}\". This group is broken: make a new one",
                                              group_.world_rank(group_.me()), cause.message(), group_.name()));
    });
  }
}

// What the next holder and the progress thread go by.
void Mailbox::settle() {
  owes_replies_ = mail_.owes_replies() && mail_.failure().ok() && group_.intact().ok();
  if (noted_ && mail_.letters().empty()) {
    noted_ = false;
    group_.world().note_waiting("");
  }
}

// While letters are pending the progress thread comes back by itself (see progress()); replies it has to be told of.
void Mailbox::give_token() {
  settle();
  token_.give();
  if (owes_replies_) group_.world().wake_progress();
}

Status Mailbox::run(const Envelope& envelope, int* source) {
  RETURN_IF_ERROR(group_.usable());
  if (!token_.try_take()) {
    auto work = std::make_shared<MailWork>(group_.shared_from_this(), envelope, nullptr);
    post({work});
    Status status = wait_for(*work, std::nullopt);
    if (source) *source = work->source;
    return status;
  }
  const AtEnd given([this] {
    used_.add(1);
    give_token();
  });
  OwnLetter letter(envelope);
  Status status = fenced([&] {
    take_posted();
    admit(letter);
    return wait_until_done(bed(), policy_, [&] { return turn_for(letter.is_over); }, [this] { return examine(); });
  });
  if (!status.ok()) fail_all(status);
  if (source) *source = letter.source;
  return letter.is_over ? letter.outcome : status;  // not over: something was thrown before it was admitted
}

void Mailbox::post(const std::vector<std::shared_ptr<MailWork>>& works) {
  Status status;
  {
    std::lock_guard lock(mutex_);
    pending_ += static_cast<int>(works.size());
    status = or_out_of_memory([&]() -> Status {
      RETURN_IF_ERROR(group_.usable());
      posted_.insert(posted_.end(), works.begin(), works.end());  // all or none
      return Status::success();
    });
    if (status.ok())
      for (const auto& work : works) work->hold(work);
    waiting_ = static_cast<int>(posted_.size());
  }
  if (!status.ok()) {
    for (const auto& work : works) work->over(status);
    return;
  }
  if (token_.try_take()) {
    const AtEnd given([this] { give_token(); });
    status = fenced([this] { return turn(), Status::success(); });
    if (!status.ok()) fail_all(status);
  } else {
    members_.wake_me();  // whoever holds the token may sleep
  }
  if (pending_ != 0) group_.world().wake_progress();
}

// In the order posted, one by one: what throws in between leaves the others where they are.
void Mailbox::take_posted() {
  while (waiting_ != 0) {
    std::shared_ptr<MailWork> work;
    {
      std::lock_guard lock(mutex_);
      if (posted_.empty()) return;
      work = std::move(posted_.front());
      posted_.pop_front();
      waiting_ = static_cast<int>(posted_.size());
    }
    admit(*work);
  }
}

// Nothing is done for a group that was left or broke in the meantime, and nothing is sent to a member that is gone: it would lie
// in the ring, and its sender would believe that it was sent. Once it is entered, whatever throws, fail_all() ends it.
void Mailbox::admit(Letter& letter) {
  mail_.enter(letter);
  if (Status status = group_.usable(); !status.ok()) return mail_.finish(letter, status);
  if (letter.sends() && is_gone(letter.peer)) return mail_.finish(letter, group_.break_group(lost(letter, letter.peer)));
  mail_.post(letter);
}

bool Mailbox::turn() {
  take_posted();
  return mail_.turn();
}

void Mailbox::fail_all(const Status& status) {
  while (!mail_.letters().empty()) mail_.finish(*mail_.letters().first(), status);
  std::deque<std::shared_ptr<MailWork>> posted;
  {
    std::lock_guard lock(mutex_);
    posted.swap(posted_);
    waiting_ = 0;
  }
  for (auto& work : posted) work->over(status);
}

Mailbox::Share Mailbox::progress() {
  if (pending_ == 0 && !owes_replies_) return Share::idle;
  // Callers' threads that use the mailbox turn it for all; to sleep on the bell beside them would cost their peers a system
  // call a letter.
  if (const uint32_t used = used_; used != seen_used_) {
    seen_used_ = used;
    return Share::resting;
  }
  if (token_.wanted() || !token_.try_take()) return Share::resting;
  const AtEnd given([this] {
    turned_by_library_ = false;
    settle();
    token_.give();
  });
  bool moved = false;
  turned_by_library_ = true;
  Status status = fenced([&] {
    moved = turn();
    const bool looks = (policy_.crowded && !moved) || ++turns_ % turns_between_mail_looks == 0;
    return looks ? examine() : Status::success();
  });
  if (!status.ok()) fail_all(status);
  if (moved || !status.ok()) return Share::progressed;
  if (Alarm* const alarm = mail_.router().alarm()) alarm->set();
  return pending_ != 0 || owes_replies_ ? Share::blocked : Share::idle;
}

Status Mailbox::wait_for(MailWork& work, std::optional<double> timeout_s) {
  const Deadline deadline = timeout_s ? Deadline::in_seconds(*timeout_s) : Deadline{};
  if (group_.world().forked()) return group_.usable();
  RETURN_IF_ERROR(outside_interrupt_check());
  auto hold = [&] {
    auto look = [&] { return deadline.passed() ? Status(ErrorCode::timeout, "") : examine(); };
    Status status = fenced([&] {
      return wait_until_done(bed(), policy_, [&] { return turn_for(work.is_completed()); }, look, deadline);
    });
    if (!status.ok() && !deadline.passed()) fail_all(status);
    settle();
    used_.add(1);
    return status.ok();
  };
  InterruptWatch interrupts;  // of this thread, which may not be the one that turns the engine
  Status interrupted;
  auto over = [&] {
    if (!work.is_completed() && interrupts.tripped()) interrupted = group_.break_interrupted(text_of(work));
    return work.is_completed();
  };
  token_.wait_until(over, hold, deadline);
  if (owes_replies_) group_.world().wake_progress();
  if (!interrupted.ok()) return interrupted;
  if (work.is_completed()) return work.exception();
  return {ErrorCode::timeout, fmt::format("wait({}) expired; {} is still under way and may be waited for again", timeout_s.value_or(0), text_of(work))};
}

// Memory that letters speak of is its owner's again once they are over, and peers look at `leaving` after they read it.
void Mailbox::leave(const Status& gone) {
  token_.want();
  while (!token_.try_take()) token_.rest([] { return false; });
  token_.unwant();
  if (!members_.is_broken()) static_cast<void>(fenced([this] { return answer_all(); }).ok());
  fail_all(gone);
  mail_.router().finish();
  settle();
  token_.give();
}

// A letter was received here, and its sender still waits to hear so: if it never did, it would believe the letter lost.
Status Mailbox::answer_all() {
  constexpr double patience_s = 2;
  const Deadline enough = Deadline::in_seconds(patience_s);
  auto owes = [this] {
    bool any = false;
    for (int member = 0; member < members_.size() && mail_.owes_replies(); ++member) any |= !is_gone(member) && mail_.owes_answer(member);
    return any;
  };
  auto look = [&] { return enough.passed() || members_.is_broken() ? Status(ErrorCode::timeout, "") : mail_.failure(); };
  return wait_until_done(bed(), policy_, [&] { return !owes() ? Turn::done : mail_.turn() ? Turn::progressed : Turn::blocked; }, look, enough);
}

Status Mailbox::examine() {
  RETURN_IF_ERROR(group_.usable());
  if (members_.learn_fault()) return members_.fault();
  if (!mail_.failure().ok())
    return group_.break_group({mail_.failure().code(), fmt::format("rank {}: {}; group \"{}\". This group is broken: make a new one",
                                                                   group_.world_rank(group_.me()), mail_.failure().message(), group_.name())});
  RETURN_IF_ERROR(examine_members());
  auto is_needed = [this](int member) {
    return !is_gone(member) && !group_.world().is_in_doubt(group_.world_rank(member)) && mail_.needs(member);
  };
  if (const auto loss = mail_.router().unexplained_loss(is_needed))
    return group_.break_group(group_.no_way_to(loss->member, loss->why, fmt::format("letters of group \"{}\"", group_.name())));
  return examine_clock();
}

bool Mailbox::is_gone(int member) const { return members_.presence(member) != Presence::here; }

// The member that this letter waits for in vain, or -1. Who receives from anybody waits for whoever is left; but one that
// died may have been the one that was to send.
int Mailbox::gone_peer(const Letter& letter) const {
  const int peer = letter.sends() || letter.source == any_source ? letter.peer : letter.source;
  if (peer != any_source) return is_gone(peer) ? peer : -1;
  int left = -1;
  bool nobody_is_left = true;
  for (int member = 0; member < members_.size(); ++member) {
    if (member == members_.me()) continue;
    const Presence presence = members_.presence(member);
    if (presence == Presence::died) return member;
    nobody_is_left &= presence == Presence::left;
    if (presence == Presence::left) left = member;
  }
  return nobody_is_left ? left : -1;
}

Status Mailbox::lost(const Letter& letter, int member) const {
  const int rank = group_.world_rank(member);
  const bool left = members_.presence(member) == Presence::left;
  return {ErrorCode::peer_lost,
          fmt::format("rank {} ({}) {}; {}; seen by rank {}. This group is broken: make a new one without that rank", rank,
                      members_.process(member), left ? "left the group" + group_.world().last_words(rank) : group_.world().how_lost(rank), text_of(letter),
                      group_.world_rank(group_.me())),
          rank};
}

// What a member had sent before it was gone still counts: it is looked for again after it was seen to be gone, for as long as more
// may come, within reason.
Status Mailbox::examine_members() {
  bool somebody = false;
  for (const Letter* letter = mail_.letters().first(); letter; letter = letter->next) somebody |= gone_peer(*letter) >= 0;
  if (!somebody) return gone_since_ns_ = 0, Status::success();
  if (gone_since_ns_ == 0) gone_since_ns_ = now_ns();
  const bool patient = now_ns() - gone_since_ns_ < for_better_news_ns;
  if (mail_.turn()) gone_since_ns_ = now_ns();
  for (const Letter* letter = mail_.letters().first(); letter; letter = letter->next)
    if (int member = gone_peer(*letter); member >= 0 && !(patient && mail_.may_come_from(member)))
      return group_.break_group(lost(*letter, member));
  return Status::success();
}

Status Mailbox::examine_clock() {
  const int64_t now = now_ns();
  const Letter* const first = mail_.letters().first();
  if (!first) interrupts_ = {};  // nobody has waited so far
  if (first && !turned_by_library_ && interrupts_.tripped()) return group_.break_interrupted(text_of(*first));
  for (Letter* letter = mail_.letters().first(); letter; letter = letter->next) RETURN_IF_ERROR(examine_clock_of(*letter, now));
  return Status::success();
}

// The peer is asked what it is doing shortly before there is something to tell: so early that one more look, after at most one sleep, finds
// the answer.
Status Mailbox::examine_clock_of(Letter& letter, int64_t now) {
  constexpr double ahead_s = static_cast<double>(longest_sleep_ns + for_an_answer_ns) * 1e-9;
  if (letter.seen_ns == 0) letter.seen_ns = now;
  const double waited_s = static_cast<double>(now - letter.seen_ns) * 1e-9;
  if (!noted_ && waited_s > a_while_s) {
    noted_ = true;
    group_.world().note_waiting("waits in " + text_of(letter));
  }
  if (waited_s > a_while_s) ask_now_and_then(letter, now);
  const double timeout_s = letter.timeout_s > 0 ? letter.timeout_s : group_.timeout_s();
  const double warn_after_s = group_.world().settings().warn_after_s;
  const double left_s = (letter.warned ? timeout_s : std::min(timeout_s, warn_after_s)) - waited_s;
  if (left_s > 0 && (left_s > ahead_s || waited_s < a_while_s)) return Status::success();
  if (!knows_what_it_does(letter.peer, now) || left_s > 0) return Status::success();
  if (waited_s >= timeout_s)
    return group_.break_group({ErrorCode::timeout, fmt::format("{} gave up after a timeout of {:.1f} s on rank {}: {}. This group is broken: make a new one",
                                                               text_of(letter), waited_s, group_.world_rank(group_.me()), why_waiting(letter))});
  letter.warned = true;
  group_.world().log().warning(fmt::format("{} has waited {} s: {}", text_of(letter), warn_after_s, why_waiting(letter)));
  return Status::success();
}

void Mailbox::ask(int member, int64_t now) {
  questions_[static_cast<size_t>(member)] = {now, members_.times_heard(member)};
  members_.ask_occupation(member);
}

// Where the group is broken the answer is the fault, which whoever was to tell it may not have told here.
void Mailbox::ask_now_and_then(const Letter& letter, int64_t now) {
  constexpr int64_t between_ns = 1'000'000'000;
  const bool any = letter.peer == any_source;
  for (int member = any ? 0 : letter.peer; member < (any ? members_.size() : letter.peer + 1); ++member)
    if (!members_.is_here(member) && !is_gone(member) && now - questions_[static_cast<size_t>(member)].asked_ns > between_ns) ask(member, now);
}

// Asks a member on another host, unless that was done a moment ago for another letter. True once it has answered, or should have.
bool Mailbox::knows_what_it_does(int member, int64_t now) {
  constexpr int64_t fresh_ns = 3 * longest_sleep_ns;
  if (member == any_source || members_.is_here(member)) return true;
  const Question& question = questions_[static_cast<size_t>(member)];
  if (question.asked_ns == 0 || now - question.asked_ns > fresh_ns) ask(member, now);
  return has_answered(member) || now - question.asked_ns > for_an_answer_ns;
}

bool Mailbox::has_answered(int member) const {
  return members_.is_here(member) || members_.times_heard(member) != questions_[static_cast<size_t>(member)].heard_before;
}

std::string Mailbox::text_of(const Letter& letter) const {
  const std::string peer = letter.peer == any_source ? "any rank" : fmt::format("rank {}", group_.world_rank(letter.peer));
  return fmt::format("group \"{}\": {} {}[{}] {} {}, tag {}", group_.name(), letter.sends() ? "send" : "recv", name_of(letter.dtype),
                     letter.count(), letter.sends() ? "to" : "from", peer, letter.tag);
}

std::string Mailbox::why_waiting(const Letter& letter) const {
  if (letter.peer == any_source) return "nobody has sent anything with this tag";
  const int rank = group_.world_rank(letter.peer);
  std::string text = letter.sends() ? fmt::format("rank {} has not received it", rank) : fmt::format("rank {} has not sent it", rank);
  if (!letter.sends() && letter.source != any_source) text = fmt::format("rank {} has sent only a part of it", rank);
  const std::string elsewhere = members_.occupation(letter.peer);
  if (has_answered(letter.peer))
    text += fmt::format(" (last finished call #{}); it {}", members_.finished(letter.peer), elsewhere.empty() ? "waits in no call" : elsewhere);
  else
    text += "; asked what it is doing, it does not answer";
  const std::string unclaimed = letter.sends() ? "" : mail_.unclaimed_from(letter.peer);
  return unclaimed.empty() ? text : text + "; " + unclaimed;
}

}  // namespace unisono
