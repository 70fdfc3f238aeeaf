// All that a group knows of its members, and all that it says to them: announcements, verdicts, faults, who is there and who has
// gone. The group's protocol (group.cpp, trouble.cpp, agree.cpp, …) speaks to the others through this class alone.
//
// Members on this host have lanes in shared memory, where what they say is read and what is said to them is stored; who writes which
// word there, and in which order, is argued in transport/lane.hpp. Members on other hosts are told by notices, and what they have told is
// kept in mirrors of their lanes (told_…): of them no more is known than that.
//
// Who writes: under the group's runner token, but for what is marked as of any thread. Order: what a word speaks of is written
// before the word is stored with release, and read after it was loaded with acquire. The first verdict stands: it is swapped in, with
// acquire-release. Faults: breaking.hpp.
#pragma once

#include <atomic>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "group/announcement.hpp"
#include "group/ballot_box.hpp"
#include "group/breaking.hpp"
#include "group/teller.hpp"
#include "transport/lanes.hpp"
#include "transport/waiting.hpp"
#include "unisono/status.hpp"

namespace unisono {

enum class Presence { here, left, died };

// Two members whose calls differ; twice the same: one that refused its call.
struct Verdict {
  int one = 0, other = 0;
};

class Members {
 public:
  Members(const LaneLayout& layout, int me, std::vector<Neighbour> neighbours, const Hosts& hosts, Teller* teller);  // null: all are here
  void met(std::span<const int64_t> places, uint64_t group, uint32_t first_call);  // takes no memory
  Lanes& shared_memory() { return lanes_; }                           // for the engine, which moves data there

  int size() const { return lanes_.members(); }
  int me() const { return lanes_.me(); }
  std::span<const int> mates() const { return lanes_.mates(); }  // the other members on this host
  bool is_here(int member) const { return lanes_.is_here(member); }
  bool span_hosts() const { return lanes_.spans_hosts(); }
  std::string process(int member) const { return lanes_.member(member).process(); }  // "pid 12 on two"
  std::string occupation(int member) const;  // in which call it has been waiting for a while, or gave up; "": in none. Any thread.
  uint64_t times_heard(int member) const;    // how often it has said so, of one on another host; what it said is then known. Any thread.
  int64_t heard_ns(int member) const { return heard_ns_[static_cast<size_t>(member)].load(std::memory_order_relaxed); }  // when it last said how far it is; 0: never

  // Sleeping and waking. A bed is shared where one word releases the whole group.
  Bed bed(bool shared = false, Alarm* alarm = nullptr) const {
    return {lanes_.my_head(), shared ? &lanes_.shared().released : nullptr, alarm};
  }
  void need_fences() { lanes_.need_fences(); }
  void wake_me() const { ring_bell(lanes_.my_head()); }      // any thread
  void wake_others() const { lanes_.wake_peers(); }          // those who sleep
  void wake_everyone() const { lanes_.wake_everyone(); }     // any thread

  // Announcements: first what is announced, then the word that stands for it.
  void write(uint32_t call, const Announcement& announcement) {
    std::unique_lock lock(told_mutex_, std::defer_lock);
    if (span_hosts()) lock.lock();  // the control thread reads it for others
    std::memcpy(lanes_.cell(me(), call).bytes, &announcement, announcement.used_bytes());
  }
  void announce(uint32_t call, uint64_t word) { lanes_.word(me(), call).store(word, std::memory_order_release); }
  uint64_t word(int member, uint32_t call) const { return lanes_.word(member, call).load(std::memory_order_acquire); }
  Announcement announcement(int member, uint32_t call) const;  // after its word was seen

  // To members on other hosts, whom words do not reach: which call this rank is in, and that it wants to know the same of them.
  void tell_call(uint32_t call, const Announcement& announcement);
  void ask_about(uint32_t call, int member, const Announcement& announcement);
  void ask_occupation(int member);  // whatever call it is in; takes no part in this rank's. Any thread.
  void ask_occupations();           // of all of them

  // How far each has come.
  void finish(uint32_t call) { lanes_.mine().finished.store(call, std::memory_order_release); }
  uint32_t finished(int member) const { return lanes_.control(member).finished.load(std::memory_order_acquire); }
  bool everybody_finished(uint32_t call) const;  // on this host
  void renew(uint32_t call) const { lanes_.renew(call); }  // see there

  // The first verdict on a call stands, and is returned.
  Verdict judge(uint32_t call, Verdict verdict);

  // The first fault breaks the group, for all. Of a host only the member whose fault stands there tells the others, and only what it saw itself; it may die before it has told all.
  // So whoever is asked about a call in a broken group answers with the fault (told_call), and who tells that a member ended, or leaves, says first what broke the group: nobody takes
  // what came of a fault for the fault. Any thread; takes no memory, but for telling it to other hosts: where there was none for that, it is owed.
  bool revoke(const Status& fault);  // false where this rank is leaving
  bool owes_fault() const { return owes_fault_.load(std::memory_order_relaxed); }
  void tell_owed();
  bool is_broken() const { return breaking_.is_broken(); }
  bool learn_fault() { return breaking_.learn(); }  // for who waits: see there
  Status fault() const { return breaking_.fault(); }

  // Who is there. Any thread.
  Presence presence(int member) const;
  void mark_died(int member);  // unless it had left; members on other hosts are told how far it had come
  bool knows_how_far(int member) const;  // it came; always of one on this host
  bool say_leaving();          // before anything is given up: peers may be reading it. False where it was said before.
  void say_left();             // after the last write into anything of the others
  bool all_left() const;

  // Deciding together, by votes and ballots. Any thread.
  void vote(const BallotQuestion& question, bool flag) { ballots_.vote(question, flag, gone()); }
  BallotAnswer ask_ballots(const BallotQuestion& question) { return ballots_.ask(question, gone()); }
  void remind_of_ballots() { ballots_.remind(gone()); }

  // What a member on another host has told. The control thread's.
  void told_call(int member, const Notice& notice);
  void told_fault(const Notice& notice);
  void told_left(int member, const Notice& notice);
  void told_how_far(int member, const Notice& notice);
  void told_ballots(int member, const Notice& notice);

 private:
  MemberSet gone() const;  // who has left or died
  int rank(int member) const { return lanes_.member(member).rank; }
  void tell(const Notice& notice) const;  // to all members on other hosts
  Notice notice(NoticeHead::Kind kind) const;
  Notice call_notice(const ToldCall& said, bool asks) const;
  Notice notice(const Status& fault) const;
  void tell_fault(const Status& fault);
  void tell_left();
  void answer_for_stopped(int asker, uint32_t call) const;

  Lanes lanes_;
  Teller* teller_;
  Breaking breaking_;
  BallotBox ballots_;
  uint64_t group_ = 0;             // its key
  std::atomic<bool> owes_fault_{false}, owes_left_{false};
  std::vector<std::atomic<int64_t>> heard_ns_;  // by member; of those on other hosts
  mutable std::mutex told_mutex_;  // guards the announcements in mirrors and, where the group spans hosts, this rank's own
};

}  // namespace unisono
