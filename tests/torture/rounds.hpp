// One random round after the other until time is over, one fails, or somebody presses Ctrl-C, which lets the round at
// hand come to its end.
//
//   UNISONO_TORTURE_SECONDS  for how long, 2 unless told; 0: without end
//   UNISONO_TORTURE_SEED     where the dice begin, 1 unless told
//   UNISONO_TORTURE_ROUND    only this round, to see it again
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace unisono::testing {

// Time, seed and what is said on the way.
class Progress {
 public:
  explicit Progress(std::string name);
  int64_t seed() const { return seed_; }
  int64_t only_round() const { return only_round_; }  // 0: all
  bool is_over() const;
  bool is_interrupted() const;
  bool is_long() const { return seconds_ >= 10; }
  double patience_s() const;  // for whoever waits until it is over
  void tell(const std::string& how_far);  // every ten seconds
  void conclude(const std::string& how_far) const;

 private:
  void say(const std::string& how_far) const;
  std::string name_;
  int64_t seed_, only_round_, started_ns_, told_ns_;
  double seconds_;
};

// How many rounds there are at least, whatever the machine: in a short run, as ctest makes it, and in one of ten seconds or more.
struct LeastRounds {
  int64_t of_short = 1, of_long = 1;
};

// The round is given its seed and returns how many of `what` it tried.
void run_rounds(const std::string& what, const std::function<int64_t(uint64_t seed)>& round, LeastRounds least = {});

}  // namespace unisono::testing
