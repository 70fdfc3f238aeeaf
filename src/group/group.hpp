// The ranks that speak together: a subset of the World with its own call numbers.
//
// Calls are numbered in the order posted. A synchronous call with nothing before it runs inline in the caller's thread;
// behind asynchronous calls it queues. All members below the line are touched only while holding the runner token, the
// queue under its mutex. Thread-safe: calls from several threads are serialised.
//
// Order: queued_ is added to after a call was queued and looked at before the queue is; left_ says only that somebody began to
// leave, and the token orders the rest. What is said to other ranks, and in which order: members.hpp.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/interrupt.hpp"
#include "base/log.hpp"
#include "base/patient_mutex.hpp"
#include "base/relaxed.hpp"
#include "base/shortage.hpp"
#include "engine/exchange.hpp"
#include "engine/run.hpp"
#include "group/announcement.hpp"
#include "group/call_work.hpp"
#include "group/group_parts.hpp"
#include "group/mailbox.hpp"
#include "group/members.hpp"
#include "group/owed.hpp"
#include "group/signatures.hpp"
#include "group/token.hpp"
#include "planner/planner.hpp"
#include "transport/arena.hpp"
#include "transport/router.hpp"

namespace unisono {

// All that the plan and the announcement of a plain call depend on; a value.
struct Likeness {
  Collective kind = Collective::barrier;
  DType dtype = DType::uint8;
  bool plain = false;  // no lists, no function of the user's, and shapes are not compared
  ReduceKind op = ReduceKind::sum;  // not the user's: such a call is not plain, and its function not kept beyond it
  double factor = 1.0;
  int root = 0;
  int64_t count = 0, input_bytes = 0, output_bytes = 0;

  bool operator==(const Likeness&) const = default;
};

Status thrown_status();  // of the exception being handled

// A fault that begins so is about a connection, and not about the rank that it names: it may well be there. The text is what all hosts are told of a fault.
inline constexpr std::string_view lost_way = "the way to rank ";

class Group : public std::enable_shared_from_this<Group> {
 public:
  Group(GroupParts parts, Arena& arena);  // before its members have met: nothing else may be done with it
  void met(const GroupParts& parts);      // where they are, and all else that they have found out about each other
  ~Group();
  Group(const Group&) = delete;

  const std::string& name() const { return parts_.name; }
  const std::vector<int>& ranks() const { return parts_.ranks; }
  int size() const { return static_cast<int>(parts_.ranks.size()); }
  int me() const { return parts_.me; }
  int world_rank(int member) const { return parts_.ranks[static_cast<size_t>(member)]; }
  int index_of(int world_rank) const;  // -1: not a member
  double timeout_s() const { return parts_.timeout_s; }
  bool reproducible() const { return parts_.reproducible; }
  World& world() const { return *parts_.world; }
  const BoardKey& board_key() const { return parts_.board_key; }

