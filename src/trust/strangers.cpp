// See strangers.hpp.
#include "trust/strangers.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <map>

namespace unisono {

size_t strangers_within(uint64_t descriptors) {
  constexpr uint64_t part = 16, least = 4;
  return static_cast<size_t>(std::clamp<uint64_t>(descriptors / part, least, most_strangers));
}

size_t strangers_here() {
  rlimit limit = {};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? strangers_within(limit.rlim_cur) : most_strangers;
}

std::optional<size_t> one_to_send_away(std::span<const Stranger> strangers, int64_t now_ns) {
  constexpr int64_t undisturbed_ns = 1'000'000'000;  // of one that names this job: time enough to shake hands
  const bool all_name_us = std::ranges::all_of(strangers, &Stranger::names_our_job);
  std::map<std::string_view, int> from;
  for (const Stranger& stranger : strangers) ++from[stranger.network];
  std::optional<size_t> leaves;
  int most = 0;
  for (size_t index = 0; index < strangers.size(); ++index) {
    const Stranger& stranger = strangers[index];
    if (all_name_us ? now_ns - stranger.since_ns < undisturbed_ns : stranger.names_our_job) continue;
    if (const int count = from[stranger.network]; count > most) {
      most = count;
      leaves = index;
    }
  }
  return leaves;
}

}  // namespace unisono
