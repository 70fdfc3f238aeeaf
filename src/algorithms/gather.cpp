// gather: the root gets everybody's piece.
#include "algorithms/algorithms.hpp"
#include "algorithms/neighbours.hpp"
#include "schedule/builder.hpp"

namespace unisono {

// Direct gather: everybody shows its piece, the root reads them all.
//
// Rounds: 2.  Read by the root: n-1 pieces, which is what it costs.
// The root's flag says that everybody has come to this tile, and so has left the one whose slots are written next: the
// others wait for that, but not for the reading.
Schedule direct_gather(Place me) {
  Builder plan(Collective::gather, "direct", me);
  if (is_root(me)) {
    plan.copy(input(0), output(me.rank));
    plan.await(everyone, 0);
    plan.publish(1);
    for_each_peer(me, [&](int peer) { plan.read_peer(peer, stage(0), output(peer)); });
  } else {
    plan.copy(input(0), stage(0));
    plan.publish(0);
    plan.await(me.root, 1);
  }
  return plan.finish(/*stage_slots=*/1);
}

// Direct gather without staging: the root reads the pieces where they lie, and says when it has.
//
// Rounds: 2.  Read by the root: n-1 pieces.
Schedule direct_read_gather(Place me) {
  Builder plan(Collective::gather, "direct_read", me);
  if (is_root(me)) {
    plan.copy(input(0), output(me.rank));
    plan.await(everyone, 0);
    for_each_peer(me, [&](int peer) { plan.read_peer(peer, input(0), output(peer)); });
    plan.publish(1);
  } else {
    plan.publish(0);
    plan.await(me.root, 1);
  }
  return plan.finish();
}

// Linear gather: everybody sends its piece to the root.
//
// Rounds: 1.  Received by the root: n-1 pieces, which no other way over links can spare it.
Schedule linear_gather(Place me) {
  Builder plan(Collective::gather, "linear", me);
  if (is_root(me)) {
    plan.copy(input(0), output(me.rank));
    for_each_peer(me, [&](int peer) { plan.receive(peer, output(peer)); });
  } else {
    plan.send(me.root, input(0));
  }
  return plan.finish();
}

}  // namespace unisono
