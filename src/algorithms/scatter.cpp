// scatter: rank r gets piece r of the root's input.
#include "algorithms/algorithms.hpp"
#include "algorithms/neighbours.hpp"
#include "schedule/builder.hpp"

namespace unisono {

// Direct scatter: the root shows all pieces but its own; each rank reads its piece.
//
// Rounds: 1.  Read per rank: one piece.  Staged by the root: n-1 pieces, which is what it costs.
// Flag 1 says that a rank has come to this tile, and so has left the one whose slots the root writes next: the root
// waits for that, but not for the reading.
Schedule direct_scatter(Place me) {
  Builder plan(Collective::scatter, "direct", me);
  if (is_root(me)) {
    for_each_peer(me, [&](int peer) { plan.copy(input(peer), stage(peer)); });
    plan.publish(0);
    plan.copy(input(me.rank), output(0));
    plan.await(everyone, 1);
  } else {
    plan.publish(1);
    plan.await(me.root, 0);
    plan.read_peer(me.root, stage(me.rank), output(0));
  }
  return plan.finish(/*stage_slots=*/me.ranks);
}

// Direct scatter without staging: each rank reads its piece where it lies, all at the same time, and says when it has.
//
// Rounds: 2.  Read per rank: one piece.
Schedule direct_read_scatter(Place me) {
  Builder plan(Collective::scatter, "direct_read", me);
  if (is_root(me)) {
    plan.publish(0);
    plan.copy(input(me.rank), output(0));
    plan.await(everyone, 1);
  } else {
    plan.await(me.root, 0);
    plan.read_peer(me.root, input(me.rank), output(0));
    plan.publish(1);
  }
  return plan.finish();
}

// Linear scatter: the root sends each rank its piece.
//
// Rounds: 1.  Sent by the root: n-1 pieces, which no other way over links can spare it.
Schedule linear_scatter(Place me) {
  Builder plan(Collective::scatter, "linear", me);
  if (is_root(me)) {
    for_each_peer(me, [&](int peer) { plan.send(peer, input(peer)); });
    plan.copy(input(me.rank), output(0));
  } else {
    plan.receive(me.root, output(0));
  }
  return plan.finish();
}

}  // namespace unisono
