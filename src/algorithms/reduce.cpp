// reduce: the root gets the sum of everybody's data.
#include "algorithms/algorithms.hpp"
#include "algorithms/collect.hpp"
#include "algorithms/neighbours.hpp"
#include "algorithms/rows.hpp"
#include "schedule/builder.hpp"

namespace unisono {

// Direct reduce: everybody shows its data, the root adds it up in one pass.
//
// Rounds: 2.  Read by the root: (n-1) times the data; by the others nothing.  Best for small data or two ranks.
// The root's flag says that everybody has come to this tile, and so has left the one whose slots are written next: the
// others wait for that, but not for the additions.
Schedule direct_reduce(Place me) {
  Builder plan(Collective::reduce, "direct", me);
  if (is_root(me)) {
    plan.await(everyone, 0);
    plan.publish(1);
    plan.reduce_peers(input(0), stage(0), output(0));
  } else {
    plan.copy(input(0), stage(0));
    plan.publish(0);
    plan.await(me.root, 1);
  }
  return plan.finish(/*stage_slots=*/1);
}

// Two-shot reduce: rank r owns chunk r.
//
//   phase 1  show every chunk to its owner; the owner adds all contributions in one pass
//   phase 2  owners show the sums; the root collects them
//
// Rounds: 2.  Read by the root: 2(n-1)/n of the data; by the others (n-1)/n.  Best for large data: the additions are
// shared. Phase 1 of tile t + window tells everybody that tile t was left, so nobody needs an acknowledgement.
Schedule two_shot_reduce(Place me) {
  Builder plan(Collective::reduce, "two_shot", me, /*chunks=*/me.ranks);
  const int mine = me.rank;
  for_each_peer(me, [&](int owner) { plan.copy(input(owner), stage(owner)); });
  plan.publish(0);
  plan.await(everyone, 0);
  plan.reduce_peers(input(mine), stage(mine), is_root(me) ? output(mine) : stage(mine));
  if (is_root(me)) {
    plan.await(everyone, 1);
    for_each_peer(me, [&](int owner) { plan.read_peer(owner, stage(owner), output(owner)); });
  } else {
    plan.publish(1);
  }
  return plan.finish(/*stage_slots=*/me.ranks);
}

// Binomial reduce: see add_to_first.
//
// Rounds: ⌈log2 n⌉, and one more where the root is not rank 0.  Sent per rank: the data, once.  Best over links.
// The additions follow the canonical tree, which ends at rank 0, and sums travel as partials: every dtype keeps the bits of one pass.
Schedule binomial_reduce(Place me) {
  Builder plan(Collective::reduce, "binomial", me);
  if (me.ranks == 1) {
    plan.reduce_peers(input(0), input(0), output(0));
    return plan.finish();
  }
  plan.carry_partials();
  plan.contribute(input(0), scratch(0));
  add_to_first(plan, row_of_all(me), scratch(0));
  if (me.root != 0 && me.rank == 0) plan.send(me.root, scratch(0));
  if (me.root != 0 && is_root(me)) plan.receive(0, scratch(0));
  if (is_root(me)) plan.copy(scratch(0), output(0));
  return plan.finish();
}

// Collecting reduce: as collecting all_reduce, but the owners give their sums to the root alone.
//
// Rounds: 2.  Sent per rank: the data, once.  Nothing is rounded on the way: every dtype keeps the bits of one pass.
Schedule collecting_reduce(Place me) {
  Builder plan(Collective::reduce, "collecting", me, /*chunks=*/me.ranks);
  const int mine = me.rank;
  if (is_root(me)) {
    collect(plan, me, output(mine));
    for_each_peer(me, [&](int owner) { plan.receive(owner, output(owner)); });
  } else {
    collect(plan, me, scratch(mine));
    plan.send(me.root, scratch(mine));
  }
  return plan.finish();
}

}  // namespace unisono
