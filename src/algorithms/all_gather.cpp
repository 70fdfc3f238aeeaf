// all_gather: everybody gets everybody's piece.
#include "algorithms/algorithms.hpp"
#include "algorithms/neighbours.hpp"
#include "schedule/builder.hpp"

namespace unisono {

// Direct all_gather: show your piece, wait until everybody has, read all the others.
//
// Rounds: 1.  Read per rank: n-1 pieces.  The own piece is put in place while the others arrive.
Schedule direct_all_gather(Place me) {
  Builder plan(Collective::all_gather, "direct", me);
  plan.copy(input(0), stage(0));
  plan.publish(0);
  plan.copy(input(0), output(me.rank));
  plan.await(everyone, 0);
  for_each_peer(me, [&](int peer) { plan.read_peer(peer, stage(0), output(peer)); });
  return plan.finish(/*stage_slots=*/1);
}

// Direct all_gather without staging: pieces are read where they lie.
//
// Rounds: 2, the second so that nobody returns while a peer still reads.  Read per rank: n-1 pieces.
Schedule direct_read_all_gather(Place me) {
  Builder plan(Collective::all_gather, "direct_read", me);
  plan.publish(0);
  plan.copy(input(0), output(me.rank));
  plan.await(everyone, 0);
  for_each_peer(me, [&](int peer) { plan.read_peer(peer, input(0), output(peer)); });
  plan.publish(1);
  plan.await(everyone, 1);
  return plan.finish();
}

// Ring all_gather: pass on to the right what came from the left.
//
// Rounds: n-1.  Sent per rank: n-1 pieces.  Best when pieces are large: every link is busy all the time.
Schedule ring_all_gather(Place me) {
  Builder plan(Collective::all_gather, "ring", me);
  plan.copy(input(0), output(me.rank));
  for (int round = 0; round < me.ranks - 1; ++round) {
    const ChunkRef passed = round == 0 ? input(0) : output(chunk_at(me.rank - round, me));
    plan.send(right_of(me), passed);
    plan.receive(left_of(me), output(chunk_at(me.rank - round - 1, me)));
  }
  return plan.finish();
}

}  // namespace unisono
