// The verbs of builder.hpp. Nothing is judged here: verify.cpp does that for whole sets of schedules.
#include "schedule/builder.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace unisono {
namespace {

bool serves_peers_only(const Step& step) {
  return step.kind == StepKind::publish || step.kind == StepKind::await ||
         (step.kind == StepKind::copy && step.target.buffer == Buffer::stage);
}

int scratch_used(const Schedule& schedule) {
  int used = 0;
  for (const Step& step : schedule.steps)
    if (step.target.buffer == Buffer::scratch) used = std::max(used, step.target.chunk + 1);
  return used;
}

bool gathers(const Schedule& schedule) {
  return std::ranges::any_of(schedule.steps, [](const Step& step) { return step.target.buffer == Buffer::gathered; });
}

}  // namespace

Builder::Builder(Collective collective, std::string_view algorithm, Place place, int chunks) {
  schedule_.collective = collective;
  schedule_.algorithm = std::string(algorithm);
  schedule_.place = place;
  schedule_.chunks = chunks;
}

void Builder::send(int peer, ChunkRef source) { add({.kind = StepKind::send, .peer = peer, .source = source}); }

void Builder::receive(int peer, ChunkRef target) { add({.kind = StepKind::receive, .peer = peer, .target = target}); }

void Builder::receive_reduce(int peer, ChunkRef target, Sum sum) {
  add({.kind = StepKind::receive_reduce, .peer = peer, .target = target, .completes = sum == Sum::complete});
}

void Builder::copy(ChunkRef source, ChunkRef target) {
  add({.kind = StepKind::copy, .source = source, .target = target});
}

void Builder::contribute(ChunkRef source, ChunkRef target) {
  add({.kind = StepKind::copy, .source = source, .target = target, .scales = true});
}

void Builder::reduce(ChunkRef source, ChunkRef target, Sum sum) {
  add({.kind = StepKind::reduce, .source = source, .target = target, .completes = sum == Sum::complete});
}

void Builder::publish(int flag) { add({.kind = StepKind::publish, .flag = flag}); }

void Builder::await(int peer, int flag) { add({.kind = StepKind::await, .peer = peer, .flag = flag}); }

void Builder::await_team(int team, int flag) { add({.kind = StepKind::await, .team = team, .flag = flag}); }

void Builder::read_peer(int peer, ChunkRef source, ChunkRef target) {
  add({.kind = StepKind::read_peer, .peer = peer, .source = source, .target = target});
}

void Builder::reduce_peers(ChunkRef own, ChunkRef source, ChunkRef target, Combining how) {
  add({.kind = StepKind::reduce_peers,
       .team = how.team,
       .source = source,
       .own = own,
       .target = target,
       .scales = how.scales,
       .completes = how.sum == Sum::complete});
}

int Builder::team(std::vector<int> ranks) {
  if (static_cast<int>(ranks.size()) == schedule_.place.ranks) return everyone;
  std::vector<std::vector<int>>& teams = schedule_.teams;
  const auto known = std::ranges::find(teams, ranks);
  const auto number = static_cast<int>(known - teams.begin());
  if (known == teams.end()) teams.push_back(std::move(ranks));
  return number;
}

Schedule Builder::finish(int stage_slots, int partial_slots) {
  const bool alone = schedule_.place.ranks == 1;
  if (alone) std::erase_if(schedule_.steps, serves_peers_only);
  schedule_.stage_slots = alone ? 0 : stage_slots;
  schedule_.partial_slots = alone ? 0 : partial_slots;
  schedule_.scratch_chunks = scratch_used(schedule_);
  schedule_.gathered_chunks = gathers(schedule_) ? schedule_.place.ranks : 0;
  return std::move(schedule_);
}

}  // namespace unisono
