// See shape.hpp. What depends on the order of steps on different ranks is judged in play.cpp.
#include "schedule/shape.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string>

#include "base/check.hpp"
#include "schedule/chunks.hpp"
#include "schedule/messages.hpp"
#include "schedule/text.hpp"

namespace unisono {
namespace {

Status check_teams(const Schedule& schedule) {
  for (size_t number = 0; number < schedule.teams.size(); ++number) {
    const std::vector<int>& ranks = schedule.teams[number];
    const bool ascend = std::ranges::adjacent_find(ranks, std::greater_equal()) == ranks.end();
    if (ranks.empty() || !ascend || ranks.front() < 0 || ranks.back() >= schedule.place.ranks)
      return broken(schedule, -1, fmt::format("team[{}] is not a list of ranks of the group in ascending order", number));
  }
  return Status::success();
}

Status check_header(std::span<const Schedule> all_ranks, int rank) {
  const Schedule &schedule = all_ranks[rank], &first = all_ranks[0];
  const int ranks = static_cast<int>(all_ranks.size());
  const Place& place = schedule.place;
  if (place.rank != rank || place.ranks != ranks)
    return broken(schedule, -1, fmt::format("this should be the schedule of rank {} of {}", rank, ranks));
  if (schedule.collective != first.collective || schedule.algorithm != first.algorithm)
    return broken(schedule, -1, fmt::format("rank 0 plays {} {}", name_of(first.collective), first.algorithm));
  if (place.root < 0 || place.root >= ranks || place.root != first.place.root)
    return broken(schedule, -1, fmt::format("the root is {}, and {} on rank 0", place.root, first.place.root));
  if (schedule.chunks < 1 || schedule.chunks != first.chunks)
    return broken(schedule, -1, fmt::format("the data has {} chunks, and {} on rank 0", schedule.chunks, first.chunks));
  if (schedule.partials != first.partials) return broken(schedule, -1, "not all ranks carry partials");
  if (schedule.partials && (schedule.gathered_chunks > 0 || !adds(schedule.collective)))
    return broken(schedule, -1, "partials are sums that travel in messages: what is gathered was given");
  if (schedule.partial_slots != first.partial_slots || schedule.partial_slots > (schedule.partials ? schedule.stage_slots : 0))
    return broken(schedule, -1, fmt::format("of {} stage slots {} hold partials, and {} on rank 0", schedule.stage_slots, schedule.partial_slots, first.partial_slots));
  if (schedule.scratch_chunks > chunk_count(schedule, Buffer::input) * (schedule.partials ? 2 : 1))
    return broken(schedule, -1, "there is more scratch than input to say how long it is");
  if (schedule.gathered_chunks != 0 && (schedule.gathered_chunks != ranks || own_chunk(schedule) >= chunk_count(schedule, Buffer::input)))
    return broken(schedule, -1, "what is gathered is a part of each rank's, as long as this rank's own input");
  if (schedule.stage_slots < 0 || schedule.stage_slots != first.stage_slots)
    return broken(schedule, -1,
                  fmt::format("it has {} stage slots, and {} on rank 0", schedule.stage_slots, first.stage_slots));
  if (!place.hosts.one() && place.hosts.ranks() != ranks)
    return broken(schedule, -1, fmt::format("the hosts {} have {} ranks", place.hosts.text(), place.hosts.ranks()));
  if (place.hosts != first.place.hosts)
    return broken(schedule, -1, fmt::format("the hosts are {}, and {} on rank 0", place.hosts.text(), first.place.hosts.text()));
  return check_teams(schedule);
}

// The checks of one step of one rank against the schedules of all.
class StepCheck {
 public:
  StepCheck(std::span<const Schedule> all_ranks, int rank, int step)
      : all_ranks_(all_ranks), schedule_(all_ranks[rank]), index_(step), step_(schedule_.steps[step]) {}

  Status check() const {
    RETURN_IF_ERROR(check_marks());
    RETURN_IF_ERROR(check_team());
    switch (step_.kind) {
      case StepKind::send:
        RETURN_IF_ERROR(check_one_peer());
        return step_.source.buffer == Buffer::none ? Status::success() : check_readable(step_.source);
      case StepKind::receive:
      case StepKind::receive_reduce:
        RETURN_IF_ERROR(check_one_peer());
        if (step_.kind == StepKind::receive && step_.target.buffer == Buffer::none) return Status::success();
        return check_writable();
      case StepKind::copy:
      case StepKind::reduce:
        RETURN_IF_ERROR(check_readable(step_.source));
        return check_writable();
      case StepKind::publish:
      case StepKind::await:
        return check_flag();
      case StepKind::read_peer:
        RETURN_IF_ERROR(check_one_peer());
        RETURN_IF_ERROR(check_shown_by(step_.peer));
        return check_writable();
      case StepKind::reduce_peers:
        return check_combination();
    }
    return fail("no such kind of step");
  }

 private:
  int me() const { return schedule_.place.rank; }
  Status fail(const std::string& reason) const { return broken(schedule_, index_, reason); }

  Status check_marks() const {
    const bool combines = step_.kind == StepKind::reduce_peers || step_.kind == StepKind::reduce || step_.kind == StepKind::receive_reduce;
    if (step_.scales && step_.kind != StepKind::reduce_peers && step_.kind != StepKind::copy) return fail("this step takes nothing as it was given");
    if (step_.completes && !combines) return fail("this step combines nothing that could be complete");
    if ((step_.scales || step_.completes) && !adds(schedule_.collective)) return fail("nothing is added up in this collective");
    return Status::success();
  }

