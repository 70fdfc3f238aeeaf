// all_reduce among ranks that can read each other's memory. Those that send messages are in all_reduce_links.cpp.
#include "algorithms/algorithms.hpp"
#include "algorithms/neighbours.hpp"
#include "schedule/builder.hpp"

namespace unisono {

// One-shot all_reduce.
//
//   show your data, wait until everybody has, add up everything yourself
//
// Rounds: 1.  Read per rank: (n-1) times the data.  Best when the data is small: everybody does the same additions, but
// nobody waits twice. One slot set more than tiles in flight is enough without acknowledgements: when everybody has
// shown tile t + window, everybody has left tile t.
Schedule one_shot_all_reduce(Place me) {
  Builder plan(Collective::all_reduce, "one_shot", me);
  plan.copy(input(0), stage(0));
  plan.publish(0);
  plan.await(everyone, 0);
  plan.reduce_peers(input(0), stage(0), output(0));
  return plan.finish(/*stage_slots=*/1);
}

// Two-shot all_reduce: rank r owns chunk r.
//
//   phase 1  show every chunk to its owner; the owner adds all contributions in one pass
//   phase 2  owners show the sums; everybody copies them out
//
// Rounds: 2.  Read per rank: 2(n-1)/n of the data.  Each byte is staged once on its way to the owner and once on its
// way back; the own chunk is never staged in phase 1. The engine writes output and stage in one pass in phase 2.
Schedule two_shot_all_reduce(Place me) {
  Builder plan(Collective::all_reduce, "two_shot", me, /*chunks=*/me.ranks);
  const int mine = me.rank;
  for_each_peer(me, [&](int owner) { plan.copy(input(owner), stage(owner)); });
  plan.publish(0);
  plan.await(everyone, 0);
  plan.reduce_peers(input(mine), stage(mine), output(mine));
  plan.copy(output(mine), stage(mine));
  plan.publish(1);
  plan.await(everyone, 1);
  for_each_peer(me, [&](int owner) { plan.read_peer(owner, stage(owner), output(owner)); });
  return plan.finish(/*stage_slots=*/me.ranks);
}

// Two-shot all_reduce without staging: owners read the inputs where they lie, and everybody reads the owners' outputs.
//
// Rounds: 3, the last one so that nobody returns while a peer still reads.  Read per rank: 2(n-1)/n of the data.
// Nothing is copied on the way, but every read goes into a peer's own memory, which has to be permitted.
// In place is safe: chunk q of my input is overwritten only after flag 1 of rank q, which has read it by then.
Schedule two_shot_direct_all_reduce(Place me) {
  Builder plan(Collective::all_reduce, "two_shot_direct", me, /*chunks=*/me.ranks);
  const int mine = me.rank;
  plan.publish(0);
  plan.await(everyone, 0);
  plan.reduce_peers(input(mine), input(mine), output(mine));
  plan.publish(1);
  plan.await(everyone, 1);
  for_each_peer(me, [&](int owner) { plan.read_peer(owner, output(owner), output(owner)); });
  plan.publish(2);
  plan.await(everyone, 2);
  return plan.finish();
}

}  // namespace unisono