  Status run(Call&& call);                                                          // returns when it is over
  std::shared_ptr<CallWork> post(Call call, std::shared_ptr<void> keep_alive);      // returns at once
  // Two calls that belong to one function: no other call comes between them, and the second is not begun if the first fails.
  Status run(Call&& first, Call&& second);
  std::shared_ptr<CallWork> post(Call first, Call second, std::shared_ptr<void> keep_alive);
  // Calls that are made again and again. Preparing decides what can be decided now; one call at a time is under way.
  Status prepare(StandingCall& standing);
  Status run(const std::shared_ptr<StandingCall>& standing);
  std::shared_ptr<CallWork> post(const std::shared_ptr<StandingCall>& standing);
  Status refuse(Collective kind, Status why);  // takes a call number, tells the others, returns `why`
  Status wait_for(CallWork& work, std::optional<double> timeout_s);
  Status abort(const std::string& why);        // any thread: frees every waiter on every rank
  Status usable() const;                       // ok, or why no call can be made, now and in this thread
  Status intact() const;                       // ok, or why none can be made at all
  bool was_left() const { return left_; }
  uint32_t finished() const { return members_.finished(me()); }  // the last call that is over here
  // True when every member that is still there says so; all of them get the same answer, also on a broken group.
  Result<bool> agree(bool flag, std::optional<double> timeout_s);
  // The same for any topic, and who has voted; those in `excluded` (members) are not waited for.
  struct Motion {
    Topic topic = Topic::agree;
    bool flag = false;
    Deadline deadline = {};
    double timeout_s = 0;  // of the deadline, for errors
    MemberSet excluded = MemberSet();
  };
  struct Decided {
    uint64_t number = 0;  // which decision of its topic it is in this group
    Outcome outcome = {};
  };
  Result<Decided> decide(const Motion& motion);
  void decline(const Motion& motion);  // votes no on the next number, and does not wait for what comes of it
  // Whether the others have made a smaller group without this rank: it may not make another, now that their weight is gone from this one.
  bool was_left_behind() const { return left_behind_; }
  Status left_behind();  // from now on
  std::vector<int> survivors() const;          // world ranks of the members that have not left and not died
  Result<std::vector<int>> failed_ranks() const;  // of the others, sorted; also on a broken group, not on a destroyed one

  // For tests: as if so many calls had been made that left nothing behind. All members do it together, in no call.
  void skip_calls(uint32_t count);

  Status no_way_to(int member, const Status& why, const std::string& in_what) const;  // the fault

  Mailbox& mailbox() { return mailbox_; }      // letters between two members, beside the calls

  // The progress thread's share: performs what it can of the queue; false when there was nothing to do.
  using Share = Mailbox::Share;
  Share progress();

  // From the control thread.
  void member_lost(int member);
  void told(int member, const Notice& notice);  // by a member on another host
  void tell_owed() { members_.tell_owed(); }  // a fault that was not told to other hosts, for want of memory
  void give_back_when_idle(int64_t idle_ns);

  // Leaving: nobody is waited for. Their memory is free once everybody has left (`all_left`).
  void leave();
  bool all_left() const;
  void release_memory();

 private:
  friend class Mailbox;

  struct Current {                       // the call at work
    const Call* call = nullptr;
    std::shared_ptr<CallWork> work;      // null for an inline call
    Likeness likeness;                   // of the call that `own` was decided for
    Decision own;
    Decision* decision = &own;           // or that of a standing call
    Path path = Path::slot;
    uint32_t number = 0;
    uint64_t word = 0;
    bool announced = false;
    bool compares = false;               // its signature is new here: announcements are compared in full
    int compared = 0;                    // with which members that has been done
    int differs = -1;                    // the member whose announcement is another in spite of the same hash
    bool renews = false;                 // it is one of those before which old numbers are marked anew
    Status refusal;                      // not ok: the call only takes its number and says so
    int64_t started_ns = 0;              // when it was first looked at while waiting; 0: not yet
    bool noted = false;                  // that this process waits in it, for others to see
    bool warned = false;
    int64_t told_ns = 0;                 // when members on other hosts were last told of it, and asked
    bool asked_unannounced = false;      // then it was not announced yet
    int64_t other_call_ns = 0;           // since when a frame of another call has been seen
    int64_t gone_ns = 0;                 // since when a member on another host has been known to be gone
    uint64_t gone_moves = 0;             // how often something had moved by then
    InterruptWatch interrupts;
  };

