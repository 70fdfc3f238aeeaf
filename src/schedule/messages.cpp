// Sorts both ends of all messages by who speaks to whom, and walks the two lists side by side.
#include "schedule/messages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "schedule/text.hpp"

namespace unisono {
namespace {

struct End {
  int from, to, step;

  bool operator<(const End& other) const {
    return std::tie(from, to, step) < std::tie(other.from, other.to, other.step);
  }
  bool same_pair(const End& other) const { return from == other.from && to == other.to; }
};

struct Ends {
  std::vector<End> sends, receives;
};

Ends ends_of(std::span<const Schedule> all_ranks) {
  Ends ends;
  for (int rank = 0; rank < static_cast<int>(all_ranks.size()); ++rank) {
    const std::vector<Step>& steps = all_ranks[rank].steps;
    for (int step = 0; step < static_cast<int>(steps.size()); ++step) {
      const StepKind kind = steps[step].kind;
      if (kind == StepKind::send) ends.sends.push_back({rank, steps[step].peer, step});
      if (kind == StepKind::receive || kind == StepKind::receive_reduce)
        ends.receives.push_back({steps[step].peer, rank, step});
    }
  }
  std::sort(ends.sends.begin(), ends.sends.end());
  std::sort(ends.receives.begin(), ends.receives.end());
  return ends;
}

// Of two lists that ought to name the same pairs, the first place where they do not says which end is missing.
Status unmatched(std::span<const Schedule> all_ranks, const End* send, const End* receive) {
  const bool send_is_alone =
      send && (!receive || std::tie(send->from, send->to) < std::tie(receive->from, receive->to));
  if (send_is_alone)
    return broken(all_ranks[send->from], send->step, fmt::format("rank {} has no receive for this send", send->to));
  return broken(all_ranks[receive->to], receive->step,
                fmt::format("rank {} has no send for this receive", receive->from));
}

}  // namespace

Result<Messages> match_messages(std::span<const Schedule> all_ranks) {
  Messages messages;
  for (const Schedule& schedule : all_ranks) messages.of_step.emplace_back(schedule.steps.size(), -1);
  const Ends ends = ends_of(all_ranks);
  const size_t longer = std::max(ends.sends.size(), ends.receives.size());
  messages.all.reserve(longer);
  for (size_t index = 0; index < longer; ++index) {
    const End* send = index < ends.sends.size() ? &ends.sends[index] : nullptr;
    const End* receive = index < ends.receives.size() ? &ends.receives[index] : nullptr;
    if (!send || !receive || !send->same_pair(*receive)) return unmatched(all_ranks, send, receive);
    messages.of_step[send->from][send->step] = messages.of_step[receive->to][receive->step] = static_cast<int>(index);
    messages.all.push_back({send->from, send->step, receive->to, receive->step});
  }
  return messages;
}

Status broken(const Schedule& schedule, int step, const std::string& reason) {
  const int steps = static_cast<int>(schedule.steps.size());
  const std::string where = step < 0        ? ""
                            : step >= steps ? ", at the end"
                                            : fmt::format(", step {} ({})", step, text_of(schedule.steps[step]));
  return Status(ErrorCode::internal,
                fmt::format("{} {}, rank {} of {}{}: {}", name_of(schedule.collective), schedule.algorithm,
                            schedule.place.rank, schedule.place.ranks, where, reason),
                schedule.place.rank);
}

}  // namespace unisono
