// Judges shapes first, then plays: one tile in flight and several, separate buffers and in place, partials that are wider than the output
// and those that lie in it. Read play.hpp next.
#include "schedule/verify.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "schedule/chunks.hpp"
#include "schedule/messages.hpp"
#include "schedule/play.hpp"
#include "schedule/shape.hpp"

namespace unisono {
namespace {

Result<CallSet> prepare(std::span<const Schedule> all_ranks) {
  RETURN_IF_ERROR(check_shape(all_ranks));
  Result<Messages> messages = match_messages(all_ranks);
  if (!messages.ok()) return messages.status();
  return CallSet{all_ranks, std::move(*messages)};
}

// Whether any rank of any call has an output chunk that may lie where its input does.
bool can_be_in_place(std::span<const CallSet> calls) {
  for (const CallSet& call : calls)
    for (const Schedule& schedule : call.ranks)
      for (int chunk = 0; chunk < chunk_count(schedule, Buffer::output); ++chunk)
        if (in_place_twin(schedule, chunk)) return true;
  return false;
}

bool carry_partials(std::span<const CallSet> calls) {
  return std::ranges::any_of(calls, [](const CallSet& call) { return call.ranks[0].partials; });
}

Status play_with_buffers(std::span<const CallSet> calls, PlayOptions play) {
  for (bool in_place : {false, true})
    for (bool widened : {true, false}) {
      if ((in_place && !can_be_in_place(calls)) || (widened && !carry_partials(calls))) continue;
      play.in_place = in_place;
      play.widened = widened;
      RETURN_IF_ERROR(Player(calls, play).play());
    }
  return Status::success();
}

Status play_all_ways(std::span<const CallSet> calls, const VerifyOptions& options, bool short_calls) {
  for (int window = 1; window <= options.max_window; ++window)
    // One tile more than there are slot sets, so that every set is used again within a call and across calls.
    RETURN_IF_ERROR(play_with_buffers(calls, {.window = window,
                                              .tiles = short_calls ? 1 : 2 * window + 1,
                                              .announced = options.announced,
                                              .canonical_order = options.canonical_order,
                                              .sets_aside = options.sets_aside,
                                              .seed = options.seed}));
  return Status::success();
}

}  // namespace

Status verify(std::span<const Schedule> all_ranks, VerifyOptions options) {
  Result<CallSet> call = prepare(all_ranks);
  if (!call.ok()) return call.status();
  const std::vector<CallSet> twice{*call, *call};
  return play_all_ways(twice, options, /*short_calls=*/false);
}

Status verify_sequence(std::span<const std::vector<Schedule>> calls, VerifyOptions options) {
  std::vector<CallSet> sets;
  for (const std::vector<Schedule>& all_ranks : calls) {
    Result<CallSet> call = prepare(all_ranks);
    if (!call.ok()) return call.status();
    if (!sets.empty() && (sets[0].ranks.size() != all_ranks.size() || sets[0].ranks[0].place.hosts != all_ranks[0].place.hosts))
      return Status(ErrorCode::internal, "the calls of a sequence are made by one group");
    sets.push_back(std::move(*call));
  }
  if (sets.empty()) return Status::success();
  RETURN_IF_ERROR(play_all_ways(sets, options, /*short_calls=*/true));
  return play_all_ways(sets, options, /*short_calls=*/false);
}

}  // namespace unisono
