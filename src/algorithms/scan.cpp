// scan and exscan: rank r gets the sum of the data of ranks 0 to r, or to r - 1.
#include "algorithms/algorithms.hpp"
#include "schedule/builder.hpp"

namespace unisono {
namespace {

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
  plan.reduce_up_to(input(0), stage(0), output(0));
  return plan.finish(/*stage_slots=*/1);
}

// Direct exscan: the same without your own data; rank 0 gets nothing.
//
// Rounds: 1.  Read by rank r: r times the data.
Schedule direct_exscan(Place me) {
  Builder plan(Collective::exscan, "direct", me);
  show_to_higher_ranks(plan, me);
  if (me.rank > 0) plan.reduce_below(stage(0), output(0));
  return plan.finish(/*stage_slots=*/1);
}

}  // namespace unisono
