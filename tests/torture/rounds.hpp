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
  double patience_s() const;  // for whoever waits until it is over
  void tell(const std::string& how_far);  // every ten seconds
  void conclude(const std::string& how_far) const;

 private:
  void say(const std::string& how_far) const;
  std::string name_;
  int64_t seed_, only_round_, started_ns_, told_ns_;
  double seconds_;
};

// The round is given its seed and returns how many of `what` it tried.
void run_rounds(const std::string& what, const std::function<int64_t(uint64_t seed)>& round);

}  // namespace unisono::testing
