// The monotonic clock and deadlines. Wall-clock time is never used, so a jump of it has no effect.
#pragma once

#include <chrono>
#include <cstdint>

namespace unisono {

inline int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

inline constexpr int64_t never_ns = INT64_MAX;

// Where a connection ends, or its peer falls silent, others may know better what became of it: they are waited for so long. The two seconds
// that are promised have room for it, and for telling everybody.
inline constexpr int64_t for_better_news_ns = 1'500'000'000;

// A point in time by which something must have happened; a value.
struct Deadline {
  int64_t at_ns = never_ns;

  static Deadline in_seconds(double seconds) {
    if (seconds >= 9e9) return {};
    return {now_ns() + static_cast<int64_t>(seconds * 1e9)};
  }
  bool passed() const { return at_ns != never_ns && now_ns() >= at_ns; }
  int64_t remaining_ns() const { return at_ns == never_ns ? never_ns : at_ns - now_ns(); }
  Deadline later_by(double seconds) const { return {at_ns == never_ns ? never_ns : at_ns + static_cast<int64_t>(seconds * 1e9)}; }
};

inline Deadline earlier(const Deadline& one, const Deadline& other) { return one.at_ns < other.at_ns ? one : other; }

// What is still to be said, heard or acknowledged when the deadline of joining has passed has so long: joining is over within a second of it.
inline constexpr double joining_overtime_s = 0.8;

}  // namespace unisono