  Status check_team() const {
    if (step_.team == everyone) return Status::success();
    if (step_.kind != StepKind::await && step_.kind != StepKind::reduce_peers) return fail("this step goes by no team");
    if (step_.team < 0 || step_.team >= static_cast<int>(schedule_.teams.size())) return fail(fmt::format("there is no team[{}]", step_.team));
    return Status::success();
  }

  Status check_one_peer() const {
    if (step_.peer < 0 || step_.peer >= schedule_.place.ranks) return fail("this step needs one peer of the group");
    if (step_.peer == me()) return fail("a rank is not its own peer");
    return Status::success();
  }

  // Memory and flags are shared within a host; nothing but messages goes from one to another.
  Status check_on_my_host(int peer) const {
    if (schedule_.place.hosts.share(me(), peer)) return Status::success();
    return fail(fmt::format("rank {} is on another host, and neither its memory nor its flags can be seen from here", peer));
  }

  Status check_exists(const Schedule& owner, ChunkRef chunk) const {
    const int count = chunk_count(owner, chunk.buffer);
    if (chunk.chunk >= 0 && chunk.chunk < count) return Status::success();
    const int rank = owner.place.rank;
    const std::string_view buffer = name_of(chunk.buffer);
    if (count == 0 && has_root(owner.collective))
      return fail(fmt::format("rank {} has no {} in a {} with root {}", rank, buffer, name_of(owner.collective),
                              owner.place.root));
    return fail(fmt::format("rank {} has {} {} chunks, so there is no {}", rank, count, buffer, text_of(chunk)));
  }

  Status check_readable(ChunkRef chunk) const { return check_exists(schedule_, chunk); }

  Status check_readable_at(int peer) const {
    const Buffer buffer = step_.source.buffer;
    if (buffer == Buffer::scratch || buffer == Buffer::gathered || buffer == Buffer::partial) return fail("the scratch of a peer is private");
    return check_exists(all_ranks_[peer], step_.source);
  }

  Status check_shown_by(int peer) const {
    RETURN_IF_ERROR(check_on_my_host(peer));
    return check_readable_at(peer);
  }

  Status check_writable() const {
    if (step_.target.buffer == Buffer::input) return fail("the input is never written");
    return check_exists(schedule_, step_.target);
  }

  Status check_combination() const {
    if (step_.peer != everyone) return fail("this step goes by a team, not by one peer");
    if (holds_partials(schedule_, step_.target) && step_.source.buffer != Buffer::stage) return fail("a partial of several ranks is made of what they stage");
    const Team team(schedule_, step_);
    if (!team.has(me()) && step_.own != ChunkRef{}) return fail("this rank is not in the team, and gives something of its own");
    for (int index = 0; index < team.size(); ++index) {
      const int rank = team[index];
      if (rank == me()) RETURN_IF_ERROR(check_readable(step_.own));
      else if (step_.source.buffer == Buffer::gathered) RETURN_IF_ERROR(check_readable({Buffer::gathered, rank}));
      else RETURN_IF_ERROR(check_shown_by(rank));
    }
    return check_writable();
  }

  Status check_flag() const {
    if (step_.flag < 0 || step_.flag >= max_flags)
      return fail(fmt::format("there are flags 0 to {} only", max_flags - 1));
    if (step_.kind == StepKind::publish) return Status::success();
    if (step_.peer != everyone) RETURN_IF_ERROR(check_one_peer());
    const Team team(schedule_, step_);
    for (int index = 0; index < team.size(); ++index) RETURN_IF_ERROR(check_on_my_host(team[index]));
    return Status::success();
  }

  std::span<const Schedule> all_ranks_;
  const Schedule& schedule_;
  int index_;
  const Step& step_;
};

using FlagSteps = std::array<int, max_flags>;  // the step that publishes each flag, or -1

Status find_publications(const Schedule& schedule, FlagSteps& publications) {
  publications.fill(-1);
  for (int index = 0; index < static_cast<int>(schedule.steps.size()); ++index) {
    const Step& step = schedule.steps[index];
    if (step.kind != StepKind::publish) continue;
    if (publications[step.flag] >= 0)
      return broken(schedule, index, fmt::format("step {} has published this flag already", publications[step.flag]));
    publications[step.flag] = index;
  }
  return Status::success();
}

Status check_awaits(const Schedule& schedule, std::span<const FlagSteps> publications) {
  for (int index = 0; index < static_cast<int>(schedule.steps.size()); ++index) {
    const Step& step = schedule.steps[index];
    if (step.kind != StepKind::await) continue;
    const Team team(schedule, step);
    for (int member = 0; member < team.size(); ++member)
      if (const int peer = team[member]; peer != schedule.place.rank && publications[peer][step.flag] < 0)
        return broken(schedule, index, fmt::format("rank {} never publishes flag {}", peer, step.flag));
  }
  return Status::success();
}

}  // namespace

Status check_shape(std::span<const Schedule> all_ranks) {
  const int ranks = static_cast<int>(all_ranks.size());
  if (ranks == 0) return Status(ErrorCode::internal, "there is no schedule to verify");
  for (int rank = 0; rank < ranks; ++rank) RETURN_IF_ERROR(check_header(all_ranks, rank));
  for (int rank = 0; rank < ranks; ++rank)
    for (int step = 0; step < static_cast<int>(all_ranks[rank].steps.size()); ++step)
      RETURN_IF_ERROR(StepCheck(all_ranks, rank, step).check());
  std::vector<FlagSteps> publications(ranks);
  for (int rank = 0; rank < ranks; ++rank) RETURN_IF_ERROR(find_publications(all_ranks[rank], publications[rank]));
  for (const Schedule& schedule : all_ranks) RETURN_IF_ERROR(check_awaits(schedule, publications));
  return Status::success();
}

}  // namespace unisono
