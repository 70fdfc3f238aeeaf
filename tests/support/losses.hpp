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

// Its error has all of these in its text.
void expect_parts(const Outcome& outcome, ErrorCode code, const std::vector<std::string>& parts);

// The outcome names one of the victims as lost.
void expect_lost(const Outcome& outcome, const std::vector<int>& victims);

double seconds_between(int64_t from_ns, int64_t to_ns);

// Whether a process still listens where the ranks of this job meet.
bool meeting_place_is_taken(const std::string& job);

// What a process could leave behind: names in /dev/shm, files in the temporary directory, children. The temporary directory
// is one of this object's own while it lives. Open MPI's names are those of a test of launchers that runs beside this one.
class Traces {
 public:
  Traces();
  ~Traces();
  Traces(const Traces&) = delete;
  void expect_none_left() const;

 private:
  std::filesystem::path temporary_;
  std::string temporary_before_;
  std::set<std::string> names_before_;
};

}  // namespace unisono::testing
