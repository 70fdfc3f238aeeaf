// scan and exscan: rank r gets the sum of the data of ranks 0 to r, or to r - 1.
#include <numeric>
#include <vector>

#include "algorithms/algorithms.hpp"
#include "schedule/builder.hpp"

namespace unisono {
namespace {

// The ranks below me; with me those that a scan adds up.
Combining of_lower_ranks(Builder& plan, int count) {
  std::vector<int> ranks(static_cast<size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0);
  return {.team = plan.team(std::move(ranks)), .sum = Sum::partial};
}

// Everybody waits for everybody, not only for the ranks below: that is how rank 0 learns that its slots may be written
// again. Nobody reads what the last rank gives.
void show_to_higher_ranks(Builder& plan, const Place& me) {
  if (me.rank + 1 < me.ranks) plan.copy(input(0), stage(0));
  plan.publish(0);
  plan.await(everyone, 0);
}

}  // namespace

// Direct scan: show your data, wait until everybody has, add up that of the ranks up to you in one pass.
//
// Rounds: 1.  Read by rank r: r times the data, so (n-1)/2 times on average.  Every sum follows the canonical tree over
// its own ranks; since that of a few ranks is no part of that of one more, no rank can build on another's sum.
Schedule direct_scan(Place me) {
  Builder plan(Collective::scan, "direct", me);
  show_to_higher_ranks(plan, me);
  plan.reduce_peers(input(0), stage(0), output(0), of_lower_ranks(plan, me.rank + 1));
  return plan.finish(/*stage_slots=*/1);
}

// Direct exscan: the same without your own data; rank 0 gets nothing.
//
// Rounds: 1.  Read by rank r: r times the data.
Schedule direct_exscan(Place me) {
  Builder plan(Collective::exscan, "direct", me);
  show_to_higher_ranks(plan, me);
  if (me.rank > 0) plan.reduce_peers(nothing, stage(0), output(0), of_lower_ranks(plan, me.rank));
  return plan.finish(/*stage_slots=*/1);
}

// Chain scan: the sum goes from rank to rank, and each adds its own.
//
// Rounds: n-1.  Sent per rank: the data, once, as partials.  Over links; the order is that of the ranks, but not the canonical tree.
Schedule chain_scan(Place me) {
  Builder plan(Collective::scan, "chain", me);
  if (me.ranks == 1) {
    plan.reduce_peers(input(0), input(0), output(0), {.sum = Sum::partial});
    return plan.finish();
  }
  plan.carry_partials();
  plan.contribute(input(0), partial(0));
  if (me.rank > 0) plan.receive_reduce(me.rank - 1, partial(0));
  if (me.rank + 1 < me.ranks) plan.send(me.rank + 1, partial(0));
  plan.copy(partial(0), output(0));
  return plan.finish();
}

namespace {

void collect_from_lower_ranks(Builder& plan, const Place& me) {
  for (int peer = me.rank + 1; peer < me.ranks; ++peer) plan.send(peer, input(0));
  for (int peer = me.rank - 1; peer >= 0; --peer) plan.receive(peer, gathered(peer));
}

}  // namespace

// Collecting scan: everybody gives its data to all higher ranks, and adds up all that it has in one pass.
//
// Rounds: 1.  Sent by rank r: n-1-r times the data.  Every dtype keeps the bits of one pass.
Schedule collecting_scan(Place me) {
  Builder plan(Collective::scan, "collecting", me);
  collect_from_lower_ranks(plan, me);
  plan.reduce_peers(input(0), all_gathered, output(0), of_lower_ranks(plan, me.rank + 1));
  return plan.finish();
}

// Collecting exscan: the same without your own data.
//
// Rounds: 1.  Sent by rank r: n-1-r times the data.
Schedule collecting_exscan(Place me) {
  Builder plan(Collective::exscan, "collecting", me);
  collect_from_lower_ranks(plan, me);
  if (me.rank > 0) plan.reduce_peers(nothing, all_gathered, output(0), of_lower_ranks(plan, me.rank));
  return plan.finish();
}

// Chain exscan: the same, one rank behind.
//
// Rounds: n-1.  Sent per rank: the data, twice: once to be kept, and once to be added to and passed on.
Schedule chain_exscan(Place me) {
  Builder plan(Collective::exscan, "chain", me);
  const bool passes_on = me.rank + 1 < me.ranks, next_passes_on = me.rank + 2 < me.ranks;
  plan.carry_partials();
  if (passes_on) plan.contribute(input(0), scratch(0));
  if (me.rank > 0) plan.receive(me.rank - 1, partial(0));
  if (me.rank > 0 && passes_on) plan.receive_reduce(me.rank - 1, scratch(0));
  if (passes_on) plan.send(me.rank + 1, scratch(0));
  if (next_passes_on) plan.send(me.rank + 1, scratch(0));
  if (me.rank > 0) plan.copy(partial(0), output(0));
  return plan.finish();
}

}  // namespace unisono
