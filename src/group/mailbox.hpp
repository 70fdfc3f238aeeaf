// A group's letters: sends and receives between two of its members, beside its calls and independent of them.
//
// A blocking send or receive works inline in the caller's thread, while it holds the mailbox's token; posting never blocks:
// whoever holds the token, or else the progress thread, takes what was posted. Thread-safe.
//
// Order: what was posted is counted in pending_ before the poster wakes the progress thread, which never sleeps long while it
// finds letters pending; whoever holds the token meanwhile is woken by the bell, which is rung after the posting.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "base/interrupt.hpp"
#include "base/relaxed.hpp"
#include "engine/mail.hpp"
#include "group/completion.hpp"
#include "group/members.hpp"
#include "group/token.hpp"
#include "transport/waiting.hpp"
#include "unisono/work.hpp"

namespace unisono {

class Group;
class Mailbox;

// An asynchronous send or receive. It holds itself while it is under way, so a dropped handle is safe.
//
// Who writes: the poster before it is posted; then only the holder of the mailbox's token. Order: ending `completion_` is a
// release after the status, and asking whether it is over an acquire before it.
class MailWork final : public Work, public Letter {
 public:
  MailWork(std::shared_ptr<Group> group, const Envelope& envelope, std::shared_ptr<void> keep_alive)
      : Letter(envelope), group_(std::move(group)), keep_alive_(std::move(keep_alive)) {}

  bool wait(std::optional<double> timeout_s) override;
  bool is_completed() const override { return completion_.is_over(); }
  bool is_success() const override { return is_completed() && status_.ok(); }
  Status exception() const override { return is_completed() ? status_ : Status(); }
  void on_completion(std::function<void()> function) override { completion_.then(std::move(function)); }
  int source_rank() const override;

  void hold(std::shared_ptr<MailWork> itself) { itself_ = std::move(itself); }
  void over(const Status& status) override;

 private:
  std::shared_ptr<Group> group_;
  std::shared_ptr<void> keep_alive_;
  std::shared_ptr<MailWork> itself_;
  Status status_;
  Completion completion_;
};

class Mailbox {
 public:
  Mailbox(Group& group, Members& members, Arena& arena, const WaitPolicy& policy);
  Mailbox(const Mailbox&) = delete;

  Status run(const Envelope& envelope, int* source = nullptr);  // returns when it is over; `source`: the member that sent it
  void post(const std::vector<std::shared_ptr<MailWork>>& works);  // returns at once
  Status wait_for(MailWork& work, std::optional<double> timeout_s);

  enum class Share { idle, resting, blocked, progressed };  // resting: somebody else does the work; look again soon
  Share progress();  // by the progress thread
  void leave(const Status& gone);  // the group has been marked as left
  void met(uint64_t group) { mail_.router().met(group); }
  void close() { mail_.close(); }

 private:
  friend class MailWork;

  bool turn();
  void take_posted();
  void admit(Letter& letter);
  Turn turn_for(bool over) { return over ? Turn::done : turn() ? Turn::progressed : Turn::blocked; }
  template <typename Step>
  Status fenced(Step step);
  Bed bed() { return members_.bed(false, mail_.router().alarm()); }
  void settle();
  void give_token();
  void fail_all(const Status& status);
  Status answer_all();
  Status examine();
  Status examine_members();
  Status examine_clock();
  Status examine_clock_of(Letter& letter, int64_t now);
  void ask(int member, int64_t now);
  void ask_now_and_then(const Letter& letter, int64_t now);
  bool knows_what_it_does(int member, int64_t now);
  bool has_answered(int member) const;
  int gone_peer(const Letter& letter) const;
  bool is_gone(int member) const;
  Status lost(const Letter& letter, int member) const;
  std::string text_of(const Letter& letter) const;
  std::string why_waiting(const Letter& letter) const;

  Group& group_;
  Members& members_;
  RunnerToken token_;
  std::mutex mutex_;  // guards what was posted and not yet taken
  std::deque<std::shared_ptr<MailWork>> posted_;
  std::atomic<int> waiting_{0};      // how many those are
  std::atomic<int> pending_{0};      // works that are not over
  Relaxed<bool> owes_replies_;
  Relaxed<uint32_t> used_;           // how often a caller's thread has held the token
  // ---- under the token
  WaitPolicy policy_;
  Mail mail_;
  uint32_t turns_ = 0;
  int64_t gone_since_ns_ = 0;  // since when a letter waits for a member that is gone; 0: none does
  InterruptWatch interrupts_;
  bool turned_by_library_ = false;  // see Group
  uint32_t seen_used_ = 0;  // the progress thread's
  bool noted_ = false;  // that this process waits for a letter, for others to see
  struct Question {  // to a member on another host: what is it doing
    int64_t asked_ns = 0;
    uint64_t heard_before = 0;  // how often it had said so by then
  };
  std::vector<Question> questions_;  // by member
};

}  // namespace unisono
