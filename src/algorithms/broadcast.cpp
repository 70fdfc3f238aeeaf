// broadcast: everybody gets the root's data. The root's output is its input, so it copies nothing to itself.
#include "algorithms/algorithms.hpp"
#include "algorithms/neighbours.hpp"
#include "schedule/builder.hpp"

namespace unisono {

// Direct broadcast: the root shows its data, the others read it.
//
// Rounds: 1.  Read per rank: the data, once.  With tiles in flight the root stages the next tile while this one is
// read, so the whole takes about as long as one copy. The first reader brings a line into the cache that all cores
// share, so spreading the data over the others first gains nothing on one machine. Flag 1 says that a rank has come to
// this tile, and so has left the one whose slot the root writes next: the root waits for that, but not for the reading.
Schedule direct_broadcast(Place me) {
  Builder plan(Collective::broadcast, "direct", me);
  if (is_root(me)) {
    plan.copy(input(0), stage(0));
    plan.publish(0);
    plan.await(everyone, 1);
  } else {
    plan.publish(1);
    plan.await(me.root, 0);
    plan.read_peer(me.root, stage(0), output(0));
  }
  return plan.finish(/*stage_slots=*/1);
}

// Direct broadcast without staging: the others read the root's data where it lies.
//
// Rounds: 2.  Read per rank: the data, once.  The root only waits until everybody has said that it has it.
Schedule direct_read_broadcast(Place me) {
  Builder plan(Collective::broadcast, "direct_read", me);
  if (is_root(me)) {
    plan.publish(0);
    plan.await(everyone, 1);
  } else {
    plan.await(me.root, 0);
    plan.read_peer(me.root, input(0), output(0));
    plan.publish(1);
  }
  return plan.finish();
}

}  // namespace unisono
