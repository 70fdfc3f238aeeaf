// broadcast: everybody gets the root's data. The root's output is its input, so it copies nothing to itself.
#include "algorithms/algorithms.hpp"
#include "algorithms/neighbours.hpp"
#include "algorithms/rows.hpp"
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

// Binomial broadcast: see give_from_first, in the row from the root on.
//
// Rounds: ⌈log2 n⌉.  Sent by the root: ⌈log2 n⌉ times the data.  Best over links when the data is small.
Schedule binomial_broadcast(Place me) {
  Builder plan(Collective::broadcast, "binomial", me);
  give_from_first(plan, row_of_all(me, me.root), is_root(me) ? input(0) : output(0));
  return plan.finish();
}

// Chain broadcast: the data goes from rank to rank in parts, each passed on while the next arrives.
//
// Rounds: n-1, in which the parts follow each other.  Sent per rank: the data, once.  Best over links when the data is large.
Schedule chain_broadcast(Place me) {
  constexpr int parts = 8;
  Builder plan(Collective::broadcast, "chain", me, parts);
  const bool is_last = right_of(me) == me.root;
  for (int part = 0; part < parts; ++part) {
    if (!is_root(me)) plan.receive(left_of(me), output(part));
    if (!is_last) plan.send(right_of(me), is_root(me) ? input(part) : output(part));
  }
  return plan.finish();
}

}  // namespace unisono
