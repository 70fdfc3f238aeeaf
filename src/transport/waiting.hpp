// How a rank waits: poll, then poll with PAUSE or give the core away a few times, then sleep on its bell.
//
// Order: see lanes.cpp; `Sleeper` is the sleeping half of that argument.
#pragma once

#include <sched.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/clock.hpp"
#include "transport/futex.hpp"
#include "transport/lane.hpp"
#include "unisono/status.hpp"

namespace unisono {

// Giving the core away, where ranks share cores. While none but ranks that wait for each other want it, it comes back within
// microseconds, which is less than a sleep and a wake-up cost. A stranger, or a rank that computes, keeps it for a slice of
// the scheduler's: then nothing is given away for a while, each time for longer.
class Yielding {
 public:
  bool pays(int64_t at_ns) const { return at_ns >= resting_until_ns_; }
  void yield(int64_t at_ns) {
    sched_yield();
    learn(at_ns, now_ns());
  }
  void learn(int64_t given_away_at_ns, int64_t back_at_ns) {
    constexpr int64_t slow_ns = 300'000, longest_rest_ns = 250'000'000;
    constexpr int quick_enough = 1000;
    if (back_at_ns - given_away_at_ns < slow_ns) {
      if (++quick_in_a_row_ >= quick_enough) rest_ns_ = shortest_rest_ns;
      return;
    }
    quick_in_a_row_ = 0;
    resting_until_ns_ = back_at_ns + rest_ns_;
    rest_ns_ = std::min(2 * rest_ns_, longest_rest_ns);
  }

 private:
  static constexpr int64_t shortest_rest_ns = 10'000'000;
  int64_t resting_until_ns_ = 0, rest_ns_ = shortest_rest_ns;
  int quick_in_a_row_ = 0;
};

// Decided when joining from how many ranks and cores there are; a value. Only what is learnt changes afterwards.
struct WaitPolicy {
  int64_t spin_ns = 50'000;      // how long to poll before sleeping
  int64_t patience_ns = 50'000;  // the same, as learnt: see learn()
  bool crowded = false;          // more ranks than cores: poll for 1 µs at the most, then yield, then sleep
  bool global_barrier = false;   // whether sleepers use membarrier (else publishers fence)
  Yielding yielding;

  // Once ranks sleep, waking them takes so long that the others fall asleep too, and so on for ever. Whoever slept and was
  // needed again soon therefore polls longer the next time; whoever waited long goes back to the setting.
  void learn(int64_t waited_ns) {
    constexpr int64_t soon_ns = 2'000'000;
    patience_ns = waited_ns < soon_ns ? std::min(2 * patience_ns, soon_ns) : spin_ns;
  }
};

inline constexpr int64_t longest_sleep_ns = 100'000'000;  // a lost wake-up, should there be one, costs no more than this

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// What has to be told that a thread is about to sleep, so that the bell rings for things that do not ring it themselves.
class Alarm {
 public:
  virtual void set() = 0;

 protected:
  ~Alarm() = default;
};

// Where a thread sleeps: on its process's bell, or, where one word releases a whole group at once, on that.
struct Bed {
  Bed(ArenaHead& head) : head(head) {}
  Bed(ArenaHead& head, const std::atomic<uint32_t>* release, Alarm* alarm = nullptr) : head(head), release(release), alarm(alarm) {}
  ArenaHead& head;
  const std::atomic<uint32_t>* release = nullptr;
  Alarm* alarm = nullptr;
};

// Counts a thread among its process's sleepers while it decides to sleep and sleeps. On a release word nobody is counted:
// whoever changes it always wakes, and the kernel compares it with what was read here.
class Sleeper {
 public:
  Sleeper(Bed bed, const WaitPolicy& policy) : bed_(bed), word_(bed.release ? *bed.release : bed.head.bell) {
    seen_ = word_.load(std::memory_order_acquire);
    if (bed_.release) return;
    bed_.head.sleepers.fetch_add(1, std::memory_order_seq_cst);
    if (policy.global_barrier)
      global_barrier();
    else
      std::atomic_thread_fence(std::memory_order_seq_cst);
    if (bed_.alarm) bed_.alarm->set();
  }
  ~Sleeper() {
    if (!bed_.release) bed_.head.sleepers.fetch_sub(1, std::memory_order_relaxed);
  }
  Sleeper(const Sleeper&) = delete;

  void sleep(int64_t longest_ns) const { futex_wait(word_, seen_, std::min(longest_ns, longest_sleep_ns)); }

 private:
  Bed bed_;
  const std::atomic<uint32_t>& word_;
  uint32_t seen_;
};

enum class Turn { blocked, progressed, done };

// Turns `turn` until it is done. `examine` is asked now and then, and after every sleep, whether to give up; and soon after
// the deadline, where one is given.
template <typename TurnFunction, typename ExamineFunction>
Status wait_until_done(Bed bed, WaitPolicy& policy, TurnFunction turn, ExamineFunction examine,
                       Deadline deadline = {}) {
  constexpr int plain_polls = 300, polls_between_looks = 64, most_yields = 16;
  constexpr unsigned moves_between_looks = 1024;
  constexpr int64_t crowded_spin_ns = 1000;
  int64_t spin_until = 0, slept_at = 0;
  int yields = 0;
  unsigned moves = 0;  // progress may go on and on and lead nowhere
  for (int polls = 1;; ++polls) {
    Turn outcome = turn();
    if (outcome != Turn::blocked && slept_at != 0) policy.learn(now_ns() - std::exchange(slept_at, 0));
    if (outcome == Turn::done) return Status::success();
    if (outcome == Turn::progressed) {
      polls = yields = 0;
      spin_until = 0;
      if (++moves % moves_between_looks == 0)
        if (Status status = examine(); !status.ok()) return status;
      continue;
    }
    if (polls < plain_polls && !policy.crowded) continue;
    if (polls % polls_between_looks != 0 && !policy.crowded) {
      relax();
      continue;
    }
    if (Status status = examine(); !status.ok()) return status;
    int64_t now = now_ns();
    if (spin_until == 0) spin_until = now + (policy.crowded ? std::min(policy.spin_ns, crowded_spin_ns) : policy.patience_ns);
    if (now < spin_until) continue;
    if (policy.crowded && yields < most_yields && policy.yielding.pays(now)) {
      ++yields;
      policy.yielding.yield(now);
      continue;
    }
    const Sleeper sleeper(bed, policy);
    outcome = turn();
    if (outcome == Turn::done) return Status::success();
    if (outcome == Turn::blocked) {
      if (slept_at == 0) slept_at = now;
      sleeper.sleep(deadline.remaining_ns());
    }
    polls = 0;
    spin_until = outcome == Turn::blocked && policy.crowded ? 1 : 0;
  }
}

}  // namespace unisono