  template <typename Perform>
  bool at_once(Perform perform);  // false, and nothing done, when calls are waiting or another thread is calling
  // Nothing that is thrown may leave while the token is held: a call under way then breaks the group, for all ranks.
  template <typename Step>
  Status fenced(Step step) {
    try {
      return step();
    } catch (...) {
      return break_by_exception([this](const Status& cause) { return fault_here(cause); });
    }
  }
  // The exception is the one being handled. Where there is no memory for the whole story, the others at least hear that there is none.
  template <typename Describe>
  Status break_by_exception(Describe describe) {
    try {
      return break_group(describe(thrown_status()));
    } catch (const std::bad_alloc&) {
      spread_break(out_of_memory());
      return out_of_memory();
    }
  }
  Status perform_inline(const Call& call, Decision* standing = nullptr);
  Bed bed();
  template <typename Make>
  std::shared_ptr<CallWork> post_made(Collective kind, Make make);
  Status enqueue(std::initializer_list<std::shared_ptr<CallWork>> works);
  void complete(const std::shared_ptr<CallWork>& work, const Status& status);
  void give_token();
  void begin(const Call& call, Decision* standing);
  void mark_anew();
  void name_signature();
  void turn_into_refusal(const Status& why);
  Status plan(const Call& call, Decision* standing);
  Status decide(const Call& call, Decision& decision);
  Order order_for(const Call& call) const;
  bool may_announce();
  bool compare_announcements();
  ExchangeMode exchange_mode() const;
  void write_announcement();
  Turn enter_call();
  void note_in_history(uint64_t call);
  Turn turn();
  Status end(Status status);
  bool take_next();
  Share progress_queue();
  Share turn_queue();

  // group/trouble.cpp: whether and why the call at work cannot go on.
  Status examine();
  Status examine_differences();
  Status judge(int member, uint32_t number);
  Status verdict_status(uint32_t number, const Verdict& verdict) const;
  Status examine_members();
  Status examine_frames();
  Status earlier_difference(int member, uint64_t word) const;
  Owed owed_by_gone(int member);
  bool has_waited_for_better_news();
  void break_refused();
  void tell_call();
  Status examine_clock();
  double waited_s() const;
  Status timed_out(double waited_s) const;
  std::string who_is_missing() const;
  Status fault_here(const Status& cause) const;
  bool turned_by_library_ = false;  // whether the holder of the token is the progress thread, which nobody interrupts
  Status break_interrupted(const std::string& where);  // because the thread that waits here was interrupted
  Status gone_status() const;
  Status break_group(const Status& status);
  bool spread_break(const Status& status);
  void note_end(const Status& status);
  std::string call_text() const;
  BallotQuestion vote(const Motion& motion);  // group/agree.cpp
  Status undecided(const Motion& motion, const BallotAnswer& answer) const;  // likewise

  GroupParts parts_;
  Arena& arena_;
  Log log_;
  WaitPolicy policy_;
  RunnerToken token_;
  std::mutex queue_mutex_;
  std::deque<std::shared_ptr<CallWork>> queue_;
  std::atomic<int> queued_{0};
  Relaxed<bool> left_;
  PatientMutex agree_mutex_;
  struct Question {
    uint64_t number = 0;   // how often this member has voted
    bool is_open = false;  // it has not learnt the outcome of its last vote, and asks about that one before any other: else it would be ahead of those who come late
    bool flag = false;     // that vote
  };
  Question questions_[topics];  // under agree_mutex_
  Relaxed<bool> left_behind_;
  // ---- under the token
  Members members_;
  Router router_;
  Exchange exchange_;
  Run run_;
  Mailbox mailbox_;  // has a token of its own
  Planner planner_;
  Signatures signatures_;
  Current current_;
  uint32_t number_;            // of the last call
  uint32_t seen_by_all_;       // the last call that everybody is known to have announced
  std::optional<uint64_t> ran_ahead_[max_ring];  // the words of calls that this rank left before everybody had come
  uint64_t history_ = 0;       // of a group that spans hosts: all calls so far
  uint64_t tile_ = 0;          // running tile number: tiles of all calls that passed the gate
  uint32_t blocked_turns_ = 0;
  // ---- the control thread's
  uint32_t idle_since_call_ = 0;
  int64_t idle_since_ns_ = 0;
};

}  // namespace unisono
