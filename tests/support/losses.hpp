// Scenes in which ranks die: who waits, who is killed when, and what the survivors must say.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "tests/support/calls.hpp"
#include "tests/support/children.hpp"
#include "tests/support/outcomes.hpp"

namespace unisono::testing {

// What the ranks of a scene and the test tell each other.
struct Signs {
  std::atomic<int> ready, go, rounds;
  std::atomic<int64_t> killed_ns;
};

// Everybody but the last of `late` enters a call in which they wait; then the victims are killed; then `late` enters too.
struct KillScene {
  int ranks = 4;
  std::vector<int> victims;
  int late = -1;  // a rank that is no victim
  Settings settings = Worlds::test_settings();
  double within_s = 1;  // what the survivors are promised
};
using WaitingCall = std::function<void(TestWorld&)>;
void expect_survivors_are_told(const KillScene& scene, const WaitingCall& call);

// The outcome names one of the victims as lost.
void expect_lost(const Outcome& outcome, const std::vector<int>& victims);

double seconds_between(int64_t from_ns, int64_t to_ns);

// What a process could leave behind: names in /dev/shm and in the temporary directory, children, meeting places.
class Traces {
 public:
  Traces() : before_(now()) {}
  void expect_none_left() const;

 private:
  static std::set<std::string> now();
  std::set<std::string> before_;
};

}  // namespace unisono::testing
