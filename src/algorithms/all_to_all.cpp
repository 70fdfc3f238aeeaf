// all_to_all: rank r gets piece r of everybody's input.
#include "algorithms/algorithms.hpp"
#include "algorithms/neighbours.hpp"
#include "schedule/builder.hpp"

namespace unisono {

// Direct all_to_all: show every piece, wait until everybody has, read yours from each.
//
// Rounds: 1.  Read per rank: n-1 pieces.  The own piece is put in place while the others arrive.
Schedule direct_all_to_all(Place me) {
  Builder plan(Collective::all_to_all, "direct", me);
  for_each_peer(me, [&](int peer) { plan.copy(input(peer), stage(peer)); });
  plan.publish(0);
  plan.copy(input(me.rank), output(me.rank));
  plan.await(everyone, 0);
  for_each_peer(me, [&](int peer) { plan.read_peer(peer, stage(me.rank), output(peer)); });
  return plan.finish(/*stage_slots=*/me.ranks);
}

// Direct all_to_all without staging: pieces are read where they lie.
//
// Rounds: 2, the second so that nobody returns while a peer still reads.  Read per rank: n-1 pieces.
Schedule direct_read_all_to_all(Place me) {
  Builder plan(Collective::all_to_all, "direct_read", me);
  plan.publish(0);
  plan.copy(input(me.rank), output(me.rank));
  plan.await(everyone, 0);
  for_each_peer(me, [&](int peer) { plan.read_peer(peer, input(me.rank), output(peer)); });
  plan.publish(1);
  plan.await(everyone, 1);
  return plan.finish();
}

// Pairwise all_to_all: in round d everybody sends to the rank d places to the right and receives from the one d to the left.
//
// Rounds: n-1, none of which waits for another.  Sent per rank: n-1 pieces.  No two ranks send to the same one at a time.
Schedule pairwise_all_to_all(Place me) {
  Builder plan(Collective::all_to_all, "pairwise", me);
  plan.copy(input(me.rank), output(me.rank));
  for (int distance = 1; distance < me.ranks; ++distance) {
    const int to = wrapped(me.rank + distance, me), from = wrapped(me.rank - distance, me);
    plan.send(to, input(to));
    plan.receive(from, output(from));
  }
  return plan.finish();
}

}  // namespace unisono
